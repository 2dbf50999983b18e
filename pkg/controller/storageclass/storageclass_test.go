package storageclass_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
	"kapis.dev/ks-apiserver/pkg/controller/storageclass"
)

const (
	snapshot = storageclass.AnnotationAllowSnapshot
	clone    = storageclass.AnnotationAllowClone
	count    = storageclass.AnnotationClaims
)

func class(name string, annotations map[string]string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Provisioner: "csi.example.com"}
}

func driver() *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.example.com"}}
}

func claim(name, class string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if class != "" {
		c.Spec.StorageClassName = &class
	}
	return c
}

// world is a cluster, a reconciler, and its clock.
type world struct {
	*controllertest.Cluster
	reconciler *storageclass.Reconciler
	now        time.Time
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	w := &world{now: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)}
	w.Cluster = controllertest.New(t, func(b *fake.ClientBuilder) {
		b.WithIndex(&corev1.PersistentVolumeClaim{}, storageclass.ByClass, storageclass.ClassOf)
	}, objects...)
	w.reconciler = &storageclass.Reconciler{Client: w.Client, Now: func() time.Time { return w.now }}
	return w
}

// expect reconciles the class fast, which then has the annotations after that number of writes.
func (w *world) expect(want map[string]string, writes int64) reconcile.Result {
	w.T.Helper()
	var out reconcile.Result
	if n := w.Written(func() { out = w.Reconcile(w.reconciler, "fast") }); n != writes {
		w.T.Errorf("%d writes, want %d", n, writes)
	}
	got := class("fast", nil)
	if !w.Has(got) || !maps.Equal(got.Annotations, want) {
		w.T.Errorf("the class has %v, want %v", got.Annotations, want)
	}
	return out
}

func TestAClassSaysWhatItsDriverMayBeAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		has     map[string]string
		objects []client.Object
		want    map[string]string
		writes  int64
	}{
		"without a driver": {nil, nil, map[string]string{count: "0"}, 1},
		"with a driver": {map[string]string{"a": "b"}, []client.Object{driver()},
			map[string]string{"a": "b", snapshot: "true", clone: "true", count: "0"}, 1},
		"a user has said no": {map[string]string{snapshot: "false", clone: "F"}, []client.Object{driver()},
			map[string]string{snapshot: "false", clone: "F", count: "0"}, 1},
		"what a user has said is no boolean": {map[string]string{snapshot: "maybe", clone: "", count: "many"}, []client.Object{driver()},
			map[string]string{snapshot: "true", clone: "true", count: "0"}, 1},
		"the driver is gone": {map[string]string{snapshot: "true", clone: "true", count: "0"}, nil,
			map[string]string{snapshot: "true", clone: "true", count: "0"}, 0},
		"claims of this and of other classes": {map[string]string{count: "1"},
			[]client.Object{claim("a", "fast"), claim("b", "fast"), claim("c", "slow"), claim("d", "")}, map[string]string{count: "2"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(c.objects, class("fast", c.has))...)
			w.expect(c.want, c.writes)
			w.now = w.now.Add(time.Hour)
			w.expect(c.want, 0) // it is settled
		})
	}
}

func TestAClassIsWrittenOnceInAWhile(t *testing.T) {
	w := newWorld(t, class("fast", nil))
	w.expect(map[string]string{count: "0"}, 1)
	for n := range 5 {
		if err := w.Client.Create(t.Context(), claim(fmt.Sprint(n), "fast")); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Second)
		if got := w.expect(map[string]string{count: "0"}, 0).RequeueAfter; got != storageclass.Pause-time.Duration(n+1)*time.Second {
			t.Errorf("it is looked at again after %s", got)
		}
	}
	w.now = w.now.Add(storageclass.Pause)
	w.expect(map[string]string{count: "5"}, 1)
	w.now = w.now.Add(-time.Hour) // a clock that goes back holds it up for no longer than the pause
	if err := w.Client.Create(t.Context(), claim("more", "fast")); err != nil {
		t.Fatal(err)
	}
	if got := w.Reconcile(w.reconciler, "fast").RequeueAfter; got > storageclass.Pause {
		t.Errorf("it is looked at again after %s", got)
	}
}

func TestAWriteThatFailedIsTriedAgain(t *testing.T) {
	w, down := newWorld(t, class("fast", nil)), errors.New("down")
	w.Refuse = func(string, client.Object) error { return down }
	_, err := w.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "fast"}})
	if !errors.Is(err, down) {
		t.Errorf("%v", err)
	}
	w.Refuse = nil
	w.expect(map[string]string{count: "0"}, 1) // and without a pause
	w.Reconcile(w.reconciler, "gone")
}

func TestAClassThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	going := class("fast", nil)
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/held"}
	newWorld(t, going, driver()).expect(nil, 0)
}

func TestTheCacheOfClaimsHasWhatIsRead(t *testing.T) {
	c := claim("a", "fast")
	c.Labels, c.Annotations = map[string]string{"a": "b"}, map[string]string{"a": strings.Repeat("x", 1000)}
	c.Spec.VolumeName, c.Status.Phase = "v", corev1.ClaimBound
	storageclass.Transform(c)
	if got := storageclass.ClassOf(c); len(got) != 1 || got[0] != "fast" || c.Namespace != "ns" || c.Name != "a" {
		t.Errorf("%+v", c)
	}
	if c.Labels != nil || c.Annotations != nil || c.Spec.VolumeName != "" || c.Status.Phase != "" {
		t.Errorf("%+v", c)
	}
}
