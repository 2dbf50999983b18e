package informer_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kapis.dev/ks-apiserver/pkg/informer"
)

// server answers with its list, and then with its events.
type server struct {
	list   []corev1.Secret
	events chan watch.Event
	asked  []string // the selectors of each call
}

func (s *server) List(_ context.Context, o metav1.ListOptions) (*corev1.SecretList, error) {
	s.asked = append(s.asked, "list "+o.LabelSelector+" "+o.FieldSelector)
	return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: s.list}, nil
}

func (s *server) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.asked = append(s.asked, "watch "+o.LabelSelector+" "+o.FieldSelector)
	s.events = make(chan watch.Event, 10)
	return watch.NewProxyWatcher(s.events), nil
}

// IsWatchListSemanticsUnSupported says that watches don't begin with a list, as those of client-go's fakes.
func (s *server) IsWatchListSemanticsUnSupported() bool { return true }

func secret(name, value string) corev1.Secret {
	return corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "2"},
		Data:       map[string][]byte{"value": []byte(value)},
	}
}

func TestHandlerSeesEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := &server{list: []corev1.Secret{secret("a", "1"), secret("b", "1")}}
		var calls []string
		want := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			slices.Sort(calls)
			if !slices.Equal(calls, want) {
				t.Errorf("%s: got calls %q, want %q", what, calls, want)
			}
			calls = nil
		}
		event := func(typ watch.EventType, s corev1.Secret) { from.events <- watch.Event{Type: typ, Object: &s} }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			informer.Run(ctx, from, metav1.ListOptions{LabelSelector: "k=v", FieldSelector: "type=x"}, informer.Handler[*corev1.Secret]{
				Set:    func(s *corev1.Secret) { calls = append(calls, "set "+s.Name+" "+string(s.Data["value"])) },
				Delete: func(namespace, name string) { calls = append(calls, "delete "+namespace+"/"+name) },
				Synced: func() { calls = append(calls, "synced") },
			})
		}()
		want("first list", "set a 1", "set b 1", "synced")
		for _, asked := range from.asked {
			if asked != "list k=v type=x" && asked != "watch k=v type=x" {
				t.Errorf("asked %q, want both selectors", asked)
			}
		}
		event(watch.Modified, secret("a", "2"))
		want("change", "set a 2")
		event(watch.Added, secret("c", "1"))
		want("new object", "set c 1")
		event(watch.Deleted, secret("b", "1"))
		want("deletion", "delete ns/b")
		from.list = []corev1.Secret{secret("a", "3")}
		ended := from.events                                              // read before the error is, since the next watch has a channel of its own
		ended <- watch.Event{Type: watch.Error, Object: &corev1.Secret{}} // the watch ends, and the objects are listed again
		close(ended)
		time.Sleep(time.Minute) // on the fake clock of the synctest bubble, longer than the backoff of the next list: no time passes
		want("list without an object", "delete ns/c", "set a 3")
		cancel()
		<-done
		want("end")
	})
}
