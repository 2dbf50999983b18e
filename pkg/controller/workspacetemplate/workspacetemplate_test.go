package workspacetemplate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// template returns a template as pages send it.
func template(name, manager string, clusters ...string) *tenantv1beta1.WorkspaceTemplate {
	t := &tenantv1beta1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-template", Annotations: map[string]string{
		"kubesphere.io/alias-name": "Demonstration", "kubesphere.io/creator": "admin",
	}}}
	t.Spec.Template.Spec.Manager = manager
	t.Spec.Template.ObjectMeta.Annotations = map[string]string{
		"kubesphere.io/creator": "admin", "kubesphere.io/description": "To show", "kubectl.kubernetes.io/last-applied-configuration": "{}",
	}
	for _, c := range clusters {
		t.Spec.Placement.Clusters = append(t.Spec.Placement.Clusters, tenantv1beta1.PlacementCluster{Name: c})
	}
	return t
}

func selecting(name string, selector *metav1.LabelSelector) *tenantv1beta1.WorkspaceTemplate {
	t := template(name, "")
	t.Spec.Placement.ClusterSelector = selector
	return t
}

func cluster(name string, labels map[string]string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

type fixture struct {
	*controllertest.Cluster
	r *Reconciler
	// ended are the workspaces whose roles and bindings were deleted.
	ended []string
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	for _, d := range []string{definition, workspaceDefinition} {
		if !slices.ContainsFunc(objects, func(o client.Object) bool { return o.GetName() == d }) {
			objects = append(objects, controllertest.Definition(d, false))
		}
	}
	c := controllertest.New(t, nil, objects...)
	f := &fixture{Cluster: c, r: &Reconciler{Client: c.Client, Live: c.Client, Events: c.Recorder, Host: "host"}}
	f.r.DeleteHeld = func(_ context.Context, _ client.Client, _ client.Reader, name string) error {
		f.ended = append(f.ended, name)
		return nil
	}
	return f
}

func (f *fixture) run(name string) { f.T.Helper(); f.Reconcile(f.r, name) }

func (f *fixture) workspace(name string) *tenantv1beta1.Workspace {
	w := &tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !f.Has(w) {
		return nil
	}
	return w
}

func (f *fixture) reason(name string) string {
	t := template(name, "")
	f.Has(t)
	if c := meta.FindStatusCondition(t.Status.Conditions, ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

func TestPlacement(t *testing.T) {
	one := map[string]string{"region": "one"}
	for claim, c := range map[string]struct {
		template *tenantv1beta1.WorkspaceTemplate
		cluster  *clusterv1alpha1.Cluster
		want     bool
		reason   string
	}{
		"NamedIsHere":                 {template("w", "", "x", "host"), cluster("host", nil), true, "Placed"},
		"AnotherNamedIsNotHere":       {template("w", "", "x"), cluster("host", nil), false, "NotPlacedHere"},
		"NoPlacementIsNowhere":        {template("w", ""), cluster("host", nil), false, "NotPlacedHere"},
		"AnEmptySelectorFindsAll":     {selecting("w", &metav1.LabelSelector{}), cluster("host", one), true, "Placed"},
		"AlsoBeforeTheClusterIsThere": {selecting("w", &metav1.LabelSelector{}), cluster("x", nil), true, "Placed"},
		"ASelectorFinds":              {selecting("w", &metav1.LabelSelector{MatchLabels: one}), cluster("host", one), true, "Placed"},
		"ASelectorFindsNot":           {selecting("w", &metav1.LabelSelector{MatchLabels: one}), cluster("host", nil), false, "NotPlacedHere"},
		"AnotherClusterIsNotOurs":     {selecting("w", &metav1.LabelSelector{MatchLabels: one}), cluster("x", one), false, "NotPlacedHere"},
		"ABrokenSelectorIsTold": {selecting("w", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "like"}}}),
			cluster("host", nil), false, "PlacementUnreadable"},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFixture(t, c.template, c.cluster)
			f.run("w")
			if got := f.workspace("w") != nil; got != c.want || f.reason("w") != c.reason {
				t.Errorf("there is a workspace: %t, want %t; %s", got, c.want, f.reason("w"))
			}
			if n := f.Written(func() { f.run("w") }); n != 0 {
				t.Errorf("a second time wrote %d times", n)
			}
		})
	}
}

