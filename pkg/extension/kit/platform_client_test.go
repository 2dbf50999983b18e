package kit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	kubetesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/extension/kit"
)

var (
	plans          = schema.GroupVersionResource{Group: "kubesphere.io", Version: "v1alpha1", Resource: "installplans"}
	versions       = schema.GroupVersionResource{Group: "kubesphere.io", Version: "v1alpha1", Resource: "extensionversions"}
	configMaps     = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	jsBundles      = schema.GroupVersionResource{Group: "extensions.kubesphere.io", Version: "v1alpha1", Resource: "jsbundles"}
	apiServices    = schema.GroupVersionResource{Group: "extensions.kubesphere.io", Version: "v1alpha1", Resource: "apiservices"}
	reverseProxies = schema.GroupVersionResource{Group: "extensions.kubesphere.io", Version: "v1alpha1", Resource: "reverseproxies"}
)

// platform is an installation in memory, with what its user is told.
type platform struct {
	*kit.Installation
	t     *testing.T
	fake  *fake.FakeDynamicClient
	state string // of the chart of a version, once it is written: read, or why not

	mu   sync.Mutex
	told strings.Builder
	tell chan string // what is told, for tests that wait for it
}

func (p *platform) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.tell <- string(text):
	default:
	}
	return p.told.Write(text)
}

func (p *platform) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told.String()
}

// newPlatform returns an installation with objects, as YAML.
func newPlatform(t *testing.T, objects ...string) *platform {
	t.Helper()
	p := &platform{t: t, state: "read", tell: make(chan string, 64)}
	var all []runtime.Object
	for _, text := range objects {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	p.fake = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		versions: "ExtensionVersionList", {Group: "kubesphere.io", Version: "v1alpha1", Resource: "extensions"}: "ExtensionList", configMaps: "ConfigMapList",
		jsBundles: "JSBundleList", apiServices: "APIServiceList", reverseProxies: "ReverseProxyList", plans: "InstallPlanList"}, all...)
	p.fake.PrependReactor("get", "extensionversions", func(a kubetesting.Action) (bool, runtime.Object, error) {
		got, err := p.fake.Tracker().Get(versions, "", a.(kubetesting.GetAction).GetName())
		if err != nil {
			return true, nil, err
		}
		o := got.(*unstructured.Unstructured).DeepCopy()
		condition, status := map[string]any{"type": "ChartRead", "status": "True", "message": "the chart was read"}, map[string]any{}
		digest, _, _ := unstructured.NestedString(o.Object, "spec", "digest")
		if status["digest"] = digest; p.state != "read" {
			condition["status"], condition["message"] = "False", p.state
		}
		if status["conditions"] = []any{condition}; p.state == "" {
			delete(status, "conditions")
		}
		o.Object["status"] = status
		return true, o, nil
	})
	p.Installation = &kit.Installation{Client: p.fake, Tell: p, Pause: time.Millisecond}
	return p
}

