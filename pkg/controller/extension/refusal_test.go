package extension_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	controller "kapis.dev/ks-apiserver/pkg/controller/extension"
)

// X29: content that can't be is a 422, what another object has a 409 that no client takes for a lost race, and what the writer has no right to a 403.
func TestX29ARefusalHasTheCodeOfItsReason(t *testing.T) {
	service := &v1alpha1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "there"}}
	service.Spec.Group, service.Spec.Version = "shop.example.com", "v1"
	proxy := &v1alpha1.ReverseProxy{ObjectMeta: metav1.ObjectMeta{Name: "there"}}
	proxy.Spec.Matcher.Path = "/proxy/shop/*"
	bundle := &v1alpha1.JSBundle{ObjectMeta: metav1.ObjectMeta{Name: "there"}, Spec: v1alpha1.JSBundleSpec{Raw: []byte("x")}}
	v := &controller.Validator{Live: newClient(t, service, proxy, bundle),
		Taken: func(gv schema.GroupVersion) bool { return gv.Group == "iam.kubesphere.io" },
		May: func(context.Context, authenticationv1.UserInfo, authorizationv1.ResourceAttributes) (bool, error) {
			return false, nil
		}}
	at := obj{"url": "https://shop.example.com"}
	api := func(group string) obj { return obj{"group": group, "version": "v1", "url": "https://shop.example.com"} }
	for claim, c := range map[string]struct {
		resource string
		o        obj
		code     int32
		says     string
	}{
		"a group that another one has": {"apiservices", obj{"spec": api("shop.example.com")}, http.StatusConflict, "there has"},
		"a group of this server":       {"apiservices", obj{"spec": api("iam.kubesphere.io")}, http.StatusUnprocessableEntity, "served by this server"},
		"a group of Kubernetes":        {"apiservices", obj{"spec": api("apps")}, http.StatusUnprocessableEntity, "Kubernetes' own"},
		"a path that another one has": {"reverseproxies", obj{"spec": obj{"matcher": obj{"path": "/proxy/shop/*"}, "upstream": at}},
			http.StatusConflict, "there matches"},
		"a directive that does not parse": {"reverseproxies", obj{"spec": obj{"matcher": obj{"path": "/proxy/x/*"}, "upstream": at,
			"directives": obj{"pathRegexp": []string{"( x"}}}}, http.StatusUnprocessableEntity, "pathRegexp[0]"},
		"a link that another one has": {"jsbundles", obj{"spec": obj{"raw": "eA=="}, "status": obj{"link": "/dist/there/index.js"}},
			http.StatusConflict, "there has"},
		"a bundle of nothing": {"jsbundles", obj{"spec": obj{}}, http.StatusUnprocessableEntity, "neither raw nor rawFrom"},
		"a ConfigMap that the writer may not read": {"jsbundles", obj{"spec": obj{"rawFrom": obj{"configMapKeyRef": obj{"namespace": "a", "name": "b", "key": "c"}}},
			"status": obj{"link": "/dist/new/index.js"}}, http.StatusForbidden, "may not get"},
		"access tokens that the writer may not have": {"apiservices", obj{"spec": api("new.example.com"),
			"metadata": obj{"name": "new", "annotations": obj{v1alpha1.AnnotationForward: "true"}}}, http.StatusForbidden, "may not impersonate"},
		"an entry that runs a script": {"extensionentries", obj{"spec": obj{"entries": []obj{{"link": "javascript:x"}}}},
			http.StatusUnprocessableEntity, "neither a path"},
		"no object": {"apiservices", obj{"spec": "x"}, http.StatusUnprocessableEntity, "can't be read"},
	} {
		t.Run(claim, func(t *testing.T) {
			if c.o["metadata"] == nil {
				c.o["metadata"] = obj{"name": "new"}
			}
			out := v.Handle(t.Context(), request(t, c.resource, c.o, nil))
			if out.Allowed || out.Result.Code != c.code || !strings.Contains(out.Result.Message, c.says) || out.Result.Reason == metav1.StatusReasonConflict {
				t.Errorf("%v %+v, want %d %s", out.Allowed, out.Result, c.code, c.says)
			}
		})
	}
}
