package namespace

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

func plain(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (f *fixture) labels(name string) (workspace, managed, protected string) {
	f.T.Helper()
	ns := plain(name)
	if !f.Has(ns) {
		f.T.Fatalf("there is no namespace %s", name)
	}
	return ns.Labels[tenantv1beta1.LabelWorkspace], ns.Labels[tenantv1beta1.LabelManaged], ns.Labels[tenantv1beta1.LabelProtectedResource]
}

func TestD8NamespacesOfTheSystemJoinItsWorkspace(t *testing.T) {
	made := plain("kube-made")
	made.Annotations = map[string]string{tenantv1beta1.AnnotationCreator: "ann"}
	elsewhere := plain("kubesphere-part")
	elsewhere.Labels = map[string]string{tenantv1beta1.LabelWorkspace: "demo"}
	ending := plain("kube-ending")
	ending.DeletionTimestamp, ending.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/held"}
	f := newFixture(t, plain("default"), plain("kubernetes"), made, elsewhere, ending)
	all := []string{"default", "kubernetes", "kube-made", "kubesphere-part", "kube-ending"}

	if n := f.Written(func() { f.run("default") }); n != 0 {
		t.Errorf("before there is such a workspace, %d were written", n)
	}
	system := space(tenantv1beta1.SystemWorkspace)
	if err := f.Client.Create(t.Context(), system); err != nil {
		t.Fatal(err)
	}
	var asked []string
	for _, q := range f.r.inWorkspace(context.Background(), system) {
		asked = append(asked, q.Name)
	}
	slices.Sort(asked)
	if want := []string{"default", "kube-ending", "kube-made"}; !slices.Equal(asked, want) {
		t.Errorf("when it comes, these are reconciled: %v, want %v", asked, want)
	}
	for _, name := range all {
		f.run(name)
	}
	for _, name := range []string{"default", "kube-made"} {
		if w, m, p := f.labels(name); w != "system-workspace" || m != "true" || p != "true" {
			t.Errorf("%s: workspace %q, managed %q, protected %q", name, w, m, p)
		}
	}
	for name, want := range map[string]string{"kubernetes": "", "kubesphere-part": "demo", "kube-ending": ""} {
		if w, m, p := f.labels(name); w != want || m != "" || p != "" {
			t.Errorf("%s: workspace %q, want %q; managed %q, protected %q", name, w, want, m, p)
		}
	}
	if b := f.boundIn("kube-made"); b != "" {
		t.Errorf("for having made a namespace of the system, %s", b)
	}

	// Who takes one out again has decided.
	f.Patch(plain("default"), `{"metadata":{"labels":{"kubesphere.io/workspace":null,"kubesphere.io/protected-resource":null}}}`)
	f.run("default")
	if w, _, p := f.labels("default"); w != "" || p != "" {
		t.Errorf("taken out again, it has workspace %q and protection %q", w, p)
	}
}

// S6: who may create namespaces anywhere does not become the administrator of one in which the platform installs.
func TestNobodyIsTheCreatorOfANamespaceOfTheSystem(t *testing.T) {
	for _, name := range []string{"default", "kube-made", "kubesphere-logging-system", "extension-shop", "svc"} {
		f := newFixture(t, project(name, "demo", "ann"))
		f.run(name)
		if got := f.boundIn(name); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
