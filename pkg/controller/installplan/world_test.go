package installplan_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/controller/installplan"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// world is a cluster with plans, and a Helm that notes what it is asked for.
type world struct {
	t       *testing.T
	client  client.Client
	r       *installplan.Reconciler
	charts  charts
	now     time.Time
	writes  int
	applied []helm.Request
	// unchanged says of operations that an earlier attempt has done them.
	unchanged bool
	removed   []helm.Request
	// lookups are what templates look for without a right, by rendering, and lookupFails is what that comes to.
	lookups     [][]helm.Lookup
	lookupFails error
	renderings  int
	// previewed are the previews that were asked for, and changes what they say.
	previewed []helm.Request
	changes   []helm.Change
	// hookEnds is how Jobs of hook images end; hooked are those that were made, and hookRights the roles and bindings at that time.
	hookEnds   batchv1.JobConditionType
	hooked     []*batchv1.Job
	hookRights []string
	// annotations are those of the next chart, as YAML in one line.
	annotations string
	// rights are those of the installer while the last operation ran.
	rights map[string][]rbacv1.PolicyRule
	// fails is what the next operations fail with.
	fails []*helm.Error
	// rollsBack says that a failed upgrade is taken back.
	rollsBack bool
	objects   []helm.Object
	recorded  []helm.Object
	kept      []string
	noRelease bool
	// records are the newest records of releases, by their names.
	records map[string]*helm.Release
	// late is how many answers of kube-apiserver do not know of a right yet, and asked what it was asked for.
	late  int
	asked []authorizationv1.ResourceAttributes
	// stale is what the cache still has of a plan; nil for what is stored.
	stale *v1alpha1.InstallPlan
}

func (w *world) may(_ context.Context, user string, groups []string, what *authorizationv1.ResourceAttributes) (bool, error) {
	if user != "kapis:installer:shop" && user != "kapis:installer:base" || len(groups) != 1 {
		w.t.Errorf("asked for %s in %q", user, groups)
	}
	w.asked = append(w.asked, *what)
	w.late--
	return w.late < 0, nil
}

// charts are packed charts by the name of an ExtensionVersion.
type charts map[string][]byte

func (c charts) Load(_ context.Context, v *v1alpha1.ExtensionVersion) ([]byte, error) {
	if raw, ok := c[v.Name]; ok {
		return raw, nil
	}
	return nil, errors.New("the repository is away")
}

const permissions = `
kind: ClusterRole
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [create, get, update, patch, delete]}
`

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, batchv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme, v1alpha1.AddToScheme,
		extensionsv1alpha1.AddToScheme, clusterv1alpha1.AddToScheme, iamv1beta1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, charts: charts{}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), rights: map[string][]rbacv1.PolicyRule{},
		records: map[string]*helm.Release{}}
	w.client = fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if p, ok := o.(*v1alpha1.InstallPlan); ok && w.stale != nil {
				w.stale.DeepCopyInto(p)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			w.writes++
			return c.Patch(ctx, o, p, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			w.writes++
			if job, ok := o.(*batchv1.Job); ok && w.hookEnds != "" {
				job.Status.Conditions = []batchv1.JobCondition{{Type: w.hookEnds, Status: corev1.ConditionTrue, Message: "BackoffLimitExceeded"}}
				w.hooked = append(w.hooked, job.DeepCopy())
				w.hookRights = w.leftRights()
			}
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			w.writes++
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	mapper.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, meta.RESTScopeRoot)
	w.r = &installplan.Reconciler{
		Client: w.client, Live: w.client, Workloads: w.client, Mapper: mapper, Config: &rest.Config{Host: "https://kube.example", BearerToken: "own"},
		Events: events.NewFakeRecorder(100), Now: func() time.Time { return w.now },
		Options: installplan.Options{Helm: w, Charts: w.charts, May: w.may, Host: "host",
			As: func(user string, groups []string) (client.Client, error) {
				if user != "kapis:installer:shop" || len(groups) != 1 || groups[0] != "kapis:extension:shop" {
					return nil, fmt.Errorf("as %s in %q", user, groups)
				}
				return w.client, nil
			}},
	}
	w.objects = []helm.Object{{APIVersion: "v1", Kind: "ConfigMap", Name: "web"}}
	return w
}

