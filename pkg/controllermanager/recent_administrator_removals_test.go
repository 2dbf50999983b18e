package controllermanager

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kapis.dev/ks-apiserver/pkg/admission"
	"kapis.dev/ks-apiserver/pkg/kube"
	"kapis.dev/ks-apiserver/pkg/store"
)

// Each replica sees the end that another one allowed, also one that was allowed after it had read.
func TestReplicasShareTheEndsOfAdministrators(t *testing.T) { // S72
	now := time.Unix(1000, 0)
	c := fake.NewClientBuilder().WithScheme(kube.Scheme()).Build()
	a := &administratorEnds{live: c, client: c, now: func() time.Time { return now }}
	b := &administratorEnds{live: c, client: c, now: func() time.Time { return now }}
	refused := errors.New("refused")
	calls := 0
	for _, both := range []string{"a new note", "one that is there"} {
		calls = 0
		err := b.Add(t.Context(), []string{"users/b"}, func(counts map[string]bool) error {
			if calls++; counts["users/a"] {
				return refused
			}
			return a.Add(t.Context(), []string{"users/a"}, func(counts map[string]bool) error { // between the reading and the writing
				if counts["users/b"] {
					t.Error("the other one counts before it is allowed")
				}
				return nil
			})
		})
		if !errors.Is(err, refused) || calls != 2 {
			t.Errorf("%s: %v after %d calls", both, err, calls)
		}
		now = now.Add(11 * time.Second) // then neither counts any more
	}
	if err := b.Add(t.Context(), nil, func(counts map[string]bool) error {
		if len(counts) > 0 {
			t.Errorf("%v count after a while", counts)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotAllowedIsNotedNowhere(t *testing.T) { // S72
	writes := 0
	count := func(err error) error { writes++; return err }
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(kube.Scheme()).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return count(c.Create(ctx, o, opts...))
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return count(c.Update(ctx, o, opts...))
		},
	})
	a := &administratorEnds{live: c, client: c, now: time.Now}
	refused := errors.New("refused")
	if err := a.Add(t.Context(), []string{"users/a"}, func(map[string]bool) error { return refused }); !errors.Is(err, refused) || writes != 0 {
		t.Errorf("%v, %d writes", err, writes)
	}
	if err := a.Add(t.Context(), nil, func(map[string]bool) error { return nil }); err != nil || writes != 0 { // a dry run
		t.Errorf("%v, %d writes", err, writes)
	}
}

// What somebody wrote there neither stops an end for long, nor is it taken for one that does not end.
func TestANoteThatCantBeReadCountsForNothing(t *testing.T) { // S72
	for name, text := range map[string]string{
		"NoJSON": "{", "NoTime": `{"users/a":"soon"}`, "OfAnotherClock": `{"users/a":"2100-01-01T00:00:00Z"}`, "Past": `{"users/a":"2001-01-01T00:00:00Z"}`,
	} {
		t.Run(name, func(t *testing.T) {
			stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: administratorEndsName},
				Data: map[string]string{administratorEndsKey: text}}
			c := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(stored).Build()
			a := &administratorEnds{live: c, client: c, now: time.Now}
			if err := a.Add(t.Context(), []string{"users/b"}, func(counts map[string]bool) error {
				if len(counts) > 0 {
					t.Errorf("%v", counts)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil || !strings.Contains(stored.Data[administratorEndsKey], "users/b") {
				t.Errorf("%v, %v", stored.Data, err)
			}
		})
	}
}

func TestWhatCantBeNotedIsNotAllowed(t *testing.T) { // S72
	down := errors.New("down")
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(kube.Scheme()).Build(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return down },
	})
	a := &administratorEnds{live: c, client: c, now: time.Now}
	if err := a.Add(t.Context(), []string{"users/a"}, func(map[string]bool) error { return nil }); !errors.Is(err, down) {
		t.Errorf("%v", err)
	}
}

type notedEnds struct{ ends []string }

func (n *notedEnds) Add(_ context.Context, ends []string, allowed func(map[string]bool) error) error {
	n.ends = append(n.ends, ends...)
	return allowed(nil)
}

// twoAdministrators knows of x and y.
func twoAdministrators() *admission.Cache {
	known := admission.NewCache()
	for gvr, sink := range known.Sinks() {
		if gvr.Resource == "globalrolebindings" {
			for _, name := range []string{"x", "y"} {
				sink.Set(&store.Object{Name: name, Raw: []byte(`{"roleRef":{"kind":"GlobalRole","name":"platform-admin"},` +
					`"subjects":[{"kind":"User","name":"` + name + `"}]}`)})
			}
		}
	}
	return known
}

// kube-apiserver says to the webhook what is a dry run, and since the webhook has a side effect it has to say that it has none then.
func TestTheWebhookNotesNoDryRun(t *testing.T) { // S72
	known := twoAdministrators()
	for _, dry := range []bool{true, false} {
		noted := &notedEnds{}
		j := &escalationWebhook{ready: func() error { return nil }, guard: &admission.Guard{
			Holdings: &nobodyHolds{}, Known: known, Ends: noted, Active: func(context.Context, string, string) (bool, error) { return true, nil },
		}}
		req := reviewOf(admissionv1.Delete, "users", "")
		req.OldObject.Raw, req.DryRun = []byte(`{"metadata":{"name":"x"}}`), &dry
		if resp := j.Handle(t.Context(), req); !resp.Allowed || (len(noted.ends) == 0) != dry {
			t.Errorf("dry run %t: %v, noted %q", dry, resp.Result, noted.ends)
		}
	}
	i := slices.IndexFunc(fixed(), func(e entry) bool { return e.name == "guard.kapis.dev" })
	if e := fixed()[i]; !e.reserves {
		t.Error("the webhook is said to have no side effect")
	}
}
