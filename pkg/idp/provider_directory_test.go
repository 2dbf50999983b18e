package idp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// double is a provider whose settings are one key, and which records its calls.
type double struct {
	Answer string `json:"answer"`
	Key    Secret `json:"clientSecret"`
	opened int64
	closed atomic.Bool
	down   atomic.Bool
}

func (d *double) Check(context.Context) error {
	if d.down.Load() {
		return fmt.Errorf("%w: it is down", ErrUnavailable)
	}
	return nil
}

func (d *double) Close() error {
	d.closed.Store(true)
	return nil
}

func (d *double) Refresh(_ context.Context, subject, _ string) (*Identity, error) {
	return &Identity{Subject: subject, Groups: []string{d.Answer}}, nil
}

func doubles() (Type, *atomic.Int64) {
	var n atomic.Int64
	return Type{Name: "Double", Open: func(settings []byte, o OpenOptions) (Provider, error) {
		d := &double{opened: n.Add(1)}
		return d, Decode(settings, d)
	}}, &n
}

func secret(name string, age int, text string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kubesphere-system", CreationTimestamp: metav1.Unix(int64(1000-age), 0),
			Labels: map[string]string{"config.kubesphere.io/type": "identityprovider"}},
		Data: map[string][]byte{"configuration.yaml": []byte(text)},
	}
}

const right = "name: corp\ntype: Double\nmappingMethod: auto\nprovider:\n  answer: one\n  clientSecret: canary-77\n"

func emptyDirectory(file ...string) *Directory {
	typ, _ := doubles()
	o := DirectoryOptions{Types: []Type{typ}, Now: func() time.Time { return time.Unix(2000, 0) }}
	for _, f := range file {
		o.File = append(o.File, []byte(f))
	}
	return NewDirectory(o)
}

