package extensionversion_test

import (
	"context"
	"errors"
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

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
	"kapis.dev/ks-apiserver/pkg/controller/extensionversion"
)

// packed returns the chart of an extension.
func packed(t *testing.T, extension string, files ...string) []byte {
	t.Helper()
	all := map[string]string{"Chart.yaml": "name: shop\nversion: 1.0.0\n", "extension.yaml": extension}
	for i := 0; i < len(files); i += 2 {
		all[files[i]] = files[i+1]
	}
	return charttest.Pack(t, "shop", all)
}

// charts answers with one chart, and counts.
type charts struct {
	raw   []byte
	err   error
	reads int
}

func (c *charts) Load(context.Context, *v1alpha1.ExtensionVersion) ([]byte, error) {
	c.reads++
	return c.raw, c.err
}

func version() *v1alpha1.ExtensionVersion {
	return &v1alpha1.ExtensionVersion{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-1.0.0", Labels: map[string]string{v1alpha1.LabelExtension: "shop", v1alpha1.LabelRepository: "museum"}},
		Spec:       v1alpha1.ExtensionVersionSpec{Version: "1.0.0", ChartURL: "https://charts.example.com/shop-1.0.0.tgz", Repository: "museum"},
	}
}

// says holds that the chart was read, or why not.
func says(t *testing.T, v *v1alpha1.ExtensionVersion, status metav1.ConditionStatus, text string) {
	t.Helper()
	c := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionChartRead)
	if c == nil || c.Status != status || !strings.Contains(c.Reason+": "+c.Message, text) {
		t.Errorf("%+v, want %s with %s", c, status, text)
	}
}

const plain = "name: shop\nversion: 1.0.0\n"

func TestAVersionSaysWhatItsChartDoes(t *testing.T) { // X16
	full := plain + `displayName: {en: The Shop, zh: 商店}
description: {en: Sells}
provider: {en: {name: Shops, url: u, email: e}}
icon: static/icon.png
category: database
keywords: [a, b]
home: h
docs: d
sources: [s]
screenshots: [x]
kubeVersion: '>=1.19.0-0'
ksVersion: '>=4.0.0'
installationMode: Multicluster
namespace: shop
externalDependencies: [{name: pay, type: extension, version: ^1.0.0, required: true}]
`
	from := &charts{raw: packed(t, full, "static/icon.png", "png")}
	v := version()
	c := controllertest.New(t, nil, v)
	r := extensionversion.New(c.Client, from, time.Now)
	c.Reconcile(r, v.Name)
	c.Has(v)
	s := &v.Spec
	if s.DisplayName["zh"] != "商店" || s.Description["en"] != "Sells" || s.Provider["en"].Name != "Shops" || s.Icon != "data:image/png;base64,cG5n" ||
		s.Category != "database" || len(s.Keywords) != 2 || s.Home != "h" || s.Docs != "d" || len(s.Sources) != 1 || len(s.Screenshots) != 1 ||
		s.KubeVersion != ">=1.19.0-0" || s.KSVersion != ">=4.0.0" || s.InstallationMode != v1alpha1.InstallationMulticluster || s.Namespace != "shop" ||
		len(s.ExternalDependencies) != 1 || !s.ExternalDependencies[0].Required || s.Digest != chart.Digest(from.raw) || v.Status.Digest != s.Digest ||
		s.ChartURL == "" || s.Repository != "museum" || v.Labels[v1alpha1.LabelCategory] != "database" || v.Labels[v1alpha1.LabelRepository] != "museum" {
		t.Errorf("%+v %+v", v.Labels, s)
	}
	says(t, v, metav1.ConditionTrue, "")

	again := extensionversion.New(c.Client, from, time.Now)
	if n := c.Written(func() { c.Reconcile(r, v.Name); c.Reconcile(again, v.Name) }); n != 0 || from.reads != 1 {
		t.Errorf("settled, it has %d writes and %d reads", n, from.reads)
	}
	// Another digest is another chart. What it does not say goes.
	from.raw = packed(t, plain)
	c.Patch(v, `{"spec":{"digest":"`+chart.Digest(from.raw)+`"}}`)
	c.Reconcile(r, v.Name)
	if c.Has(v); len(v.Spec.DisplayName) != 0 || v.Labels[v1alpha1.LabelCategory] != "" || from.reads != 2 || v.Spec.Icon != "" {
		t.Errorf("%+v, %d reads", v, from.reads)
	}
}

