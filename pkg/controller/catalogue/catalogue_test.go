package catalogue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/catalogue"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
)

// version returns a version of the extension shop whose chart was read.
func version(v, ks, kube string) *v1alpha1.ExtensionVersion {
	created := metav1.NewTime(time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC))
	return &v1alpha1.ExtensionVersion{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-" + v, Labels: map[string]string{v1alpha1.LabelExtension: "shop", v1alpha1.LabelRepository: "museum",
			v1alpha1.LabelCategory: "database"}},
		Spec: v1alpha1.ExtensionVersionSpec{Version: v, KSVersion: ks, KubeVersion: kube, ExtensionInfo: v1alpha1.ExtensionInfo{
			DisplayName: v1alpha1.Locales{"en": "Shop " + v}, Created: &created}},
		Status: v1alpha1.ExtensionVersionStatus{Digest: "read"},
	}
}

func extensions(c *controllertest.Cluster) *catalogue.Extensions {
	return &catalogue.Extensions{Client: c.Client, Live: c.Client, Platform: catalogue.Platform{KubeSphere: "v4.1.3+kapis.dev",
		Kubernetes: func(context.Context) (string, error) { return "v1.31.2-eks-1", nil }}}
}

func shop() *v1alpha1.Extension {
	return &v1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
}

func plan(v string) *v1alpha1.InstallPlan {
	return &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1alpha1.InstallPlanSpec{
		Extension: v1alpha1.ExtensionRef{Name: "shop", Version: v}, Enabled: true}}
}

func TestAnExtensionIsMadeOfItsVersions(t *testing.T) { // X16
	unread, lie := version("9.0.0", "", ""), version("8.0.0", "", "")
	unread.Status.Digest, unread.Spec.DisplayName = "", nil
	lie.Name = "shop-8.0.1"
	c := controllertest.New(t, nil, version("1.9.0", ">=4.0.0", ">=1.19.0-0"), version("1.10.0", "", ">=1.31.0"), version("2.0.0", ">=5.0.0", ""),
		version("1.11.0", "", ">=1.40.0"), version("1.12.0", "nonsense", ""), unread, lie)
	r := extensions(c)
	c.Reconcile(r, "shop")
	e := shop()
	if !c.Has(e) {
		t.Fatal("there is none")
	}
	var listed []string
	for _, v := range e.Status.Versions {
		listed = append(listed, v.Version)
		if v.CreationTimestamp == nil {
			t.Errorf("%s has no time", v.Version)
		}
	}
	if got := strings.Join(listed, " "); got != "2.0.0 1.12.0 1.11.0 1.10.0 1.9.0" || e.Status.RecommendedVersion != "1.10.0" ||
		e.Spec.DisplayName["en"] != "Shop 2.0.0" || e.Labels[v1alpha1.LabelRepository] != "museum" || e.Labels[v1alpha1.LabelCategory] != "database" ||
		len(e.OwnerReferences) > 0 {
		t.Errorf("%s: %+v", got, e)
	}
	raw, err := json.Marshal(e)
	if err != nil || !strings.Contains(string(raw), `"status":{`) {
		t.Errorf("%s %v", raw, err)
	}
	if n := c.Written(func() { c.Reconcile(r, "shop") }); n != 0 {
		t.Errorf("settled, it has %d writes", n)
	}
	for _, v := range []string{"2.0.0", "1.10.0"} {
		if err := c.Client.Delete(t.Context(), version(v, "", "")); err != nil {
			t.Fatal(err)
		}
	}
	c.Reconcile(r, "shop")
	if c.Has(e); e.Status.RecommendedVersion != "1.9.0" || e.Spec.DisplayName["en"] != "Shop 1.12.0" || len(e.Status.Versions) != 3 {
		t.Errorf("%+v", e)
	}
}

