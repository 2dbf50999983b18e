package extension_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	platform "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	controller "kapis.dev/ks-apiserver/pkg/controller/extension"
)

// X6: the objects of an installed extension lead to Services of its namespace, and to hosts that were approved with its plan.
func TestX6AnExtensionLeadsToItsOwnNamespace(t *testing.T) {
	plan := func(name, namespace string, annotations map[string]string) *platform.InstallPlan {
		return &platform.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Spec:   platform.InstallPlanSpec{Extension: platform.ExtensionRef{Name: name, Version: "1.0.0"}},
			Status: platform.InstallPlanStatus{InstallationStatus: platform.InstallationStatus{TargetNamespace: namespace}}}
	}
	v := &controller.Validator{Live: newClient(t,
		plan("shop", "extension-shop", map[string]string{platform.AnnotationApprovedUpstreams: "api.example.com 192.0.2.7",
			platform.AnnotationUpstreams: "api.example.com 192.0.2.7 asked-for.example.com"}),
		plan("com", "com", nil), plan("new", "", nil),
		&platform.ExtensionVersion{ObjectMeta: metav1.ObjectMeta{Name: "new-1.0.0"}, Spec: platform.ExtensionVersionSpec{Namespace: "own"}})}
	service := func(namespace string) obj {
		return obj{"service": obj{"namespace": namespace, "name": "web", "port": 80}}
	}
	url := func(url string) obj { return obj{"url": url} }
	for _, c := range []struct {
		extension string
		to        obj
		ok        bool
	}{
		{"shop", service("extension-shop"), true},
		{"shop", url("http://web.extension-shop.svc:8080"), true},
		{"shop", url("https://WEB.extension-shop.svc.cluster.local"), true},
		{"shop", url("https://api.example.com:8443"), true},
		{"shop", url("https://192.0.2.7"), true},
		{"shop", service("kubesphere-system"), false},
		{"shop", service("extension-shop-2"), false},
		{"shop", url("http://web.kubesphere-system.svc"), false},
		{"shop", url("http://web.extension-shop"), false},
		{"shop", url("http://web.extension-shop.svc.evil.example.com"), false},
		{"shop", url("http://a.web.extension-shop.svc"), false},
		{"shop", url("http://extension-shop.svc"), false},
		{"shop", url("http://.extension-shop.svc"), false},
		{"shop", url("https://other.api.example.com"), false},
		{"shop", url("https://asked-for.example.com"), false},
		{"shop", url("https://10.96.0.10"), false},
		{"shop", url("https://api.example.com.svc"), false},
		{"com", url("http://example.com"), false},
		{"new", service("own"), true},
		{"new", service("extension-new"), false},
		{"nobody", service("kubesphere-system"), true}, // nothing has installed it: it is its writer's
		{"", service("kubesphere-system"), true},
	} {
		labels := obj{}
		if c.extension != "" {
			labels[v1alpha1.LabelExtension] = c.extension
		}
		api := obj{"group": "shop.example.com", "version": "v1"}
		for k, value := range c.to {
			api[k] = value
		}
		for resource, spec := range map[string]obj{"apiservices": api,
			"reverseproxies": {"matcher": obj{"path": "/proxy/shop/*"}, "upstream": c.to},
			"jsbundles":      {"raw": "eA==", "assets": obj{"style": obj{"link": "/dist/" + c.extension + "/a.css", "url": c.to["url"], "service": c.to["service"]}}}} {
			if resource == "jsbundles" && c.extension == "" {
				continue
			}
			o := obj{"metadata": obj{"name": "x", "labels": labels}, "spec": spec,
				"status": obj{"link": "/dist/" + c.extension + "/index.js"}}
			out := v.Handle(t.Context(), request(t, resource, o, nil))
			switch {
			case out.Allowed != c.ok:
				t.Errorf("%s of %q to %v: %v %v", resource, c.extension, c.to, out.Allowed, out.Result)
			case !c.ok && !strings.Contains(out.Result.Message, "kapis.dev/upstreams"):
				t.Errorf("%s of %q to %v: %s", resource, c.extension, c.to, out.Result.Message)
			}
		}
	}
}

