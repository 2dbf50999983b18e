package apprelease_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/controller/apprelease"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// world is a cluster with a release, a Helm that notes what it is asked for, and objects that are written as somebody.
type world struct {
	t       *testing.T
	client  client.Client
	r       *apprelease.Reconciler
	events  *events.FakeRecorder
	objects *dynamicfake.FakeDynamicClient
	now     time.Time
	writes  int
	// asked are the operations that changed something, or should have.
	asked []helm.Request
	// roles are those that were there while an operation ran, by namespace and name.
	roles map[string][]rbacv1.PolicyRule
	// record is Helm's, nil for none; applied are the objects that the next operation makes.
	record  *helm.Result
	applied []helm.Object
	// fails is what the next operations fail with, leavesRecord says that they leave a record of what they were to make, and rollsBack that
	// the former revision is applied again.
	fails                   []error
	leavesRecord, rollsBack bool
	// as is whom objects were written as.
	as      []string
	granted []string
	pack    []byte
	// stale is what the cache still has of the release; nil for what is stored.
	stale *v2.ApplicationRelease
}

func (w *world) Load(context.Context, *v2.ApplicationVersion) ([]byte, error) { return w.pack, nil }

func (w *world) may(_ context.Context, user string, groups []string, _ *authorizationv1.ResourceAttributes) (bool, error) {
	w.granted = append(w.granted, user+" "+fmt.Sprint(groups))
	return true, nil
}

func (w *world) Run(ctx context.Context, r helm.Request, _ func(helm.Event)) (*helm.Result, error) {
	if r.Operation == helm.Status {
		if w.record == nil {
			return nil, &helm.Error{Reason: helm.ReasonNotFound, Message: "no record"}
		}
		return w.record, nil
	}
	w.asked = append(w.asked, r)
	w.roles = map[string][]rbacv1.PolicyRule{}
	roles := &rbacv1.RoleList{}
	if err := w.client.List(ctx, roles); err != nil {
		w.t.Error(err)
	}
	for _, role := range roles.Items {
		w.roles[role.Namespace+"/"+role.Name] = role.Rules
	}
	revision := 1
	if w.record != nil {
		revision += w.record.Release.Revision
	}
	if len(w.fails) > 0 {
		err := w.fails[0]
		w.fails = w.fails[1:]
		if err != nil && w.rollsBack {
			w.record = &helm.Result{Objects: w.applied, RolledBack: true, Release: &helm.Release{Name: r.Name, Status: "deployed", Revision: revision + 1,
				RecordDigest: "former", BaseDigest: "former", BaseDeployed: true}}
			return w.record, err
		}
		if err != nil && w.leavesRecord {
			w.record = &helm.Result{Objects: w.applied, Release: &helm.Release{Name: r.Name, Status: "failed", Revision: revision, RecordDigest: "failed"}}
			return w.record, err
		}
		if err != nil {
			return nil, err
		}
	}
	if r.Operation == helm.Uninstall {
		w.record = nil
		return &helm.Result{}, nil
	}
	sum := sha256.Sum256(append(slices.Clone(r.Values), r.ID...))
	digest := hex.EncodeToString(sum[:])
	w.record = &helm.Result{Objects: w.applied, Release: &helm.Release{Name: r.Name, Status: "deployed", Revision: revision, RecordDigest: digest,
		BaseDigest: digest, BaseDeployed: true}}
	return w.record, nil
}

func newWorld(t *testing.T, more ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, v2.AddToScheme, iamv1beta1.AddToScheme,
		clusterv1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), events: events.NewFakeRecorder(100), pack: []byte("chart")}
	objects := append([]client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web", Labels: map[string]string{"kubesphere.io/workspace": "shop"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"kubesphere.io/workspace": "other"}}},
		user("bob", iamv1beta1.UserActive), user("zoe", iamv1beta1.UserDisabled), version("redis-1", "shop", v2.StateActive),
	}, more...)
	w.client = fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&v2.ApplicationRelease{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if r, ok := o.(*v2.ApplicationRelease); ok && w.stale != nil {
					w.stale.DeepCopyInto(r)
					return nil
				}
				return c.Get(ctx, key, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				w.writes++
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				w.writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				w.writes++
				return c.Create(ctx, o, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				w.writes++
				return c.Update(ctx, o, opts...)
			},
		}).Build()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
	mapper.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), meta.RESTScopeRoot)
	w.objects = dynamicfake.NewSimpleDynamicClient(s)
	w.objects.PrependReactor("patch", "*", w.apply)
	w.r = &apprelease.Reconciler{
		Client: w.client, Live: w.client, Mapper: mapper, Config: &rest.Config{Host: "https://kube.example", BearerToken: "own"},
		Events: w.events, Now: func() time.Time { return w.now },
		Options: apprelease.Options{Host: "host", Helm: w, Packages: w, May: w.may, As: func(user string, groups []string) (dynamic.Interface, error) {
			w.as = append(w.as, user+" "+fmt.Sprint(groups))
			return w.objects, nil
		}},
	}
	w.applied = []helm.Object{{APIVersion: "v1", Kind: "ConfigMap", Name: "redis"}}
	return w
}

