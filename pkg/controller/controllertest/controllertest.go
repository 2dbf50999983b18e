// Package controllertest lets tests of reconcilers run them against an in-memory cluster, count their writes and refuse them.
package controllertest

import (
	"context"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/kube"
)

// Cluster is an in-memory cluster.
type Cluster struct {
	T *testing.T
	// Client reads and writes the cluster.
	Client client.Client
	// Recorder records events, and Events are the recorded ones.
	Recorder *events.FakeRecorder
	Events   chan string
	// Refuse, if set, is called before each write; its error is the answer.
	Refuse func(verb string, o client.Object) error

	writes atomic.Int64
}

// New returns a cluster with these objects; index, if set, adds the indexes that the reconciler uses.
func New(t *testing.T, index func(*fake.ClientBuilder), objects ...client.Object) *Cluster {
	t.Helper()
	c := &Cluster{T: t, Recorder: events.NewFakeRecorder(100)}
	c.Events = c.Recorder.Events
	b := fake.NewClientBuilder().WithScheme(scheme()).WithObjects(objects...).
		WithStatusSubresource(&tenantv1beta1.Workspace{}, &tenantv1beta1.WorkspaceTemplate{})
	if index != nil {
		index(b)
	}
	c.Client = b.WithInterceptorFuncs(c.intercept()).Build()
	return c
}

// scheme has the product's types, and those of which it reads only metadata.
func scheme() *runtime.Scheme {
	s := kube.Scheme()
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		{Group: "quota.kubesphere.io", Version: "v1alpha2", Kind: "ResourceQuota"},
	} {
		if !s.Recognizes(gvk) {
			s.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
			s.AddKnownTypeWithName(gvk.GroupVersion().WithKind(gvk.Kind+"List"), &unstructured.UnstructuredList{})
		}
	}
	return s
}

// Definition returns the CustomResourceDefinition of that name; going says that it is being deleted.
func Definition(name string, going bool) client.Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	u.SetName(name)
	if going {
		u.SetFinalizers([]string{"customresourcecleanup.apiextensions.k8s.io"})
		_ = unstructured.SetNestedField(u.Object, "2026-11-21T12:00:00Z", "metadata", "deletionTimestamp") // this can't fail on a map
	}
	return u
}

func (c *Cluster) before(verb string, o client.Object) error {
	if c.Refuse != nil {
		if err := c.Refuse(verb, o); err != nil {
			return err
		}
	}
	c.writes.Add(1)
	return nil
}

func (c *Cluster) intercept() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := c.before("create", o); err != nil {
				return err
			}
			return w.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := c.before("patch", o); err != nil {
				return err
			}
			return w.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := c.before("delete", o); err != nil {
				return err
			}
			return w.Delete(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			if err := c.before("patch "+sub, o); err != nil {
				return err
			}
			return w.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			c.T.Error("a blind update")
			return nil
		},
	}
}

// Reconcile runs r for a name once.
func (c *Cluster) Reconcile(r reconcile.Reconciler, name string) reconcile.Result {
	c.T.Helper()
	result, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	if err != nil {
		c.T.Fatalf("reconcile %s: %v", name, err)
	}
	return result
}

// Written returns how many writes do causes.
func (c *Cluster) Written(do func()) int64 {
	before := c.writes.Load()
	do()
	return c.writes.Load() - before
}

// Has reports whether an object of o's kind and name exists, and reads it into o.
func (c *Cluster) Has(o client.Object) bool {
	c.T.Helper()
	err := c.Client.Get(context.Background(), client.ObjectKeyFromObject(o), o)
	if client.IgnoreNotFound(err) != nil {
		c.T.Fatal(err)
	}
	return err == nil
}

// Patch merges text into an object.
func (c *Cluster) Patch(o client.Object, text string) {
	c.T.Helper()
	if err := c.Client.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		c.T.Fatal(err)
	}
}

// Create creates an object, or fails the test.
func (c *Cluster) Create(o client.Object) {
	c.T.Helper()
	if err := c.Client.Create(context.Background(), o); err != nil {
		c.T.Fatal(err)
	}
}

// Delete deletes an object, or fails the test.
func (c *Cluster) Delete(o client.Object) {
	c.T.Helper()
	if err := c.Client.Delete(context.Background(), o); err != nil {
		c.T.Fatal(err)
	}
}