func TestNothingIsMadeOfWhatIsNoExtension(t *testing.T) {
	unread := version("1.0.0", "", "")
	unread.Status.Digest, unread.Spec.DisplayName = "", nil
	c := controllertest.New(t, nil, unread)
	if n := c.Written(func() {
		c.Reconcile(extensions(c), "shop")
		c.Reconcile(extensions(c), "Not_Fine")
		c.Reconcile(extensions(c), "gone")
	}); n != 0 {
		t.Errorf("%d writes", n)
	}
	r := extensions(controllertest.New(t, nil, version("1.0.0", "", "")))
	r.Platform.Kubernetes = func(context.Context) (string, error) { return "", errors.New("down") }
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "shop"}}); err == nil {
		t.Error("without the version of the cluster something is recommended")
	}
}

func TestAnExtensionMirrorsItsPlan(t *testing.T) {
	p := plan("1.1.0")
	p.Status = v1alpha1.InstallPlanStatus{Enabled: true, InstallationStatus: v1alpha1.InstallationStatus{State: v1alpha1.StateUpgrading, Version: "1.0.0",
		Conditions: []metav1.Condition{{Type: "Installed", Status: "True", Reason: "r"}}},
		ClusterSchedulingStatuses: map[string]v1alpha1.InstallationStatus{"m": {State: v1alpha1.StateInstalled,
			StateHistory: []v1alpha1.InstallationState{{State: v1alpha1.StateInstalled}}}}}
	c := controllertest.New(t, nil, version("1.0.0", "", ""), p)
	r, e := extensions(c), shop()
	c.Reconcile(r, "shop")
	c.Has(e)
	s := &e.Status
	if s.State != v1alpha1.StateUpgrading || !s.Enabled || s.InstalledVersion != "1.0.0" || s.PlannedInstallVersion != "1.1.0" || len(s.Conditions) != 1 ||
		s.ClusterSchedulingStatuses["m"].State != v1alpha1.StateInstalled || s.ClusterSchedulingStatuses["m"].StateHistory != nil {
		t.Errorf("%+v", s)
	}
	if n := c.Written(func() { c.Reconcile(r, "shop") }); n != 0 {
		t.Errorf("settled, it has %d writes", n)
	}
	if err := c.Client.Delete(t.Context(), version("1.0.0", "", "")); err != nil { // its plan keeps it
		t.Fatal(err)
	}
	if c.Reconcile(r, "shop"); !c.Has(e) || e.Status.InstalledVersion != "1.0.0" || len(e.Status.Versions) != 0 {
		t.Errorf("%+v", e.Status)
	}
	if err := c.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if c.Reconcile(r, "shop"); c.Has(e) {
		t.Errorf("without a version and a plan it is there: %+v", e.Status)
	}
}

func TestAnExtensionGoesWithItsLastVersion(t *testing.T) { // X16
	hand := shop()
	c := controllertest.New(t, nil, hand)
	if c.Reconcile(extensions(c), "shop"); !c.Has(hand) {
		t.Error("one that no repository brought is deleted")
	}
	ours := shop()
	ours.Labels = map[string]string{v1alpha1.LabelRepository: "museum"}
	c = controllertest.New(t, nil, ours)
	late := extensions(c)
	late.Live = controllertest.New(t, nil, version("1.0.0", "", "")).Client // the cache does not have it yet
	if c.Reconcile(late, "shop"); !c.Has(ours) {
		t.Error("one with a version is deleted")
	}
	late.Live = controllertest.New(t, nil, plan("1.0.0")).Client
	if c.Reconcile(late, "shop"); !c.Has(ours) {
		t.Error("one with a plan is deleted")
	}
	if c.Reconcile(extensions(c), "shop"); c.Has(ours) {
		t.Error("it stays")
	}
	old := shop()
	old.Finalizers, old.DeletionTimestamp = []string{v1alpha1.FinalizerExtension}, &metav1.Time{Time: time.Now()}
	c = controllertest.New(t, nil, old, plan("1.0.0"))
	if c.Reconcile(extensions(c), "shop"); !c.Has(old) {
		t.Error("an installed one of an earlier installation is released")
	}
	if err := c.Client.Delete(t.Context(), plan("1.0.0")); err != nil {
		t.Fatal(err)
	}
	if c.Reconcile(extensions(c), "shop"); c.Has(old) {
		t.Error("one of an earlier installation can't be deleted")
	}
}

