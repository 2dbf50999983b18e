package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kapis.dev/ks-apiserver/pkg/iam/session"
)

// secrets are the Secrets of the namespace, which the test sets.
type secrets struct {
	list   corev1.SecretList
	events *watch.RaceFreeFakeWatcher
	asked  chan string
}

func (s *secrets) List(_ context.Context, o metav1.ListOptions) (*corev1.SecretList, error) {
	s.asked <- o.LabelSelector
	return &s.list, nil
}

func (s *secrets) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.asked <- o.LabelSelector
	return s.events, nil
}

func (*secrets) IsWatchListSemanticsUnSupported() bool { return true }

func clientSecret(name, configuration string, age time.Duration) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "5", CreationTimestamp: metav1.NewTime(startTime().Add(-age))},
		Data:       map[string][]byte{clientFile: []byte(configuration)},
	}
}

func TestClientsFollowTheirSecrets(t *testing.T) {
	s := &secrets{events: watch.NewRaceFreeFake(), asked: make(chan string, 10)}
	s.list.ResourceVersion = "1"
	s.list.Items = []corev1.Secret{
		*clientSecret("a", "name: harbor\nsecret: one\ntrusted: true\ngrantMethod: auto\naccessTokenMaxAgeSeconds: 700\naccessTokenInactivityTimeoutSeconds: 800\n",
			time.Hour),
		*clientSecret("b", "name: kubesphere\nsecret: from-secret\n", time.Hour),
		*clientSecret("bad", "name: [canary", time.Hour),
		*clientSecret("takeover", "name: harbor\nsecret: thief\n", time.Minute),
	}
	c, err := NewRegistry(s, []Client{{Name: "kubesphere", Secret: "file"}, {Name: "file", Secret: "file"}}, session.Lifetime{MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if c.Client("kubesphere").Secret != "file" || c.Synced() {
		t.Error("before the Secrets are read the file counts")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	defer func() { cancel(); <-done }()
	waitFor(t, func() bool { return c.Synced() && c.Client("harbor") != nil && len(c.Problems()) == 2 })
	if got := <-s.asked; got != clientSelector {
		t.Errorf("asked for %q", got)
	}
	if !c.Client("harbor").Secret.Matches("one") || !c.Client("kubesphere").Secret.Matches("from-secret") || c.Client("file") == nil || c.Client("nobody") != nil {
		t.Errorf("%v", c.table.Load().clients)
	}
	if l := c.Lifetime("harbor"); l.MaxAge != 700*time.Second || l.Inactivity != 800*time.Second {
		t.Errorf("%+v", l)
	}
	if l := c.Lifetime("nobody"); l.MaxAge != time.Hour {
		t.Errorf("%+v", l)
	}
	if p := strings.Join(c.Problems(), "\n"); strings.Contains(p, "canary") || !strings.Contains(p, "Secret bad:") || !strings.Contains(p, "Secret takeover:") {
		t.Error(p)
	}
	s.events.Modify(clientSecret("a", "name: [canary", time.Hour))
	waitFor(t, func() bool { return c.Client("harbor") == nil }) // and no other Secret's, either
	if l := c.Lifetime("harbor"); l.MaxAge != 700*time.Second {
		t.Errorf("by a mistake its sessions live for %v", l.MaxAge) // S12
	}
	s.events.Delete(clientSecret("a", "", time.Hour))
	waitFor(t, func() bool { cl := c.Client("harbor"); return cl != nil && cl.Secret.Matches("thief") })
	s.events.Modify(clientSecret("takeover", "name: harbor\nsecret: three\n", time.Minute))
	waitFor(t, func() bool { return c.Client("harbor").Secret.Matches("three") })
	s.events.Delete(clientSecret("b", "", time.Hour))
	waitFor(t, func() bool { return c.Client("kubesphere").Secret.Matches("file") })
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-t.Context().Done():
			t.Fatal("it never happened")
		case <-tick.C:
		}
	}
}

func TestClientThatIsWrongIsRefusedWithoutItsSecret(t *testing.T) {
	for name, s := range map[string]string{
		"empty":              "",
		"no YAML":            "\t: canary",
		"unknown key":        "name: a\nsecrets: canary\n",
		"key twice":          "name: a\nsecret: canary\nsecret: canary2\n",
		"no name":            "secret: canary\n",
		"name of many words": "name: \"a\\n\"\nsecret: canary\n",
		"secret of a type":   "name: a\nsecret: {x: canary}\n",
		"trusted and public": "name: a\ntrusted: true\n",
		"grant method":       "name: a\nsecret: canary\ngrantMethod: always\n",
		"age":                "name: a\nsecret: canary\naccessTokenMaxAgeSeconds: -1\n",
		"age of a type":      "name: a\nsecret: canary\naccessTokenMaxAgeSeconds: canary\n",
		"logout target":      "name: a\nsecret: canary\npostLogoutRedirectURIs: [\"javascript:canary\"]\n",
		"too long":           "name: a\nsecret: " + strings.Repeat("x", maxClientFile),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseClient([]byte(s)); err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := NewRegistry(nil, []Client{{Name: "a", Trusted: true}}, session.Lifetime{}); err == nil {
		t.Error("a wrong client of the file was accepted")
	}
}

// S57: no way of printing a client shows its secret.
func TestClientIsPrintedWithoutItsSecret(t *testing.T) {
	c := Client{Name: "a", Secret: "canary"}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{string(b), fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s", c, c, c, c.Secret), fmt.Sprintf("%+v", &c)} {
		if strings.Contains(s, "canary") {
			t.Error(s)
		}
	}
}

func TestEmptySecretMatchesNothing(t *testing.T) {
	for _, test := range []struct {
		stored, given string
		ok            bool
	}{{"a", "a", true}, {"a", "b", false}, {"a", "", false}, {"", "", false}, {"", "a", false}} {
		if Secret(test.stored).Matches(test.given) != test.ok {
			t.Errorf("%q, %q", test.stored, test.given)
		}
	}
}

func FuzzParseClient(f *testing.F) {
	for _, s := range []string{"name: a\nsecret: b\n", "", "{}", "name: [", "a: &a [*a]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := parseClient(b); err == nil && (c.Name == "" || c.Trusted && c.Secret == "") {
			t.Errorf("%q", b)
		}
	})
}

func startTime() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }
