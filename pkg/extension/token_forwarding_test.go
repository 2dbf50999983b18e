package extension_test

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/store"
)

// forwarding is an APIService that gets its callers' access tokens, as the webhook leaves it.
func forwarding() *v1alpha1.APIService {
	o := &v1alpha1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{v1alpha1.AnnotationForward: "true"}},
		Spec:   v1alpha1.APIServiceSpec{Group: "shop.example.com", Version: "v1", Endpoint: v1alpha1.Endpoint{URL: ptr.To("https://shop.example.com")}},
		Status: v1alpha1.Status{State: v1alpha1.StateAvailable}}
	o.Annotations[v1alpha1.AnnotationApprovedForward] = extension.ForwardDigest(o)
	return o
}

// X5: access tokens go to a backend of which exactly that was approved, and which is verified; to every other one they do not.
func TestX5OnlyWhatWasApprovedGetsAccessTokens(t *testing.T) {
	again := func(o *v1alpha1.APIService) {
		o.Annotations[v1alpha1.AnnotationApprovedForward] = extension.ForwardDigest(o)
	}
	for name, c := range map[string]struct {
		change func(o *v1alpha1.APIService)
		want   bool
	}{
		"AsItWasApproved":  {func(*v1alpha1.APIService) {}, true},
		"ApprovedOnceMore": {func(o *v1alpha1.APIService) { o.Spec.Version = "v2"; again(o) }, true},
		"AService": {func(o *v1alpha1.APIService) {
			o.Spec.URL, o.Spec.Service = nil, &v1alpha1.ServiceReference{Namespace: "a", Name: "b"}
			again(o)
		}, true},
		"ALabel":             {func(o *v1alpha1.APIService) { o.Labels = map[string]string{"a": "b"} }, true},
		"NotAsked":           {func(o *v1alpha1.APIService) { delete(o.Annotations, v1alpha1.AnnotationForward) }, false},
		"AskedOtherwise":     {func(o *v1alpha1.APIService) { o.Annotations[v1alpha1.AnnotationForward] = "True"; again(o) }, false},
		"NotApproved":        {func(o *v1alpha1.APIService) { delete(o.Annotations, v1alpha1.AnnotationApprovedForward) }, false},
		"ApprovedByAnything": {func(o *v1alpha1.APIService) { o.Annotations[v1alpha1.AnnotationApprovedForward] = "true" }, false},
		"AnotherHost":        {func(o *v1alpha1.APIService) { o.Spec.URL = ptr.To("https://evil.example.com") }, false},
		"AnotherPort":        {func(o *v1alpha1.APIService) { o.Spec.URL = ptr.To("https://shop.example.com:8443") }, false},
		"AnotherGroup":       {func(o *v1alpha1.APIService) { o.Spec.Group = "iam.example.com" }, false},
		"AnotherObject":      {func(o *v1alpha1.APIService) { o.Name = "copy" }, false},
		"NotVerifiedNow":     {func(o *v1alpha1.APIService) { o.Spec.InsecureSkipVerify = true }, false},
		"NeverVerified":      {func(o *v1alpha1.APIService) { o.Spec.InsecureSkipVerify = true; again(o) }, false},
		"PlainHTTP":          {func(o *v1alpha1.APIService) { o.Spec.URL = ptr.To("http://shop.example.com"); again(o) }, false},
		"AServiceByHTTP": {func(o *v1alpha1.APIService) {
			o.Spec.URL, o.Spec.Service = nil, &v1alpha1.ServiceReference{Namespace: "a", Name: "b", Port: ptr.To(int32(80))}
			again(o)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := forwarding()
			c.change(o)
			f := newFed(t)
			f.write(t, "apiservices", o)
			b := f.Service(schema.GroupVersion{Group: o.Spec.Group, Version: o.Spec.Version})
			if b == nil || b.Forwards != c.want {
				t.Errorf("%+v", b)
			}
		})
	}
}

// X5: an approval of one object is none of another kind, and a ReverseProxy is approved with its directives.
func TestX5AnApprovalIsOfOneObject(t *testing.T) {
	o := &v1alpha1.ReverseProxy{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{v1alpha1.AnnotationForward: "true"}},
		Spec:   v1alpha1.ReverseProxySpec{Matcher: v1alpha1.Matcher{Path: "/proxy/shop/*"}, Upstream: v1alpha1.Endpoint{URL: ptr.To("https://shop.example.com")}},
		Status: v1alpha1.Status{State: v1alpha1.StateAvailable}}
	forwards := func() bool {
		f := newFed(t)
		f.write(t, "reverseproxies", o)
		b := f.Proxy("GET", "/proxy/shop/x")
		return b != nil && b.Forwards
	}
	o.Annotations[v1alpha1.AnnotationApprovedForward] = extension.ForwardDigest(forwarding())
	if forwards() {
		t.Error("by the approval of an APIService of the same name")
	}
	o.Annotations[v1alpha1.AnnotationApprovedForward] = extension.ForwardDigest(o)
	if !forwards() {
		t.Error("its own approval does not count")
	}
	o.Spec.Directives.Rewrite = []string{"* /other{path}"}
	if forwards() {
		t.Error("it goes elsewhere than what was approved")
	}
}

func (f *fed) write(t *testing.T, resource string, o metav1.Object) {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	for gvr, sink := range f.Sinks() {
		if gvr.Resource == resource {
			sink.Set(&store.Object{Name: o.GetName(), Raw: redaction.Bytes(raw)})
		}
	}
}
