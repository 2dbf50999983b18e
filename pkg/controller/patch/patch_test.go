package patch_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"kapis.dev/ks-apiserver/pkg/controller/patch"
)

// world is a cluster with one Deployment, whose status is a subresource, and counts what is written.
type world struct {
	t      *testing.T
	client client.Client
	writes int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := appsv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	w.client = fake.NewClientBuilder().WithScheme(s).WithObjects(d).WithStatusSubresource(d).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			w.writes++
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			w.writes++
			return c.SubResource(name).Patch(ctx, o, p, opts...)
		},
	}).Build()
	return w
}

func (w *world) get() *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, d); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// somebody changes the object, as people do while an operation runs.
func (w *world) somebody(change func(*appsv1.Deployment)) {
	w.t.Helper()
	d := w.get()
	change(d)
	if err := w.client.Update(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
}

func TestNothingIsWrittenWhereNothingHasChanged(t *testing.T) {
	w := newWorld(t)
	to := patch.New(w.client, w.get())
	for name, write := range map[string]func(context.Context) error{
		"Write": to.Write, "WriteStatus": to.WriteStatus, "WriteFinalizers": to.WriteFinalizers,
	} {
		if err := write(t.Context()); err != nil || w.writes != 0 {
			t.Errorf("%s: %v, %d writes", name, err, w.writes)
		}
	}
	metav1.SetMetaDataAnnotation(&to.Object.ObjectMeta, "example.com/did", "1")
	for range 2 {
		if err := to.Write(t.Context()); err != nil || w.writes != 1 {
			t.Errorf("an annotation: %v, %d writes, want one", err, w.writes)
		}
	}
	to.Object.Status.Replicas = 1
	for range 2 {
		if err := to.WriteStatus(t.Context()); err != nil || w.writes != 2 {
			t.Errorf("the status: %v, %d writes, want two", err, w.writes)
		}
	}
	if d := w.get(); d.Annotations["example.com/did"] != "1" || d.Status.Replicas != 1 || d.ResourceVersion != to.Object.ResourceVersion {
		t.Errorf("stored: %+v, the writer has the version %s", d, to.Object.ResourceVersion)
	}
}

// X20: what somebody changes between two writes stays, also after the second one: the writer compares with what it wrote, not with what the server answered.
func TestX20WhatOthersChangeBetweenTwoWritesStays(t *testing.T) {
	w := newWorld(t)
	to := patch.New(w.client, w.get())
	w.somebody(func(d *appsv1.Deployment) { d.Labels, d.Spec.Paused = map[string]string{"by": "somebody"}, true })
	for _, state := range []string{"begun", "done"} {
		metav1.SetMetaDataAnnotation(&to.Object.ObjectMeta, "example.com/state", state)
		if err := to.Write(t.Context()); err != nil {
			t.Fatal(err)
		}
		to.Object.Status.Replicas++
		if err := to.WriteStatus(t.Context()); err != nil {
			t.Fatal(err)
		}
		d := w.get()
		if d.Labels["by"] != "somebody" || !d.Spec.Paused || d.Annotations["example.com/state"] != state || d.Status.Replicas != to.Object.Status.Replicas {
			t.Errorf("%s: stored is %+v", state, d)
		}
	}
}

func TestFinalizersOfOthersAreNotReplaced(t *testing.T) {
	w := newWorld(t)
	to := patch.New(w.client, w.get())
	w.somebody(func(d *appsv1.Deployment) { controllerutil.AddFinalizer(d, "example.com/theirs") })
	controllerutil.AddFinalizer(to.Object, "example.com/ours")
	if err := to.WriteFinalizers(t.Context()); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "finalizers of the Deployment web") {
		t.Errorf("by what it was before: %v, want a conflict", err)
	}
	to = patch.New(w.client, w.get())
	controllerutil.AddFinalizer(to.Object, "example.com/ours")
	if err := to.WriteFinalizers(t.Context()); err != nil || len(w.get().Finalizers) != 2 {
		t.Errorf("%v, %q", err, w.get().Finalizers)
	}
}

func TestAnObjectThatIsGoneIsNoFailure(t *testing.T) {
	w := newWorld(t)
	to := patch.New(w.client, w.get())
	if err := w.client.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}
	to.Object.Status.Replicas = 1
	if err := errors.Join(to.Write(t.Context()), to.WriteStatus(t.Context()), to.WriteFinalizers(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestAFoldedObjectIsWrittenByTheOneThatHasIt(t *testing.T) {
	w := newWorld(t)
	whole := patch.New(w.client, w.get())
	part := &appsv1.Deployment{}
	to := patch.Folded(part, func(ctx context.Context) error {
		whole.Object.Annotations = part.Annotations
		return whole.Write(ctx)
	})
	metav1.SetMetaDataAnnotation(&to.Object.ObjectMeta, "example.com/state", "done")
	if err := to.Write(t.Context()); err != nil || w.get().Annotations["example.com/state"] != "done" {
		t.Errorf("%v, stored: %v", err, w.get().Annotations)
	}
}