// apply is server-side apply, which the fake does not have: it replaces the object.
func (w *world) apply(a clienttesting.Action) (bool, runtime.Object, error) {
	p, ok := a.(clienttesting.PatchAction)
	if !ok || p.GetPatchType() != types.ApplyPatchType {
		return false, nil, nil
	}
	if len(w.fails) > 0 {
		err := w.fails[0]
		w.fails = w.fails[1:]
		return true, nil, err
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(p.GetPatch(), &u.Object); err != nil {
		return true, nil, err
	}
	err := w.objects.Tracker().Create(p.GetResource(), u, p.GetNamespace())
	if apierrors.IsAlreadyExists(err) {
		err = w.objects.Tracker().Update(p.GetResource(), u, p.GetNamespace())
	}
	return true, u, err
}

func user(name string, state iamv1beta1.UserState) *iamv1beta1.User {
	return &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: iamv1beta1.UserStatus{State: state},
		Spec: iamv1beta1.UserSpec{Groups: []string{"dev", "system:masters", "kapis:platform:appstore"}}}
}

func version(name, workspace, state string) *v2.ApplicationVersion {
	return &v2.ApplicationVersion{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v2.LabelApp: "redis", v2.LabelWorkspace: workspace}},
		Spec: v2.ApplicationVersionSpec{VersionName: "1"}, Status: v2.ApplicationVersionStatus{State: state}}
}

// newRelease returns a release that bob has asked for.
func newRelease(change func(*v2.ApplicationRelease)) *v2.ApplicationRelease {
	r := &v2.ApplicationRelease{
		ObjectMeta: metav1.ObjectMeta{Name: "cache", UID: "u-1", Annotations: map[string]string{v2.AnnotationUser: "bob"}, Labels: map[string]string{
			v2.LabelApp: "redis", v2.LabelCluster: "host", v2.LabelWorkspace: "shop", v2.LabelNamespace: "web",
		}},
		Spec: v2.ApplicationReleaseSpec{AppID: "redis", AppVersionID: "redis-1", Values: &apiextensionsv1.JSON{Raw: []byte(`"cmVwbGljYXM6IDEK"`)}},
	}
	if change != nil {
		change(r)
	}
	return r
}

// add adds a release, and does it until there is nothing to do at once.
func (w *world) add(change func(*v2.ApplicationRelease)) *v2.ApplicationRelease {
	w.t.Helper()
	r := newRelease(change)
	status := r.Status
	if err := w.client.Create(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
	if status.State != "" {
		r.Status = status
		if err := w.client.Status().Update(w.t.Context(), r); err != nil {
			w.t.Fatal(err)
		}
	}
	w.reconcile() // the finalizer
	w.reconcile()
	return w.get()
}

func (w *world) reconcile() reconcile.Result {
	w.t.Helper()
	result, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "cache"}})
	if err != nil {
		w.t.Error(err)
	}
	return result
}

func (w *world) get() *v2.ApplicationRelease {
	w.t.Helper()
	r := &v2.ApplicationRelease{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: "cache"}, r); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) gone() bool {
	return apierrors.IsNotFound(w.client.Get(w.t.Context(), client.ObjectKey{Name: "cache"}, &v2.ApplicationRelease{}))
}

// change is a change that somebody asks for.
func (w *world) change(by func(*v2.ApplicationRelease)) *v2.ApplicationRelease {
	w.t.Helper()
	r := w.get()
	by(r)
	if err := w.client.Update(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
	w.reconcile()
	return w.get()
}

func (w *world) remove() {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), w.get()); err != nil {
		w.t.Fatal(err)
	}
	w.reconcile()
}

func (w *world) inventory() *release.Inventory {
	w.t.Helper()
	m := &corev1.ConfigMap{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: release.InventoryNamespace, Name: release.InventoryName("u-1")}, m); err != nil {
		return nil
	}
	i, err := release.InventoryOf(m)
	if err != nil {
		w.t.Fatal(err)
	}
	return i
}

// put adds an object that is there already.
func (w *world) put(resource schema.GroupVersionResource, text string) {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		w.t.Fatal(err)
	}
	if err := w.objects.Tracker().Create(resource, u, u.GetNamespace()); err != nil {
		w.t.Fatal(err)
	}
}

// has returns the names of the ConfigMaps in a namespace.
func (w *world) has(namespace string) (names []string) {
	w.t.Helper()
	list, err := w.objects.Resource(configMaps).Namespace(namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	slices.Sort(names)
	return names
}

var (
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)