func TestTheWorkspaceIsCalledWhatItsTemplateSays(t *testing.T) {
	tpl := template("demo", "ann", "host")
	tpl.Labels = map[string]string{tenantv1beta1.LabelProtectedResource: "true"}
	f := newFixture(t, tpl)
	f.run("demo")
	w := f.workspace("demo")
	if w.Spec.Manager != "ann" || w.Annotations["kubesphere.io/alias-name"] != "Demonstration" || w.Annotations["kubesphere.io/description"] != "To show" ||
		w.Labels[tenantv1beta1.LabelProtectedResource] != "true" {
		t.Errorf("the workspace is %+v", w)
	}
	if w.Annotations["kubectl.kubernetes.io/last-applied-configuration"] != "" || len(w.OwnerReferences) != 0 {
		t.Errorf("the workspace says too much: %+v", w.ObjectMeta)
	}
	f.Patch(w, `{"metadata":{"annotations":{"own":"kept"}}}`)
	f.Patch(
		template("demo", ""),
		`{"metadata":{"labels":null,"annotations":{"kubesphere.io/alias-name":null,"kubesphere.io/description":"New"}},"spec":{"template":{"spec":{"manager":"bob"}}}}`,
	)
	f.run("demo")
	w = f.workspace("demo")
	if _, ok := w.Annotations["kubesphere.io/alias-name"]; ok || w.Annotations["kubesphere.io/description"] != "New" || w.Annotations["own"] != "kept" ||
		w.Spec.Manager != "bob" || w.Labels[tenantv1beta1.LabelProtectedResource] != "" {
		t.Errorf("after the edit it is %+v", w)
	}
}

// U50: with an owner reference of an older installation, the workspace would be deleted with the definition of templates.
func TestU50AWorkspaceIsTakenOver(t *testing.T) {
	w := &tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "demo", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "tenant.kubesphere.io/v1alpha2", Kind: "WorkspaceTemplate", Name: "demo", UID: "uid-of-template"}}}}
	f := newFixture(t, template("demo", "", "host"), w)
	f.run("demo")
	if got := f.workspace("demo"); len(got.OwnerReferences) != 0 || got.Annotations[AnnotationTemplate] != "demo" {
		t.Errorf("it is %+v", got.ObjectMeta)
	}
}