// X3: nobody matches in the path of another extension; within one extension, and among administrators' own objects, the rank decides.
func TestX3APathIsOneExtensionsOwn(t *testing.T) {
	of := func(name, extension, path, method string) *v1alpha1.ReverseProxy {
		o := &v1alpha1.ReverseProxy{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelExtension: extension}}}
		o.Spec.Matcher, o.Spec.Upstream.URL = v1alpha1.Matcher{Path: path, Method: method}, ptr.To("https://shop.example.com")
		return o
	}
	theirs := of("theirs", "", "/proxy/console/*", "*")
	theirs.Labels[v1alpha1.LabelProxyTarget] = v1alpha1.TargetConsole
	v := &controller.Validator{Live: newClient(t, of("grafana", "grafana", "/proxy/grafana/*", ""), of("reads", "reads", "/proxy/m/*", "GET"),
		of("login", "login", "/proxy/login", "*"), of("admins", "", "/proxy/admins/*", "*"), theirs)}
	for _, c := range []struct {
		extension, path, method, taken string
	}{
		{"b", "/proxy/grafana/api/*", "*", "grafana"},
		{"b", "/proxy/grafana/*", "POST", "grafana"},
		{"b", "/proxy/grafana/login", "GET", "grafana"},
		{"b", "/proxy/graf*", "DELETE", "grafana"},
		{"", "/proxy/grafana/x", "*", "grafana"},
		{"b", "/proxy/login*", "*", "login"},
		{"b", "/proxy/login", "get", "login"},
		{"b", "/proxy/m/x", "*", "reads"},
		{"b", "/proxy/admins/x", "*", "admins"},
		{"grafana", "/proxy/grafana/*", "*", "grafana"},
		{"grafana", "/proxy/grafana/api/*", "*", ""},
		{"grafana", "/proxy/grafana/*", "POST", ""},
		{"", "/proxy/admins/x", "*", ""},
		{"b", "/proxy/m/*", "POST", ""},
		{"b", "/proxy/login/x", "*", ""},
		{"b", "/proxy/grafana", "*", ""},
		{"b", "/proxy/grafanas/*", "*", ""},
		{"b", "/proxy/console/x", "*", ""},
	} {
		o := of("new", c.extension, c.path, c.method)
		out := v.Handle(t.Context(), request(t, "reverseproxies", o, nil))
		if out.Allowed != (c.taken == "") ||
			c.taken != "" && (out.Result.Code != http.StatusConflict || !strings.Contains(out.Result.Message, c.taken+" matches")) {
			t.Errorf("%s %s of %q: %v %+v", c.method, c.path, c.extension, out.Allowed, out.Result)
		}
	}
	// One that was there before can be disabled.
	old := of("new", "b", "/proxy/grafana/api/*", "*")
	now := old.DeepCopy()
	now.Status.State = "Disabled"
	if out := v.Handle(t.Context(), request(t, "reverseproxies", now, old)); !out.Allowed {
		t.Errorf("%+v", out.Result)
	}
}

// X6: whoever has nothing verify the backend is told, and so is everybody who reads the object.
func TestX6ABackendThatIsNotVerifiedIsTold(t *testing.T) {
	v := &controller.Validator{Live: newClient(t)}
	for _, c := range []struct {
		resource string
		spec     obj
		want     string
	}{
		{"apiservices", obj{"group": "shop.example.com", "version": "v1", "url": "https://shop.example.com"}, ""},
		{"apiservices", obj{"group": "shop.example.com", "version": "v1", "url": "http://shop.example.com"}, "spec: plain http"},
		{"apiservices", obj{"group": "shop.example.com", "version": "v1", "url": "https://shop.example.com", "insecureSkipVerify": true}, "spec.insecureSkipVerify"},
		{"apiservices", obj{"group": "shop.example.com", "version": "v1", "url": "https://shop.example.com/in"}, "kapis.dev/backend-root"},
		{"reverseproxies", obj{"matcher": obj{"path": "/proxy/x/*"}, "upstream": obj{"url": "https://shop.example.com/in"}}, ""},
		{"reverseproxies", obj{"matcher": obj{"path": "/proxy/x/*"}, "upstream": obj{"url": "http://shop.example.com"}}, "spec.upstream: plain http"},
		{"jsbundles", obj{"raw": "eA=="}, ""},
	} {
		out := v.Handle(t.Context(), request(t, c.resource, obj{"metadata": obj{"name": "shop"}, "spec": c.spec}, nil))
		if text := strings.Join(out.Warnings, "; "); !out.Allowed || !strings.Contains(text, c.want) || c.want == "" && text != "" {
			t.Errorf("%s %v: %v %q, want %q", c.resource, c.spec, out.Allowed, text, c.want)
		}
	}
	o := &v1alpha1.ReverseProxy{ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 1}, Status: v1alpha1.Status{State: v1alpha1.StateAvailable},
		Spec: v1alpha1.ReverseProxySpec{Upstream: v1alpha1.Endpoint{URL: ptr.To("https://shop.example.com"), InsecureSkipVerify: true}}}
	c, now := newClient(t, o), time.Now()
	r := controller.NewProbes(c, func() client.Object { return &v1alpha1.ReverseProxy{} }, func(context.Context, *v1alpha1.Endpoint) error { return nil },
		func() time.Time { now = now.Add(time.Minute); return now })
	read := func() (*metav1.Condition, string) {
		t.Helper()
		reconciled(t, r, "shop")
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionVerified), o.ResourceVersion
	}
	is, version := read()
	if is == nil || is.Status != metav1.ConditionFalse || is.Reason != "InsecureSkipVerify" {
		t.Errorf("%+v", is)
	}
	if _, still := read(); still != version {
		t.Error("what has not changed is written")
	}
	o.Spec.Upstream.InsecureSkipVerify = false
	o.Generation = 2
	if err := c.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if is, _ := read(); is != nil {
		t.Errorf("once it is verified: %+v", is)
	}
}
