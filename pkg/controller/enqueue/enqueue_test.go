package enqueue_test

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
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