// version adds a version of an extension, with its chart.
func (w *world) version(extension, version, rights string, change func(*v1alpha1.ExtensionVersion)) {
	w.t.Helper()
	v := &v1alpha1.ExtensionVersion{ObjectMeta: metav1.ObjectMeta{Name: extension + "-" + version, Labels: map[string]string{v1alpha1.LabelExtension: extension}},
		Spec: v1alpha1.ExtensionVersionSpec{Version: version}}
	if change != nil {
		change(v)
	}
	if err := w.client.Create(w.t.Context(), v); err != nil {
		w.t.Fatal(err)
	}
	w.charts[v.Name] = charttest.Pack(w.t, "chart", map[string]string{
		"Chart.yaml": fmt.Sprintf("{apiVersion: v2, name: %s, version: %s, annotations: {%s}, "+
			"dependencies: [{name: web, tags: [extension]}, {name: agent, tags: [agent], condition: agent.enabled}]}",
			extension, version, w.annotations),
		"permissions.yaml": rights,
	})
}

// stamp returns what an approval of a version would note.
func (w *world) stamp(p *v1alpha1.InstallPlan, version string) string {
	w.t.Helper()
	return w.request(p, version).Stamp()
}

// approve notes in a plan what an approval of a version would.
func (w *world) approve(p *v1alpha1.InstallPlan, version string) {
	w.t.Helper()
	r := w.request(p, version)
	p.Annotations[v1alpha1.AnnotationApproved], p.Annotations[v1alpha1.AnnotationApprovedChart] = r.Stamp(), r.ChartStamp()
}

// approveValues approves the Secret with values as it is.
func (w *world) approveValues(name string) {
	w.t.Helper()
	secret, err := extensionrelease.SecretValuesOf(w.t.Context(), w.client, name, "extension-"+name)
	if err != nil {
		w.t.Fatal(err)
	}
	w.changeUnapproved(name, func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationApprovedValues] = secret.Stamp })
}