// S65: a template changes only a Workspace that it made; it leaves others' Workspaces of its name as they are, also when it is deleted.
func TestS65ATemplateTouchesNoWorkspaceThatItDidNotMake(t *testing.T) {
	day := func(n int) metav1.Time { return metav1.NewTime(time.Date(2026, 11, n, 12, 0, 0, 0, time.UTC)) }
	legacy := []string{tenantv1beta1.FinalizerCascadingDeletion}
	const mark = tenantv1beta1.AnnotationTemplateUID
	for claim, c := range map[string]struct {
		template, workspace metav1.ObjectMeta
		mine                bool
	}{
		"AStrangers":         {metav1.ObjectMeta{CreationTimestamp: day(2)}, metav1.ObjectMeta{CreationTimestamp: day(1)}, false},
		"MadeAtTheSameTime":  {metav1.ObjectMeta{CreationTimestamp: day(1)}, metav1.ObjectMeta{CreationTimestamp: day(1)}, false},
		"ASquattersWasFirst": {metav1.ObjectMeta{CreationTimestamp: day(1)}, metav1.ObjectMeta{CreationTimestamp: day(2)}, false},
		"AStrangersWithTheFinalizer": {
			metav1.ObjectMeta{CreationTimestamp: day(2), Finalizers: legacy}, metav1.ObjectMeta{CreationTimestamp: day(1)}, false,
		},
		"HeldByUs": {
			metav1.ObjectMeta{CreationTimestamp: day(1), Finalizers: legacy, Annotations: map[string]string{tenantv1beta1.AnnotationTemplateHeld: "true"}},
			metav1.ObjectMeta{CreationTimestamp: day(2)}, false,
		},
		"TheNameAloneSaysNothing": {
			metav1.ObjectMeta{CreationTimestamp: day(2)}, metav1.ObjectMeta{CreationTimestamp: day(1), Annotations: map[string]string{AnnotationTemplate: "demo"}},
			false,
		},
		"AnotherTemplates": {
			metav1.ObjectMeta{CreationTimestamp: day(1), Finalizers: legacy}, metav1.ObjectMeta{CreationTimestamp: day(2),
				Annotations: map[string]string{mark: "uid-of-another"}}, false,
		},
		"AnOwnerOfAnotherUID": {
			metav1.ObjectMeta{CreationTimestamp: day(2)},
			metav1.ObjectMeta{CreationTimestamp: day(1), OwnerReferences: []metav1.OwnerReference{{Kind: "WorkspaceTemplate", Name: "demo", UID: "uid-of-another"}}},
			false,
		},
		"ThatItMade":               {metav1.ObjectMeta{}, metav1.ObjectMeta{Annotations: map[string]string{mark: "uid-of-template"}}, true},
		"OfAnEarlierInstallation":  {metav1.ObjectMeta{CreationTimestamp: day(1), Finalizers: legacy}, metav1.ObjectMeta{CreationTimestamp: day(2)}, true},
		"OfTheSameMomentOfEarlier": {metav1.ObjectMeta{CreationTimestamp: day(1), Finalizers: legacy}, metav1.ObjectMeta{CreationTimestamp: day(1)}, true},
		"HandedOver": {
			metav1.ObjectMeta{CreationTimestamp: day(2)}, metav1.ObjectMeta{CreationTimestamp: day(1), Annotations: map[string]string{mark: "uid-of-template"}}, true,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			tpl, w := template("demo", "eve", "host"), &tenantv1beta1.Workspace{ObjectMeta: c.workspace, Spec: tenantv1beta1.WorkspaceSpec{Manager: "ann"}}
			tpl.CreationTimestamp, tpl.Finalizers = c.template.CreationTimestamp, c.template.Finalizers
			maps.Copy(tpl.Annotations, c.template.Annotations)
			tpl.Annotations[tenantv1beta1.AnnotationDeletionPropagation] = "Background"
			w.Name, w.Finalizers = "demo", []string{"example.com/held"}
			f := newFixture(t, tpl, w)
			f.run("demo")
			if got := f.workspace("demo"); (got.Spec.Manager == "eve") != c.mine ||
				(got.Annotations[tenantv1beta1.AnnotationDeletionPropagation] == "Background") != c.mine {
				t.Errorf("the workspace has the manager %q and %v", got.Spec.Manager, got.Annotations)
			}
			if told := f.reason("demo") == "WorkspaceOfAnother"; told == c.mine {
				t.Errorf("the template says %s", f.reason("demo"))
			}
			f.Patch(template("demo", ""), `{"spec":{"placement":{"clusters":[{"name":"x"}]}}}`)
			f.run("demo")
			f.Delete(template("demo", ""))
			f.run("demo")
			if got := f.workspace("demo"); got.DeletionTimestamp.IsZero() == c.mine {
				t.Errorf("the workspace goes: %t", !got.DeletionTimestamp.IsZero())
			}
			if held := f.Has(template("demo", "")); held != c.mine {
				t.Errorf("the template is held: %t", held)
			}
		})
	}
}

// A template that was being created while another user created the workspace does not take it over.
func TestS65AWorkspaceThatComesBeforeItsTemplatesIsSomebodyElses(t *testing.T) {
	f := newFixture(t, template("demo", "eve", "host"))
	f.Refuse = func(verb string, o client.Object) error {
		if _, ok := o.(*tenantv1beta1.Workspace); ok && verb == "create" && o.GetAnnotations()[tenantv1beta1.AnnotationTemplateUID] != "" {
			f.Refuse = nil
			f.Create(&tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}, Spec: tenantv1beta1.WorkspaceSpec{Manager: "ann"}})
		}
		return nil
	}
	f.run("demo")
	f.run("demo")
	if got := f.workspace("demo"); got.Spec.Manager != "ann" || f.reason("demo") != "WorkspaceOfAnother" {
		t.Errorf("the manager is %q, the template says %s", got.Spec.Manager, f.reason("demo"))
	}
}

