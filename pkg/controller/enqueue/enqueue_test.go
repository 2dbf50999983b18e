package enqueue_test

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
)

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

func TestWhatHasNoNameIsNotReconciled(t *testing.T) {
	for claim, c := range map[string]struct {
		names []string
		want  []reconcile.Request
	}{
		"None":    {},
		"Empty":   {names: []string{""}},
		"Several": {names: []string{"a", "", "b"}, want: []reconcile.Request{request("a"), request("b")}},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := enqueue.Named(c.names...); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// queue collects what is added to it.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added []reconcile.Request
}

func (q *queue) Add(r reconcile.Request) { q.added = append(q.added, r) }

func (q *queue) AddAfter(r reconcile.Request, _ time.Duration) { q.Add(r) }

func TestALabelNamesWhatIsReconciled(t *testing.T) {
	q := &queue{}
	for _, labels := range []map[string]string{{"of": "a", "by": "b"}, {"by": "b"}, {"of": ""}, nil} {
		enqueue.ByLabel("of").Create(t.Context(), event.CreateEvent{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "x", Namespace: "n", Labels: labels}}}, q)
	}
	if want := []reconcile.Request{request("a")}; !reflect.DeepEqual(q.added, want) {
		t.Errorf("reconciled %v, want %v", q.added, want)
	}
}

func TestObjectsThatNameTheChangedOneAreReconciled(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	node := func(name, of string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": of}}}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(node("one", "a"), node("two", "a"), node("three", "b")).Build()
	q, handler := &queue{}, enqueue.ListedByLabel(c, &corev1.NodeList{}, "of")
	for _, name := range []string{"a", "none"} {
		handler.Create(t.Context(), event.CreateEvent{Object: node(name, "")}, q)
	}
	if want := []reconcile.Request{request("one"), request("two")}; !reflect.DeepEqual(q.added, want) {
		t.Errorf("reconciled %v, want %v", q.added, want)
	}
}

func TestUpdatesDoNotCountWhereObjectsComeOrGo(t *testing.T) {
	var gone []string
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	for _, p := range []predicate.Predicate{
		enqueue.OnComingOrGoing(nil), enqueue.OnComingOrGoing(func(o client.Object) { gone = append(gone, o.GetName()) }),
	} {
		if !p.Create(event.CreateEvent{Object: o}) || !p.Delete(event.DeleteEvent{Object: o}) || p.Update(event.UpdateEvent{ObjectOld: o, ObjectNew: o}) {
			t.Error("a creation or a deletion does not count, or an update does")
		}
	}
	if !reflect.DeepEqual(gone, []string{"a"}) {
		t.Errorf("told of %q", gone)
	}
}

// A watch that was interrupted while an object was deleted and made again tells of an update.
func TestAnObjectThatWasMadeAgainHasGone(t *testing.T) {
	p, object := enqueue.OnDeletion(), func(uid types.UID) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ann", UID: uid}}
	}
	for name, c := range map[string]struct{ got, want bool }{
		"Created":   {got: p.Create(event.CreateEvent{Object: object("1")})},
		"Updated":   {got: p.Update(event.UpdateEvent{ObjectOld: object("1"), ObjectNew: object("1")})},
		"MadeAgain": {got: p.Update(event.UpdateEvent{ObjectOld: object("1"), ObjectNew: object("2")}), want: true},
		"Deleted":   {got: p.Delete(event.DeleteEvent{Object: object("1")}), want: true},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
}