func (w *world) request(p *v1alpha1.InstallPlan, version string) *permission.Request {
	w.t.Helper()
	v := &v1alpha1.ExtensionVersion{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: p.Name + "-" + version}, v); err != nil {
		w.t.Fatal(err)
	}
	r, _, err := permission.RequestOf(p, v, w.charts[v.Name])
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// plan adds a plan whose first version is approved.
func (w *world) plan(extension, version string, change func(*v1alpha1.InstallPlan)) {
	w.t.Helper()
	p := &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: extension},
		Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: extension, Version: version}, Enabled: true, Config: "replicas: 1\n"}}
	p.Annotations = map[string]string{v1alpha1.AnnotationApprovedBy: "ann"}
	if change != nil {
		change(p)
	}
	if _, ok := p.Annotations[v1alpha1.AnnotationApproved]; !ok {
		w.approve(p, version)
	}
	if err := w.client.Create(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(name string) *v1alpha1.InstallPlan {
	w.t.Helper()
	p := &v1alpha1.InstallPlan{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// change is a change by somebody who may approve.
func (w *world) change(name string, by func(*v1alpha1.InstallPlan)) {
	w.t.Helper()
	w.changeUnapproved(name, func(p *v1alpha1.InstallPlan) {
		by(p)
		if w.charts[p.Name+"-"+p.Spec.Extension.Version] != nil && p.DeletionTimestamp.IsZero() {
			w.approve(p, p.Spec.Extension.Version)
		}
	})
}

// changeUnapproved is a change by somebody who may not.
func (w *world) changeUnapproved(name string, by func(*v1alpha1.InstallPlan)) {
	w.t.Helper()
	p := w.get(name)
	by(p)
	if err := w.client.Update(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
}

// reconcile works on a plan until nothing more is to be done at once, and returns when it is next.
func (w *world) reconcile(name string) time.Duration {
	w.t.Helper()
	for range 20 {
		before := w.writes
		result, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
		if err != nil {
			w.t.Fatal(err)
		}
		if w.writes == before || result.RequeueAfter > 0 {
			return result.RequeueAfter
		}
	}
	w.t.Fatal("it is never settled")
	return 0
}

// Run implements installplan.Helm.
func (w *world) Run(ctx context.Context, r helm.Request, event func(helm.Event)) (*helm.Result, error) {
	event(helm.Event{Phase: helm.PhaseRendering, Message: string(r.Operation)})
	switch r.Operation {
	case helm.Render:
		w.renderings++
		if n := w.renderings; n <= len(w.lookups) {
			return &helm.Result{Objects: w.objects[:1], Lookups: w.lookups[n-1]}, w.lookupFails
		}
		return &helm.Result{Objects: w.objects, Recorded: w.recorded, Release: w.records[r.Name]}, nil
	case helm.Status:
		if w.noRelease {
			return nil, &helm.Error{Reason: helm.ReasonNotFound, Message: "no release"}
		}
		if w.records[r.Name] == nil {
			w.records[r.Name] = deployed(r.Name, 1)
		}
		return &helm.Result{Objects: w.objects, Release: w.records[r.Name]}, nil
	case helm.Preview:
		w.previewed = append(w.previewed, r)
	case helm.Apply:
		w.applied = append(w.applied, r)
	case helm.Uninstall:
		w.removed = append(w.removed, r)
	case helm.Validate, helm.Rollback:
	}
	w.rights = map[string][]rbacv1.PolicyRule{}
	roles, clusterRoles := &rbacv1.RoleList{}, &rbacv1.ClusterRoleList{}
	if err := errors.Join(w.client.List(ctx, roles), w.client.List(ctx, clusterRoles)); err != nil {
		return nil, err
	}
	for _, one := range roles.Items {
		w.rights[one.Namespace] = append(w.rights[one.Namespace], one.Rules...)
	}
	for _, one := range clusterRoles.Items {
		w.rights[""] = append(w.rights[""], one.Rules...)
	}
	if len(w.fails) > 0 {
		err := w.fails[0]
		w.fails = w.fails[1:]
		result := &helm.Result{RolledBack: w.rollsBack}
		if before := w.records[r.Name]; w.rollsBack && before != nil { // after the revision that failed, the former one again
			w.records[r.Name] = deployed(r.Name, before.Revision+2)
			result.Release, result.Objects = w.records[r.Name], w.objects
		}
		return result, err
	}
	result := &helm.Result{Kept: w.kept, Changes: w.changes, Unchanged: w.unchanged}
	if r.Operation == helm.Apply {
		revision := 1
		if before := w.records[r.Name]; before != nil {
			revision = before.Revision + 1
		}
		if !w.unchanged {
			w.records[r.Name] = deployed(r.Name, revision)
		}
		result.Release, result.Objects = w.records[r.Name], w.objects
	}
	return result, nil
}

// deployed returns the record of a revision of a release that was deployed.
func deployed(name string, revision int) *helm.Release {
	digest := fmt.Sprintf("%s %d", name, revision)
	return &helm.Release{Name: name, Revision: revision, Status: "deployed", RecordDigest: digest, BaseDigest: digest, BaseDeployed: true}
}

// leftRights returns the roles and bindings that installers have now.
func (w *world) leftRights() []string {
	w.t.Helper()
	var out []string
	for _, list := range []client.ObjectList{&rbacv1.RoleList{}, &rbacv1.ClusterRoleList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}} {
		if err := w.client.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, item := range items {
			out = append(out, item.(client.Object).GetName())
		}
	}
	return out
}

func condition(p *v1alpha1.InstallPlan, name string) string {
	c := meta.FindStatusCondition(p.Status.Conditions, name)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func states(p *v1alpha1.InstallPlan) string {
	var out []string
	for _, s := range p.Status.StateHistory {
		out = append(out, s.State)
	}
	return strings.Join(out, " ")
}