// object returns an object, nil for none.
func (p *platform) object(of schema.GroupVersionResource, namespace, name string) map[string]any {
	p.t.Helper()
	o, err := p.fake.Tracker().Get(of, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return o.(*unstructured.Unstructured).Object
}

// push packs and pushes a chart.
func (p *platform) push(changes map[string]string) ([]byte, error) {
	p.t.Helper()
	a, err := opened(p.t, shop(changes))
	if err != nil {
		p.t.Fatal(err)
	}
	raw, r, err := kit.Package(a)
	if err != nil || r.Refused() > 0 {
		p.t.Fatalf("%+v %v", r, err)
	}
	return raw, p.Push(p.t.Context(), raw, r)
}

// writes counts the requests that change something.
func (p *platform) writes() (n int) {
	for _, a := range p.fake.Actions() {
		if v := a.GetVerb(); v != "get" && v != "list" {
			n++
		}
	}
	return n
}

func TestAPushedChartIsAVersion(t *testing.T) {
	p := newPlatform(t)
	raw, err := p.push(nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(raw []byte) {
		t.Helper()
		m := &unstructured.Unstructured{Object: p.object(configMaps, "kubesphere-system", "extension-shop-1.0.0-chart")}
		data, _, _ := unstructured.NestedStringMap(m.Object, "binaryData")
		v := &unstructured.Unstructured{Object: p.object(versions, "", "shop-1.0.0")}
		digest, _, _ := unstructured.NestedString(v.Object, "spec", "digest")
		ref, _, _ := unstructured.NestedStringMap(v.Object, "spec", "chartDataRef")
		if len(data["chart.tgz"]) == 0 || digest != chart.Digest(raw) || v.GetLabels()["kubesphere.io/extension-ref"] != "shop" ||
			ref["namespace"] != "kubesphere-system" || ref["name"] != m.GetName() || ref["key"] != "chart.tgz" {
			t.Errorf("%v, %v", m, v)
		}
	}
	check(raw)
	before := p.writes()
	if _, err := p.push(nil); err != nil || p.writes() != before {
		t.Errorf("the same chart is written again: %d, %v", p.writes()-before, err)
	}
	other, err := p.push(map[string]string{"values.yaml": "a: 2\n"})
	if err != nil || p.writes() != before+2 {
		t.Errorf("%d writes, %v\n%s", p.writes()-before, err, p.said())
	}
	check(other)
}

func TestNothingOfARepositoryIsWrittenOver(t *testing.T) {
	const apiVersion = "apiVersion: kubesphere.io/v1alpha1\n"
	for name, object := range map[string]string{
		"the Extension": apiVersion + "kind: Extension\nmetadata: {name: shop, labels: {kubesphere.io/repository-ref: museum}}",
		"another version": apiVersion + "kind: ExtensionVersion\nmetadata: {name: shop-0.9.0, labels: {kubesphere.io/extension-ref: shop}}\n" +
			"spec: {version: 0.9.0, repository: museum}",
		"another version, by its label": apiVersion + "kind: ExtensionVersion\n" +
			"metadata: {name: shop-0.9.0, labels: {kubesphere.io/extension-ref: shop, kubesphere.io/repository-ref: museum}}",
		"this version, without a label": apiVersion + "kind: ExtensionVersion\nmetadata: {name: shop-1.0.0}\nspec: {repository: museum}",
	} {
		p := newPlatform(t, object)
		if _, err := p.push(nil); err == nil || !strings.Contains(err.Error(), "Repository museum") || p.writes() > 0 {
			t.Errorf("%s: %v, %d writes", name, err, p.writes())
		}
	}
	for name, c := range map[string]struct{ object, say string }{
		"a version with its chart elsewhere": {apiVersion + "kind: ExtensionVersion\nmetadata: {name: shop-1.0.0}\n" +
			"spec: {chartURL: https://a.example.com/x.tgz}", "delete it first"},
		"a ConfigMap that is no chart": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extension-shop-1.0.0-chart, namespace: kubesphere-system}\ndata: {a: b}",
			"no chart"},
	} {
		p := newPlatform(t, c.object)
		if _, err := p.push(nil); err == nil || !strings.Contains(err.Error(), c.say) || p.writes() > 0 {
			t.Errorf("%s: %v, %d writes", name, err, p.writes())
		}
	}
}

func TestAPushThatFailsSaysWhy(t *testing.T) {
	p := newPlatform(t)
	p.state = "the digest is another one"
	if _, err := p.push(nil); err == nil || !strings.Contains(err.Error(), p.state) {
		t.Errorf("a chart that is not read: %v", err)
	}
	p = newPlatform(t)
	if err := p.Push(t.Context(), make([]byte, kit.MaxPushed+1), &kit.Report{Name: "shop", Version: "1.0.0"}); err == nil ||
		!strings.Contains(err.Error(), "chart repository") || len(p.fake.Actions()) > 0 {
		t.Errorf("a chart that is too large: %v", err)
	}
	p.fake.PrependReactor("create", "configmaps", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("no role"))
	})
	if _, err := p.push(nil); !apierrors.IsForbidden(err) || p.object(versions, "", "shop-1.0.0") != nil {
		t.Errorf("a user without the right: %v", err)
	}
	p = newPlatform(t)
	p.state = "" // nobody reads it
	ctx, cancel := context.WithCancelCause(t.Context())
	p.fake.PrependReactor("create", "extensionversions", func(kubetesting.Action) (bool, runtime.Object, error) {
		cancel(errors.New("enough"))
		return false, nil, nil
	})
	a, err := opened(t, shop(nil))
	if err != nil {
		t.Fatal(err)
	}
	raw, r, err := kit.Package(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Push(ctx, raw, r); err == nil || err.Error() != "enough" {
		t.Errorf("it is waited for without end: %v", err)
	}
}

// trial runs one, and returns what ends it and its outcome.
func (p *platform) trial(in *kit.Trial) (stop func() error) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, in) }()
	return func() error { cancel(); return <-done }
}

// hears waits until the user is told something.
func (p *platform) hears(text string) {
	p.t.Helper()
	for limit := time.After(time.Minute); ; {
		select {
		case said := <-p.tell:
			if strings.Contains(said, text) {
				return
			}
		case <-limit:
			p.t.Fatalf("%q is not told: %s", text, p.said())
		}
	}
}

func pageFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "index.js")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

var shopAPI = schema.GroupVersion{Group: "shop.example.com", Version: "v1"}