func TestTheWorkspaceOfTheSystemIsItsTemplates(t *testing.T) {
	const name = tenantv1beta1.SystemWorkspace
	f := newFixture(t, template(name, "admin", "host"), &tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	f.run(name)
	if got := f.workspace(name); got.Spec.Manager != "admin" {
		t.Errorf("its manager is %q", got.Spec.Manager)
	}
}

func TestAWorkspaceThatIsNoLongerPlacedLeavesItsNamespaces(t *testing.T) {
	tpl := template("demo", "", "host")
	f := newFixture(t, tpl)
	f.run("demo")
	held := f.workspace("demo")
	f.Patch(held, `{"metadata":{"finalizers":["example.com/held"]}}`)
	f.Patch(template("demo", ""), `{"spec":{"placement":{"clusters":[{"name":"x"}]}}}`)
	f.run("demo")
	if w := f.workspace("demo"); w.DeletionTimestamp.IsZero() || w.Annotations[tenantv1beta1.AnnotationDeletionPropagation] != "Orphan" {
		t.Errorf("the workspace is %+v", w.ObjectMeta)
	}
	if !strings.Contains(<-f.Events, "Its namespaces stay") {
		t.Error("nobody is told")
	}
}

func TestAWorkspaceOfNoTemplateIsLeftAlone(t *testing.T) {
	f := newFixture(t, template("demo", ""), &tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
	f.run("demo")
	if w := f.workspace("demo"); w == nil || !w.DeletionTimestamp.IsZero() {
		t.Error("it was deleted")
	}
}

func TestADeletedTemplateTakesItsWorkspaceAlong(t *testing.T) { // S9
	f := newFixture(t, template("demo", "", "host"))
	f.run("demo")
	f.Patch(f.workspace("demo"), `{"metadata":{"finalizers":["example.com/held"]}}`)
	f.Patch(template("demo", ""), `{"metadata":{"annotations":{"kubesphere.io/deletion-propagation":"Background"}}}`)
	f.Delete(template("demo", ""))
	f.run("demo")
	w := f.workspace("demo")
	if w.DeletionTimestamp.IsZero() || w.Annotations[tenantv1beta1.AnnotationDeletionPropagation] != "Background" || !f.Has(template("demo", "")) {
		t.Fatalf("the workspace is %+v, its template there: %t", w.ObjectMeta, f.Has(template("demo", "")))
	}
	f.run("demo")
	f.Patch(w, `{"metadata":{"finalizers":null}}`)
	f.run("demo")
	if f.Has(template("demo", "")) {
		t.Error("the template is held")
	}
}

// A refused deletion leaves nothing that a later one could be taken to ask for.
func TestWhatATemplateSaysNoMoreOfADeletionIsTakenBack(t *testing.T) {
	f := newFixture(t, template("demo", "", "host"))
	f.run("demo")
	said := func() string { return f.workspace("demo").Annotations[tenantv1beta1.AnnotationDeletionPropagation] }
	for _, c := range []struct{ who, patch, want string }{
		{"template", `"Background"`, "Background"},
		{"template", `"Foreground"`, "Foreground"},
		{"template", `null`, ""},
		{"workspace", `"Background"`, "Background"},
		{"template", `"Orphan"`, "Orphan"},
		{"workspace", `"Background"`, "Orphan"},
		{"template", `null`, ""},
	} {
		patch := `{"metadata":{"annotations":{"kubesphere.io/deletion-propagation":` + c.patch + `}}}`
		if c.who == "template" {
			f.Patch(template("demo", ""), patch)
		} else {
			f.Patch(f.workspace("demo"), patch)
		}
		f.run("demo")
		if said() != c.want {
			t.Fatalf("after %s in the %s the workspace says %q", c.patch, c.who, said())
		}
	}
	if n := f.Written(func() { f.run("demo") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
}

func TestTheWorkspaceMayGoFirst(t *testing.T) { // S9
	f := newFixture(t, template("demo", "", "host"))
	f.run("demo")
	f.Delete(f.workspace("demo"))
	f.Delete(template("demo", ""))
	f.run("demo")
	if f.workspace("demo") != nil || f.Has(template("demo", "")) {
		t.Error("something is left")
	}
}

// D3: what the manager of a template has without a Workspace here ends with the template, and no other workspace's rights do.
func TestTheRightsOfADeletedTemplateEndBeforeIt(t *testing.T) {
	for claim, c := range map[string]struct {
		objects []client.Object
		ended   string
	}{
		"WithoutAWorkspace":               {nil, "demo"},
		"ThoseOfAnothersWorkspaceStay":    {[]client.Object{&tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}}, ""},
		"WorkspacesMayComeBack":           {[]client.Object{controllertest.Definition(workspaceDefinition, true)}, ""},
		"WithItsDefinitionNothingIsMeant": {[]client.Object{controllertest.Definition(definition, true)}, ""},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFixture(t, append(c.objects, template("demo", ""))...)
			f.run("demo")
			f.Delete(template("demo", ""))
			f.run("demo")
			if got := strings.Join(f.ended, " "); got != c.ended || f.Has(template("demo", "")) {
				t.Errorf("the rights of %q ended, want %q; the template is held: %t", got, c.ended, f.Has(template("demo", "")))
			}
		})
	}
	f := newFixture(t, template("demo", ""))
	f.run("demo")
	f.Delete(template("demo", ""))
	f.r.DeleteHeld = func(context.Context, client.Client, client.Reader, string) error { return errors.New("conflict") }
	if _, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "demo"}}); err == nil || !f.Has(template("demo", "")) {
		t.Errorf("it goes before its rights: %v", err)
	}
}