func TestACategoryCountsItsExtensions(t *testing.T) {
	in := func(name, category string) client.Object {
		return &v1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelCategory: category}}}
	}
	database := &v1alpha1.Category{ObjectMeta: metav1.ObjectMeta{Name: "database"}}
	c := controllertest.New(t, nil, database, in("a", "database"), in("b", "database"), in("c", "storage"))
	r := &catalogue.Categories{Client: c.Client}
	for _, want := range []string{"2", "1"} {
		c.Reconcile(r, "database")
		if c.Has(database); database.Annotations[v1alpha1.AnnotationCount] != want {
			t.Errorf("%v, want %s", database.Annotations, want)
		}
		if n := c.Written(func() { c.Reconcile(r, "database") }); n != 0 {
			t.Errorf("settled, it has %d writes", n)
		}
		_ = c.Client.Delete(t.Context(), in("a", ""))
	}
	c.Reconcile(r, "gone")
}

func TestWhatIsInstalledIsNotDeleted(t *testing.T) {
	p := plan("2.0.0")
	p.Status.Version = "1.0.0"
	p.Status.ClusterSchedulingStatuses = map[string]v1alpha1.InstallationStatus{"m": {Version: "0.9.0"}}
	other := plan("1.0.0")
	other.Name, other.Spec.Extension.Name = "odd", "pay"
	v := &catalogue.Protector{Live: controllertest.New(t, nil, p, other).Client}
	ask := func(v *catalogue.Protector, resource, name string, old any) webhook.Response {
		req := webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Delete, Name: name}}
		req.Resource.Resource = resource
		var err error
		if req.OldObject.Raw, err = json.Marshal(old); err != nil {
			t.Fatal(err)
		}
		return v.Handle(t.Context(), req)
	}
	relabelled := version("2.0.0", "", "")
	relabelled.Labels[v1alpha1.LabelExtension] = "other"
	emptied := version("1.0.0", "", "")
	emptied.Spec.Version = ""
	for i, c := range []struct {
		resource, name string
		old            any
		refused        bool
	}{
		{"extensions", "shop", shop(), true}, {"extensions", "pay", nil, true}, {"extensions", "other", nil, false},
		{"extensions", "", shop(), true}, // one of a collection
		{"extensions", "", &v1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, false},
		{"extensionversions", "shop-2.0.0", version("2.0.0", "", ""), true}, {"extensionversions", "shop-1.0.0", version("1.0.0", "", ""), true},
		{"extensionversions", "shop-0.9.0", version("0.9.0", "", ""), true}, {"extensionversions", "shop-3.0.0", version("3.0.0", "", ""), false},
		{"extensionversions", "shop-2.0.0", relabelled, true}, {"extensionversions", "shop-1.0.0", emptied, true},
	} {
		out := ask(v, c.resource, c.name, c.old)
		if out.Allowed == c.refused || c.refused && (out.Result.Code != http.StatusConflict || !strings.Contains(out.Result.Message, "InstallPlan")) {
			t.Errorf("%d, %s %s: %+v", i, c.resource, c.name, out)
		}
	}
	for _, of := range []struct{ resource, name string }{{"extensionversions", "x"}, {"extensions", ""}} {
		if out := ask(v, of.resource, of.name, "no object"); out.Allowed || out.Result.Code != http.StatusBadRequest {
			t.Errorf("one of %s that can't be read: %+v", of.resource, out)
		}
	}
	down := interceptor.NewClient(controllertest.New(t, nil).Client.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return fmt.Errorf("down")
		}})
	if out := ask(&catalogue.Protector{Live: down}, "extensions", "shop", shop()); out.Allowed {
		t.Error("while plans can't be read, extensions are deleted")
	}
}