func TestWhatIsNoChartOfTheVersionIsTold(t *testing.T) { // X16, X17
	for name, c := range map[string]struct {
		raw  []byte
		err  error
		edit func(*v1alpha1.ExtensionVersion)
		say  string
	}{
		"NoArchive":      {raw: []byte("x"), say: "no gzipped archive"},
		"NoExtension":    {raw: packed(t, ""), say: "extension.yaml: name is"},
		"Unreachable":    {err: &source.Failure{Reason: source.ReasonUnreachable, Message: "it is away"}, say: "Unreachable: it is away"},
		"OtherExtension": {raw: packed(t, plain), edit: func(v *v1alpha1.ExtensionVersion) { v.Labels[v1alpha1.LabelExtension] = "other" }, say: "another one is expected"},
		"OtherVersion":   {raw: packed(t, plain), edit: func(v *v1alpha1.ExtensionVersion) { v.Spec.Version = "2.0.0" }, say: "another one is expected"},
		"OtherName":      {raw: packed(t, plain), edit: func(v *v1alpha1.ExtensionVersion) { v.Name = "shop-1.0.1" }, say: "another one is expected"},
	} {
		t.Run(name, func(t *testing.T) {
			v := version()
			if c.edit != nil {
				c.edit(v)
			}
			in := controllertest.New(t, nil, v)
			now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
			from := &charts{raw: c.raw, err: c.err}
			r := extensionversion.New(in.Client, from, func() time.Time { return now })
			wait := in.Reconcile(r, v.Name).RequeueAfter
			in.Has(v)
			says(t, v, metav1.ConditionFalse, c.say)
			if v.Status.Digest != "" || len(v.Spec.DisplayName) > 0 {
				t.Errorf("%+v", v)
			}
			if in.Reconcile(r, v.Name); from.reads != 1 || wait <= 0 {
				t.Errorf("after its own write it is read again: %d, wait %v", from.reads, wait)
			}
			now = now.Add(wait)
			if n := in.Written(func() { in.Reconcile(r, v.Name) }); n != 0 || from.reads != 2 {
				t.Errorf("the same failure: %d writes, %d reads", n, from.reads)
			}
			in.Patch(v, `{"spec":{"chartURL":"https://other.example.com/x.tgz"}}`)
			if in.Reconcile(r, v.Name); from.reads != 3 {
				t.Error("another address is not tried at once")
			}
		})
	}
}

// What the API refuses of a chart's description is the chart's fault; what the cluster can't do is tried again.
func TestARefusedDescriptionIsTold(t *testing.T) {
	v := version()
	c := controllertest.New(t, nil, v)
	gr := schema.GroupResource{Group: v1alpha1.GroupName, Resource: "extensionversions"}
	c.Refuse = func(_ string, o client.Object) error {
		if len(o.(*v1alpha1.ExtensionVersion).Spec.DisplayName) > 0 {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "ExtensionVersion"}, v.Name, nil)
		}
		return nil
	}
	r := extensionversion.New(c.Client, &charts{raw: packed(t, plain+"displayName: {en: x}\n")}, time.Now)
	c.Reconcile(r, v.Name)
	c.Has(v)
	says(t, v, metav1.ConditionFalse, "not valid")
	c.Refuse = nil
	down := extensionversion.New(c.Client, &charts{err: errors.New("down")}, time.Now)
	if _, err := down.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: v.Name}}); err == nil {
		t.Error("an error of the cluster is none")
	}
	c.Refuse = func(string, client.Object) error { return apierrors.NewConflict(gr, v.Name, errors.New("changed")) }
	if out := c.Reconcile(extensionversion.New(c.Client, &charts{raw: packed(t, plain)}, time.Now), v.Name); out.RequeueAfter <= 0 {
		t.Error("a conflict is not tried again")
	}
}

func TestIconsAreURLsOrImagesOfTheChart(t *testing.T) {
	for icon, want := range map[string]string{
		"https://a.example.com/i.png": "https://a.example.com/i.png", "data:image/png;base64,AA==": "data:image/png;base64,AA==", "data:text/html,x": "",
		"javascript:alert(1)": "", "static/i.svg": "data:image/svg+xml;base64,PHN2Zy8+", "./static/i.svg": "data:image/svg+xml;base64,PHN2Zy8+",
		"../shop/static/i.svg": "", "Chart.yaml": "", "static/none.png": "", "static/large.png": "", "": "",
	} {
		v := version()
		c := controllertest.New(t, nil, v)
		raw := packed(t, plain+"icon: '"+icon+"'\n", "static/i.svg", "<svg/>", "static/large.png", strings.Repeat("x", 300<<10))
		c.Reconcile(extensionversion.New(c.Client, &charts{raw: raw}, time.Now), v.Name)
		if c.Has(v); v.Spec.Icon != want {
			t.Errorf("%q: %.60q", icon, v.Spec.Icon)
		}
	}
}