func TestATrialFollowsItsPageAndLeavesNothing(t *testing.T) {
	p := newPlatform(t)
	page := pageFile(t, "one")
	stop := p.trial(&kit.Trial{Name: "shop", Backend: "http://127.0.0.1:8080", API: shopAPI, Proxy: "/proxy/shop", Page: page})
	p.hears("Ctrl-C")
	for of, name := range map[schema.GroupVersionResource]string{apiServices: "v1.shop.example.com", reverseProxies: "shop", jsBundles: "shop"} {
		o := &unstructured.Unstructured{Object: p.object(of, "", name)}
		if o.Object == nil || o.GetLabels()[kit.LabelRun] != "shop" || o.GetLabels()["kubesphere.io/extension-ref"] != "" {
			t.Errorf("%s: %v", of.Resource, o)
		}
	}
	if !strings.Contains(p.said(), "egress.allowLoopback") || !strings.Contains(p.said(), kit.RemoveCommand("shop")) {
		t.Errorf("the user is not told: %s", p.said())
	}
	if err := os.WriteFile(page, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.hears("is empty") // as editors leave it for a moment
	if err := os.WriteFile(page, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.hears("is there now")
	if raw, _, _ := unstructured.NestedString(p.object(jsBundles, "", "shop"), "spec", "raw"); raw != "dHdv" {
		t.Errorf("the page is %q", raw)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for of, name := range map[schema.GroupVersionResource]string{apiServices: "v1.shop.example.com", reverseProxies: "shop", jsBundles: "shop"} {
		if o := p.object(of, "", name); o != nil {
			t.Errorf("%v is left", o)
		}
	}
}

func TestATrialTakesNothingOfOthers(t *testing.T) {
	const installed = "apiVersion: extensions.kubesphere.io/v1alpha1\nkind: ReverseProxy\nmetadata: {name: shop, labels: {kubesphere.io/extension-ref: shop}}"
	p := newPlatform(t, installed)
	err := p.Run(t.Context(), &kit.Trial{Name: "shop", Backend: "http://10.0.0.1:8080", API: shopAPI, Proxy: "/proxy/shop"})
	if err == nil || !strings.Contains(err.Error(), "the extension shop") || p.object(reverseProxies, "", "shop") == nil {
		t.Errorf("%v", err)
	}
	if o := p.object(apiServices, "", "v1.shop.example.com"); o != nil {
		t.Errorf("a trial that can't begin leaves %v", o)
	}
}

func TestALaterTrialTakesOver(t *testing.T) {
	p := newPlatform(t, "apiVersion: extensions.kubesphere.io/v1alpha1\nkind: JSBundle\n"+
		"metadata: {name: shop, labels: {kapis.dev/extension-run: shop}, annotations: {kapis.dev/extension-run-id: crashed}}\nspec: {raw: b2xk}")
	page := pageFile(t, "new")
	first := p.trial(&kit.Trial{Name: "shop", Page: page})
	p.hears("Ctrl-C")
	if raw, _, _ := unstructured.NestedString(p.object(jsBundles, "", "shop"), "spec", "raw"); raw != "bmV3" || !strings.Contains(p.said(), "taken over") {
		t.Errorf("%q: %s", raw, p.said())
	}
	second := p.trial(&kit.Trial{Name: "shop", Page: pageFile(t, "second")})
	p.hears("Ctrl-C")
	if err := os.WriteFile(page, []byte("first again"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.hears("another run has taken it over")
	if err := first(); err != nil || p.object(jsBundles, "", "shop") == nil {
		t.Errorf("a former run removes what a later one uses: %v", err)
	}
	if err := second(); err != nil || p.object(jsBundles, "", "shop") != nil {
		t.Errorf("the last run leaves its page: %v", err)
	}
}

func TestATrialIsChecked(t *testing.T) {
	for _, in := range []kit.Trial{
		{}, {Name: "shop"}, {Name: "Shop", Backend: "http://a"}, {Name: "shop", Backend: "ftp://a"}, {Name: "shop", Backend: "http://user:word@a"},
		{Name: "shop", Backend: "http://a/path"}, {Name: "shop", Backend: "http://a?q=1"}, {Name: "shop", Backend: "127.0.0.1:80"},
		{Name: "shop", Page: filepath.Join(t.TempDir(), "none.js")}, {Name: "shop", Page: pageFile(t, strings.Repeat("x", 512<<10+1))},
	} {
		p := newPlatform(t)
		if err := p.Run(t.Context(), &in); err == nil || p.writes() > 0 || strings.Contains(err.Error(), "word") {
			t.Errorf("%+v: %v", in, err)
		}
	}
}

func TestWhatCantBeRemovedIsTold(t *testing.T) {
	p := newPlatform(t)
	p.fake.PrependReactor("delete", "jsbundles", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "jsbundles"}, "shop", errors.New("no role"))
	})
	stop := p.trial(&kit.Trial{Name: "shop", Page: pageFile(t, "x")})
	p.hears("Ctrl-C")
	if err := stop(); !apierrors.IsForbidden(err) || !strings.Contains(p.said(), "What is left is removed by") {
		t.Errorf("%v: %s", err, p.said())
	}
}

func TestATrialSaysWhetherTheBackendIsReached(t *testing.T) {
	p := newPlatform(t)
	stop := p.trial(&kit.Trial{Name: "shop", Backend: "http://10.0.0.1:8080", Proxy: "/proxy/shop"})
	p.hears("Ctrl-C")
	at := p.fake.Resource(reverseProxies)
	for status, say := range map[string]string{"False": "not reached: connection refused", "True": "the backend is reached"} {
		o, err := at.Get(t.Context(), "shop", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Reachable", "status": status, "message": "connection refused"}}}
		if _, err := at.Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		p.hears(say)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