// U32: a wrong key, at either level, is a fault of its provider, which names the key; the others are not affected.
func TestAWrongProviderAffectsItselfAlone(t *testing.T) {
	for name, tc := range map[string]struct{ text, names string }{
		"UnknownKey":          {right + "scopez: x\n", "scopez"},
		"MisNestedKey":        {right + "clientSecret: canary-78\n", "clientSecret"},
		"UnknownProviderKey":  {right + "  scopez: canary-78\n", "scopez"},
		"WrongCase":           {right + "MappingMethod: auto\n", "MappingMethod"},
		"UnknownType":         {strings.Replace(right, "Double", "Other", 1), "type"},
		"NoType":              {strings.Replace(right, "type: Double\n", "", 1), "type"},
		"UnknownMapping":      {strings.Replace(right, "auto", "automatic", 1), "mappingMethod"},
		"ValueOfAnotherType":  {strings.Replace(right, "answer: one", "answer: {canary-78: 1}", 1), "answer"},
		"HiddenIsNotABoolean": {right + "hidden: canary-78\n", "hidden"},
	} {
		t.Run(name, func(t *testing.T) {
			d := emptyDirectory()
			d.set(secret("good", 5, strings.Replace(right, "corp", "good", 1)))
			d.set(secret("corp", 1, tc.text))
			e := d.Entry("corp")
			if e == nil || e.Provider != nil || e.Fault == nil || !strings.Contains(e.Fault.Error(), tc.names) {
				t.Fatalf("%+v", e)
			}
			if e := d.Entry("good"); !e.Usable() || e.Fault != nil {
				t.Errorf("the other one: %+v", e)
			}
			said := fmt.Sprint(e.Fault, d.Problems(), d.Status("corp").Conditions)
			if strings.Contains(said, "canary") {
				t.Errorf("a value shows: %s", said)
			}
			if len(d.Problems()) != 1 || !strings.Contains(d.Problems()[0], "Secret corp") || !strings.Contains(d.Problems()[0], tc.names) {
				t.Errorf("problems %q", d.Problems())
			}
			if c := d.Status("corp").Conditions[0]; c.Type != ConditionConfigured || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, tc.names) {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestAProviderWithoutANameIsAProblemOnly(t *testing.T) {
	for _, name := range []string{"", strings.Repeat("x", 46), "a/b", "a b", "-a", "é"} {
		d := emptyDirectory()
		d.set(secret("s", 1, strings.Replace(right, "corp", `"`+name+`"`, 1)))
		if len(d.Entries()) != 0 || len(d.Problems()) != 1 || !strings.Contains(d.Problems()[0], "name") {
			t.Errorf("%q: %v, %q", name, d.Entries(), d.Problems())
		}
	}
	d := emptyDirectory()
	d.set(secret("s", 1, "{{{"))
	if len(d.Entries()) != 0 || len(d.Problems()) != 1 {
		t.Errorf("%v, %q", d.Entries(), d.Problems())
	}
}

func TestAnOlderProviderIsNotTakenOver(t *testing.T) {
	d := emptyDirectory()
	d.set(secret("old", 9, right))
	d.set(secret("new", 1, strings.Replace(right, "one", "two", 1)))
	answer := func() string { return d.Entry("corp").Provider.(*double).Answer }
	if answer() != "one" || len(d.Problems()) != 1 || !strings.Contains(d.Problems()[0], "Secret new") {
		t.Errorf("%s, %q", answer(), d.Problems())
	}
	d.set(secret("old", 9, right+"scopez: 1\n")) // its name stays reserved while it is wrong
	if e := d.Entry("corp"); e.Usable() {
		t.Error("the new one took the name while the old one is wrong")
	}
	d.remove("old")
	if answer() != "two" || len(d.Problems()) != 0 {
		t.Errorf("%s, %q", answer(), d.Problems())
	}
	d = emptyDirectory(right)
	d.set(secret("old", 9, strings.Replace(right, "one", "two", 1)))
	if answer() != "one" {
		t.Error("a Secret took over a provider of the file")
	}
}

// A provider that a change does not touch keeps its connections; a replaced one is closed.
func TestOnlyWhatChangesIsOpenedAgain(t *testing.T) {
	d := emptyDirectory()
	d.set(secret("s", 1, right))
	first := d.Entry("corp").Provider.(*double)
	_ = d.Check(t.Context(), "corp")
	d.set(secret("s", 1, right+"displayName: Corp\nhidden: true\n"))
	e := d.Entry("corp")
	if e.Provider != Provider(first) || first.closed.Load() || e.DisplayName != "Corp" || !e.Hidden || d.Status("corp").Checked.IsZero() {
		t.Errorf("%+v", e)
	}
	d.set(secret("s", 1, strings.Replace(right, "one", "two", 1)))
	second := d.Entry("corp").Provider.(*double)
	if second == first || !first.closed.Load() || second.Answer != "two" {
		t.Errorf("%+v, %+v", first, second)
	}
	d.remove("s")
	if d.Entry("corp") != nil || !second.closed.Load() {
		t.Error("it is not gone")
	}
}

func TestMappings(t *testing.T) {
	for text, want := range map[string]Mapping{
		"": MapManual, "mappingMethod: manual": MapManual, "mappingMethod: auto": MapAuto, "mappingMethod: lookup": MapLookup, "mappingMethod: mixed": MapMixed,
		// Release 3 had users confirm, unless this was set.
		"disableLoginConfirmation: true": MapAuto, "disableLoginConfirmation: false": MapManual,
		"mappingMethod: auto\ndisableLoginConfirmation: true":   MapAuto,
		"mappingMethod: auto\ndisableLoginConfirmation: false":  MapManual,
		"mappingMethod: lookup\ndisableLoginConfirmation: true": MapLookup,
		"mappingMethod: mixed\ndisableLoginConfirmation: false": MapMixed,
	} {
		d := emptyDirectory(strings.Replace(right, "mappingMethod: auto", text, 1))
		if e := d.Entry("corp"); !e.Usable() || e.Mapping != want {
			t.Errorf("%q: %+v, want %s", text, e, want)
		}
	}
}

// S12: sessions of a disabled or removed provider end; those of a wrongly configured one go on.
func TestEnabled(t *testing.T) {
	d := emptyDirectory()
	d.options.Secrets = listed{}
	d.set(secret("a", 1, right))
	d.set(secret("b", 1, strings.Replace(right, "corp", "closed", 1)+"disabled: true\n"))
	d.set(secret("c", 1, strings.Replace(right, "corp", "wrong", 1)+"scopez: 1\n"))
	if d.Enabled("gone") || d.Synced() {
		t.Error("before the Secrets are read, a provider of theirs may be disabled, and counts")
	}
	if _, err := d.Refresh(t.Context(), "gone", "jane", ""); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrGone) {
		t.Errorf("asked before the Secrets are read: %v", err)
	}
	d.synced.Store(true)
	for name, want := range map[string]bool{"corp": true, "closed": false, "wrong": true, "gone": false, "": false} {
		if d.Enabled(name) != want {
			t.Errorf("%q: want %v", name, want)
		}
	}
	for name, text := range map[string]string{"AKeyTwice": right + "mappingMethod: auto\n", "NoYAML": "{{{", "NoName": "type: double\n"} { // S12
		d.set(secret("a", 1, text))
		d.set(secret("d", 0, right))
		if !d.Enabled("corp") || d.Entry("corp").Fault == nil {
			t.Errorf("%s: a mistake ends the sessions of its users, or gives the name to another Secret", name)
		}
		d.remove("d")
	}
	d.set(secret("a", 1, right))
	var none *Directory
	if none.Enabled("x") || none.Entry("x") != nil || none.Entries() != nil || none.Status("x") != nil || !none.Synced() || none.Problems() != nil ||
		none.Proxies() != nil {
		t.Error("no directory has something")
	}
	for name, want := range map[string]error{"gone": ErrGone, "closed": ErrGone, "wrong": ErrUnavailable, "corp": nil} {
		if id, err := d.Refresh(t.Context(), name, "jane", ""); !errors.Is(err, want) || want == nil && id.Groups[0] != "one" {
			t.Errorf("%s: %v, %v", name, id, err)
		}
	}
}

// A provider that can't be asked about users reports that, which is no outage.
func TestProviderThatCannotBeAskedSaysSo(t *testing.T) {
	typ, _ := doubles()
	mute := Type{Name: typ.Name, Open: func(settings []byte, o OpenOptions) (Provider, error) {
		p, err := typ.Open(settings, o)
		return struct{ Provider }{p}, err
	}}
	d := NewDirectory(DirectoryOptions{Types: []Type{mute}, File: [][]byte{[]byte(right)}})
	if id, err := d.Refresh(t.Context(), "corp", "jane", ""); id != nil || !errors.Is(err, ErrUnaskable) || errors.Is(err, ErrUnavailable) ||
		errors.Is(err, ErrGone) {
		t.Errorf("%v, %v", id, err)
	}
}

func TestStatusTellsWhenAndWhy(t *testing.T) {
	now := time.Unix(5000, 0)
	d := emptyDirectory()
	d.options.Now = func() time.Time { return now }
	d.set(secret("s", 1, right))
	reachable := func() metav1.Condition { return d.Status("corp").Conditions[1] }
	if c := reachable(); c.Type != ConditionReachable || c.Status != metav1.ConditionUnknown {
		t.Errorf("%+v", c)
	}
	d.checkAll(t.Context(), false)
	if c := reachable(); c.Status != metav1.ConditionTrue || !c.LastTransitionTime.Time.Equal(now) {
		t.Errorf("%+v", c)
	}
	d.Entry("corp").Provider.(*double).down.Store(true)
	now = now.Add(time.Minute)
	d.checkAll(t.Context(), false)
	if reachable().Status != metav1.ConditionTrue {
		t.Error("one that was checked is checked again out of turn")
	}
	d.checkAll(t.Context(), true)
	first := now
	now = now.Add(time.Minute)
	d.checkAll(t.Context(), true)
	if c := reachable(); c.Status != metav1.ConditionFalse || c.Reason != "Unavailable" || !c.LastTransitionTime.Time.Equal(first) || !d.Status("corp").
		Checked.Equal(now) {
		t.Errorf("%+v, checked %v", c, d.Status("corp").Checked)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	d.Entry("corp").Provider.(*double).down.Store(false)
	if _ = d.Check(gone, "corp"); reachable().Status != metav1.ConditionFalse {
		t.Error("a check that nobody waited for says something")
	}
}

// listed are Secrets of a server that does not support streaming lists, as the fake one does not.
type listed struct {
	typedcorev1.SecretInterface
}

func (listed) IsWatchListSemanticsUnSupported() bool { return true }

// With the real informer: Secrets are added, changed and deleted, and Secrets of other types are ignored.
func TestSecretsAreFollowed(t *testing.T) {
	client := fake.NewClientset(secret("s", 1, right))
	typ, _ := doubles()
	secrets := listed{client.CoreV1().Secrets("kubesphere-system")}
	d := NewDirectory(DirectoryOptions{Types: []Type{typ}, Secrets: secrets})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		d.Run(ctx)
		close(done)
	}()
	until := func(what string, ok func() bool) {
		t.Helper()
		deadline := time.After(2 * time.Minute)
		for !ok() {
			select {
			case <-deadline:
				t.Fatal(what)
			case <-time.After(time.Millisecond):
			}
		}
	}
	until("it is not there", func() bool { return d.Synced() && d.Entry("corp").Usable() })
	p := d.Entry("corp").Provider.(*double)
	until("it is not asked", func() bool { return !d.Status("corp").Checked.IsZero() })
	if _, err := secrets.Update(ctx, secret("s", 1, right+"disabled: true\n"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	until("it is not disabled", func() bool { return !d.Enabled("corp") })
	if err := secrets.Delete(ctx, "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("it is not gone", func() bool { return d.Entry("corp") == nil })
	until("it is not closed", p.closed.Load)
	cancel()
	<-done
}

func FuzzDefine(f *testing.F) {
	f.Add([]byte(right))
	f.Add([]byte("name: [1]"))
	f.Add([]byte("{{{"))
	f.Add([]byte("name: corp\nprovider: []"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		def := define(raw, "Secret x")
		if def.entry.Name == "" && def.entry.Fault == nil {
			t.Fatal("neither a name nor a fault")
		}
	})
}

// S21: the status shows that a certificate is not verified; it need not be read in the configuration or in an old log.
func TestAStatusSaysThatACertificateIsNotVerified(t *testing.T) {
	for configuration, want := range map[string]bool{
		right: false,
		"name: corp\ntype: double\nprovider: {insecureSkipVerify: true}\n":  true,
		"name: corp\ntype: double\nprovider: {insecureSkipVerify: false}\n": false,
	} {
		d := emptyDirectory()
		d.set(secret("s", 1, configuration))
		told := slices.ContainsFunc(d.Status("corp").Conditions, func(c metav1.Condition) bool {
			return c.Type == ConditionVerified && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "insecureSkipVerify")
		})
		if told != want {
			t.Errorf("%s: %v", configuration, told)
		}
	}
}