// U50: with the definition of templates all templates are deleted, but no workspace.
func TestU50ADeletedDefinitionTakesNoWorkspace(t *testing.T) {
	f := newFixture(t, template("demo", "", "host"), controllertest.Definition(definition, true))
	f.run("demo")
	f.Delete(template("demo", ""))
	f.run("demo")
	if f.Has(template("demo", "")) || f.workspace("demo") == nil || !f.workspace("demo").DeletionTimestamp.IsZero() {
		t.Error("the template is held, or the workspace was deleted")
	}
}

// U50: with the definition of Clusters this cluster's is deleted, and comes back without its labels. The workspaces that these have placed
// stay until an administrator places them elsewhere, and their template decides about them meanwhile.
func TestU50AClusterThatIsGoneTakesNoWorkspace(t *testing.T) {
	day := func(n int) metav1.Time { return metav1.NewTime(time.Date(2026, 11, n, 12, 0, 0, 0, time.UTC)) }
	one := map[string]string{"region": "one"}
	started := func(t *testing.T) *fixture {
		tpl, first := selecting("demo", &metav1.LabelSelector{MatchLabels: one}), cluster("host", one)
		first.CreationTimestamp = day(1)
		f := newFixture(t, tpl, first, &tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "demo", CreationTimestamp: day(2),
			Annotations: map[string]string{tenantv1beta1.AnnotationTemplateUID: string(tpl.UID)}}})
		f.run("demo")
		if f.reason("demo") != "Placed" {
			t.Fatalf("the template says %s", f.reason("demo"))
		}
		return f
	}
	again := func(labels map[string]string) *clusterv1alpha1.Cluster {
		c := cluster("host", labels)
		c.CreationTimestamp = day(3)
		return c
	}
	f := started(t)
	stays := func(reason string) {
		t.Helper()
		f.run("demo")
		if w := f.workspace("demo"); w == nil || w.Annotations[tenantv1beta1.AnnotationDeletionPropagation] != "" || f.reason("demo") != reason {
			t.Fatalf("the workspace is %+v, its template says %s, want %s", w, f.reason("demo"), reason)
		}
	}
	f.Delete(cluster("host", nil))
	stays("ClusterUnknown")
	f.Create(again(nil))
	stays("ClusterUnknown")
	f.Patch(template("demo", ""), `{"spec":{"template":{"spec":{"manager":"bob"}}}}`)
	stays("ClusterUnknown")
	if w := f.workspace("demo"); w.Spec.Manager != "bob" {
		t.Errorf("its manager is %q", w.Spec.Manager)
	}
	if n := f.Written(func() { f.run("demo") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
	f.Patch(cluster("host", nil), `{"metadata":{"labels":{"region":"one"}}}`)
	stays("Placed")

	for claim, end := range map[string]func(f *fixture){
		"TheSameClusterIsLabelledOtherwise": func(f *fixture) { f.Patch(cluster("host", nil), `{"metadata":{"labels":null}}`) },
		"AnotherClusterIsNamed": func(f *fixture) {
			f.Delete(cluster("host", nil))
			f.Patch(template("demo", ""), `{"spec":{"placement":{"clusters":[{"name":"x"}]}}}`)
		},
		"NoClusterIsSelectedAnyMore": func(f *fixture) {
			f.Delete(cluster("host", nil))
			f.Patch(template("demo", ""), `{"spec":{"placement":{"clusterSelector":null}}}`)
		},
		"TheWorkspaceIsDeleted": func(f *fixture) {
			f.Delete(cluster("host", nil))
			f.Create(again(nil))
			f.Delete(f.workspace("demo"))
		},
	} {
		t.Run(claim, func(t *testing.T) {
			f := started(t)
			end(f)
			f.run("demo")
			if f.workspace("demo") != nil || f.reason("demo") != "NotPlacedHere" {
				t.Errorf("the workspace stays, and its template says %s", f.reason("demo"))
			}
		})
	}
}

func TestTheLabelsOfTheClusterTouchTheTemplatesThatSelect(t *testing.T) {
	f := newFixture(t, template("named", "", "host"), selecting("all", &metav1.LabelSelector{}), template("nowhere", ""))
	if got := f.r.selecting(context.Background(), cluster("host", nil)); len(got) != 1 || got[0].Name != "all" {
		t.Errorf("they touch %v", got)
	}
}

func TestAKindThatIsMissingIsLookedForAgain(t *testing.T) {
	f := newFixture(t, template("demo", "", "host"))
	f.Refuse = func(_ string, o client.Object) error {
		if _, ok := o.(*tenantv1beta1.Workspace); ok {
			return apierrors.NewGenericServerResponse(404, "post", schema.GroupResource{}, "", "", 0, true)
		}
		return nil
	}
	if got := f.Reconcile(f.r, "demo"); got.RequeueAfter != retry.Missing {
		t.Errorf("again after %v", got.RequeueAfter)
	}
}

// behind is a client whose cache has no Workspaces yet.
type behind struct{ client.Client }

func (c behind) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, ok := o.(*tenantv1beta1.Workspace); ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "workspaces"}, key.Name)
	}
	return c.Client.Get(ctx, key, o, options...)
}

// S9: a template that is deleted while the cache does not have its Workspace takes that with it all the same.
func TestS9AWorkspaceThatTheCacheDoesNotHaveYetGoes(t *testing.T) {
	tpl := template("demo", "ann", "host")
	f := newFixture(t, tpl)
	f.run("demo")
	f.Patch(&tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, `{"metadata":{"finalizers":["a.example/b"]}}`)
	f.Delete(tpl)
	f.r.Client = behind{f.Client}
	if again := f.Reconcile(f.r, "demo").RequeueAfter; !f.Has(tpl) || f.workspace("demo").DeletionTimestamp.IsZero() || again == 0 {
		t.Fatalf("the template is there: %t, the workspace is %+v, looked at again after %v", f.Has(tpl), f.workspace("demo"), again)
	}
	f.Patch(f.workspace("demo"), `{"metadata":{"finalizers":null}}`)
	f.run("demo")
	if f.Has(tpl) || f.workspace("demo") != nil || !slices.Equal(f.ended, []string{"demo"}) {
		t.Errorf("the template is there: %t, the workspace is %+v, ended %q", f.Has(tpl), f.workspace("demo"), f.ended)
	}
}
