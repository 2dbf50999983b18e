package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/gateway"
	kapisgateway "kapis.dev/ks-apiserver/pkg/kapis/gateway"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
	"kapis.dev/ks-apiserver/pkg/stream"
)

const (
	gateways = "/kapis/gateway.kubesphere.io/v1alpha1/namespaces/a/gateways"
	router   = "/kapis/resources.kubesphere.io/v1alpha2/namespaces/a/router"
	scopes   = "/kapis/gateway.kubesphere.io/v1alpha2/namespaces/a/availableingressclassscopes"
	live     = "/apis/gateway.kubesphere.io/v1alpha1/namespaces/a/gateways"
)

// everything is a cluster that serves what gateways consist of.
var everything = storetest.Kinds{
	{Version: "v1"}: append(storetest.Namespaced("services Service", "pods Pod"),
		storetest.Cluster("nodes Node", "namespaces Namespace")...),
	{Group: "apps", Version: "v1"}:                        storetest.Namespaced("deployments Deployment"),
	{Group: "gateway.kubesphere.io", Version: "v1alpha1"}: storetest.Namespaced("gateways Gateway"),
	{Group: "gateway.kubesphere.io", Version: "v1alpha2"}: storetest.Cluster("ingressclassscopes IngressClassScope"),
}

// object returns an object as JSON, with labels a=b,c=d and the rest of its fields.
func object(namespace, name, labels, rest string) string {
	of := map[string]string{}
	for _, l := range strings.Split(labels, ",") {
		if key, value, ok := strings.Cut(l, "="); ok {
			of[key] = value
		}
	}
	text, _ := json.Marshal(of)
	return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":"u-%s-%s","resourceVersion":"5","labels":%s},%s}`,
		namespace, name, namespace, name, text, rest)
}

const legacyLabels = "app=kubesphere,component=ks-router,tier=backend,project=a"

var node = object("", "master-1", "node-role.kubernetes.io/master=",
	`"status":{"addresses":[{"type":"Hostname","address":"m"},{"type":"InternalIP","address":"192.0.2.7"}]}`)

// world is the routes before a cache and a kube-apiserver that has the Gateway of project a, or none.
type world struct {
	t         *testing.T
	container *restful.Container
	gateway   map[string]any
	asked     []string
	refuse    string // a verb and a resource that the caller may not
}

func newWorld(t *testing.T, by gateway.Backend, objects map[string][]string) *world {
	w := &world{t: t}
	s := kapistest.NewStoreOf(t, everything, objects)
	may := authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
		if r.Verb+" "+r.Resource == w.refuse || r.Verb+" "+r.Resource+"/"+r.Subresource == w.refuse {
			return authz.Decision{}, nil
		}
		return authz.Allow("", ""), nil
	})
	h := &kapisgateway.V1alpha1{Caches: s, Resources: resource.New(s, resource.Options{}), AsCaller: caller.Client{May: may, Kube: w}, Backend: by,
		Streams: stream.New(stream.Options{})}
	older := new(restful.WebService).Path("/kapis/resources.kubesphere.io/v1alpha2").Produces(restful.MIME_JSON)
	h.MountRouter(older)
	w.container = kapistest.Container(h.WebService(), older, (&kapisgateway.V1alpha2{Caches: s}).WebService())
	return w
}

// RoundTrip answers as kube-apiserver.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	w.asked = append(w.asked, strings.TrimSuffix(r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery, "?"))
	if request.UserFrom(r.Context()).GetName() != "ann" {
		w.t.Errorf("%s as %v", r.URL, request.UserFrom(r.Context()))
	}
	body, _ := io.ReadAll(r.Body)
	switch {
	case strings.HasSuffix(r.URL.Path, "/log"):
		_, _ = rec.WriteString("one\ntwo\n")
	case r.Method == http.MethodPost && w.gateway == nil, r.Method == http.MethodPut && w.gateway != nil:
		if err := json.Unmarshal(body, &w.gateway); err != nil {
			w.t.Error(err)
		}
		w.gateway["metadata"].(map[string]any)["resourceVersion"] = "6"
		_ = json.NewEncoder(rec).Encode(w.gateway)
	case r.Method == http.MethodGet && w.gateway != nil:
		_ = json.NewEncoder(rec).Encode(w.gateway)
	case r.Method == http.MethodDelete && w.gateway != nil:
		w.gateway = nil
		_, _ = rec.WriteString(`{"kind":"Status","status":"Success"}`)
	default:
		rec.WriteHeader(http.StatusNotFound)
		_, _ = rec.WriteString(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"none"}`)
	}
	return rec.Result(), nil
}

// ask sends a request of ann's, and returns the answer, which has to have the code and the text.
func (w *world) ask(code int, method, path, body, want string) string {
	w.t.Helper()
	r, rec := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(body)), httptest.NewRecorder()
	r.Header.Set("Content-Type", "application/json")
	info, err := request.Parse(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.container.ServeHTTP(rec, r.WithContext(request.WithUser(request.WithInfo(r.Context(), info), &user.DefaultInfo{Name: "ann"})))
	if rec.Code != code || !strings.Contains(rec.Body.String(), want) {
		w.t.Errorf("%s %s %s: %d %s, want %d %s", method, path, body, rec.Code, rec.Body, code, want)
	}
	return rec.Body.String()
}

func templates(t *testing.T) gateway.Backend {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{name: nginx-ingress-controller, image: x}]}}}",
		"service.yaml":    "apiVersion: v1\nkind: Service\nspec: {ports: [{name: http, port: 80}]}",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	by, err := gateway.NewBackend("", folder)
	if err != nil {
		t.Fatal(err)
	}
	return by
}

func TestWithoutABackendGatewaysAreReadAndNotMade(t *testing.T) { // O22
	w := newWorld(t, gateway.Backend{}, nil)
	w.ask(http.StatusOK, "GET", gateways, "", "[]")
	w.ask(http.StatusNotFound, "GET", router, "", "NotFound")
	for _, path := range []string{gateways, router} {
		w.ask(http.StatusNotImplemented, "POST", path, "{}", "set gateway.className")
	}
	w.ask(http.StatusOK, "GET", "/kapis/gateway.kubesphere.io/v1alpha1/gateways", "", `"totalItems":0`)
	if len(w.asked) > 0 {
		t.Errorf("kube-apiserver was asked %q", w.asked)
	}
}

func TestAGatewayIsOneObjectInThreeViews(t *testing.T) { // O22
	w := newWorld(t, templates(t), map[string][]string{"/api/v1/nodes": {node}})
	// Older clients write it, and it is the same object.
	made := w.ask(http.StatusOK, "POST", router, `{"type":"loadBALANCER","annotations":{"servicemesh.kubesphere.io/enabled":"false"}}`, `"kind":"Service"`)
	if !strings.Contains(made, `"type":"LoadBalancer"`) || !strings.Contains(made, `"name":"kubesphere-router-a","namespace":"a"`) {
		t.Errorf("the answer is %s", made)
	}
	if got, _ := json.Marshal(w.gateway["spec"]); !strings.Contains(string(got), `"type":"LoadBalancer"`) || w.gateway["kind"] != "Gateway" {
		t.Errorf("the object is %v", w.gateway)
	}
	w.ask(http.StatusOK, "PUT", gateways+"?dryRun=All", `{"spec":{"service":{"type":"NodePort"},"deployment":{"replicas":1}}}`, `"type":"NodePort"`)
	w.ask(http.StatusOK, "PUT", router, `{"type":"anything"}`, `"ip":"192.0.2.7"`)
	w.ask(http.StatusConflict, "PUT", gateways, `{"metadata":{"resourceVersion":"4"}}`, "modified")
	w.ask(http.StatusOK, "DELETE", gateways, "", `"success"`)
	w.ask(http.StatusNotFound, "DELETE", router, "", "none")
	w.ask(http.StatusNotFound, "PUT", router, "{}", "none")
	for _, want := range []string{"POST " + live, "PUT " + live + "/kubesphere-router-a?dryRun=All", "DELETE " + live + "/kubesphere-router-a"} {
		if !strings.Contains(strings.Join(w.asked, "\n")+"\n", want+"\n") {
			t.Errorf("kube-apiserver was asked %q, and not %s", w.asked, want)
		}
	}
}

func TestWhatIsWrongOfAGatewayIsSaid(t *testing.T) { // O22
	w := newWorld(t, templates(t), nil)
	for body, want := range map[string]string{
		"":                          "can't be read",
		"[]":                        "can't be read",
		`{"spek":{}}`:               "unknown field",
		`{"spec":{},"spec":{}}`:     "duplicate field",
		`{"kind":"Pod"}`:            "not a Gateway",
		`{"metadata":{"name":"b"}}`: "is not kubesphere-router-a",
		`{"metadata":{"namespace":"b","name":"kubesphere-router-a"}}`:      "the namespace",
		`{"spec":{"controller":{"config":{"Server-Snippet":"x"}}}}`:        "is code",
		`{"spec":{"controller":{"scope":{"namespace":"b"}}}}`:              "its own project",
		`{"spec":{"service":{"type":"ExternalName"}}}`:                     "NodePort or LoadBalancer",
		`{"spec":{"service":{"annotations":{"lb.example.com/size":"1"}}}}`: "not open",
		`{"spec":{"deployment":{"replicas":3}}}`:                           "not open",
	} {
		w.ask(http.StatusBadRequest, "POST", gateways, body, want)
	}
	w.ask(http.StatusBadRequest, "POST", router, `{"type":"NodePort","annotations":{"a":"b"}}`, "not open")
	w.ask(http.StatusBadRequest, "POST", gateways+"?dryrun=All", "{}", "dryRun")
	w.ask(http.StatusBadRequest, "POST", strings.Replace(gateways, "/a/", "/kubesphere-system/", 1), "{}", "no project")
	w.ask(http.StatusRequestEntityTooLarge, "POST", gateways, strings.Repeat(" ", 300<<10)+"{}", "bytes")
	if len(w.asked) > 0 {
		t.Errorf("kube-apiserver was asked %q", w.asked)
	}
	w.refuse = "create gateways"
	w.ask(http.StatusForbidden, "POST", gateways, "{}", "Forbidden")
	w.ask(http.StatusForbidden, "POST", router, "{}", "Forbidden")
}

// Older gateways are found by their labels, and none is made beside them.
func TestNoGatewayIsMadeBesideAnother(t *testing.T) { // O22
	legacy := object("kubesphere-controls-system", "kubesphere-router-a", legacyLabels,
		`"spec":{"type":"NodePort","ports":[{"name":"http","port":80,"nodePort":30080}]}`)
	forged := object("b", "kubesphere-router-a", legacyLabels, `"spec":{"type":"NodePort"}`)
	unlabelled := object("kubesphere-controls-system", "kubesphere-router-a", "project=a", `"spec":{"type":"NodePort"}`)
	managed := object("kubesphere-controls-system", "kubesphere-router-a", legacyLabels+",gateway.kapis.dev/managed=true", `"spec":{"type":"NodePort"}`)
	cluster := object("kubesphere-controls-system", "kubesphere-router-kubesphere-system", "",
		`"spec":{"controller":{"config":{"secret-key":"x"}},"service":{"type":"LoadBalancer"}},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}`)
	for name, c := range map[string]struct {
		objects map[string][]string
		code    int
		shown   string
	}{
		"OfKubeSphere3":            {map[string][]string{"/api/v1/services": {legacy}, "/api/v1/nodes": {node}}, http.StatusConflict, `"nodePort":30080`},
		"OfTheCluster":             {map[string][]string{"/apis/gateway.kubesphere.io/v1alpha1/gateways": {cluster}}, http.StatusConflict, `"ip":"192.0.2.1"`},
		"LabelsInAnotherProject":   {map[string][]string{"/api/v1/services": {forged}}, http.StatusOK, "[]"},
		"OneLabelAlone":            {map[string][]string{"/api/v1/services": {unlabelled}}, http.StatusOK, "[]"},
		"OneThatTheControllerMade": {map[string][]string{"/api/v1/services": {managed}}, http.StatusOK, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, templates(t), c.objects)
			if shown := w.ask(http.StatusOK, "GET", gateways, "", c.shown); strings.Contains(shown, "secret-key") {
				t.Errorf("a project sees %s", shown)
			}
			w.ask(c.code, "POST", gateways, "{}", "")
			if len(w.asked) > 0 && c.code != http.StatusOK {
				t.Errorf("kube-apiserver was asked %q", w.asked)
			}
		})
	}
	w := newWorld(t, templates(t), map[string][]string{"/api/v1/services": {legacy}, "/api/v1/nodes": {node}})
	w.ask(http.StatusOK, "GET", router, "", `"ip":"192.0.2.7"`)
	w.ask(http.StatusNotImplemented, "POST", gateways+"/kubesphere-router-a/upgrade", "", "can't be moved")
	w.ask(http.StatusNotFound, "POST", gateways+"/kubesphere-router-b/upgrade", "", "kubesphere-router-b")
}

func TestPodsAndLogsTakeTheirOwnRights(t *testing.T) { // O22
	own := "gateway.kapis.dev/managed=true,project=a"
	objects := map[string][]string{
		"/apis/gateway.kubesphere.io/v1alpha1/gateways": {object("a", "kubesphere-router-a", "", `"spec":{"service":{"type":"LoadBalancer"}}`)},
		"/api/v1/services": {object("a", "kubesphere-router-a", own,
			`"spec":{"type":"LoadBalancer","ports":[{"port":80}]},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.9"}]}}`)},
		"/api/v1/pods": {object("a", "p", own, `"spec":{}`), object("a", "db", "app=db", `"spec":{}`), object("b", "q", own, `"spec":{}`)},
	}
	w := newWorld(t, templates(t), objects)
	one := gateways + "/kubesphere-router-a"
	w.ask(http.StatusOK, "GET", gateways, "", `"ip":"192.0.2.9"`)
	w.ask(http.StatusOK, "GET", router, "", `"ip":"192.0.2.9"`)
	if got := w.ask(http.StatusOK, "GET", one+"/pods", "", `"totalItems":1`); !strings.Contains(got, `"name":"p"`) {
		t.Errorf("the pods are %s", got)
	}
	w.ask(http.StatusOK, "GET", one+"/pods?labelSelector=app%3Ddb", "", `"totalItems":0`)
	for selector, total := range map[string]int{"x|app=db": 0, "x|": 1, "|": 1, "project|x,app=db": 1, "project=a,app!=db|app in (db)|app": 1} {
		got := w.ask(http.StatusOK, "GET", one+"/pods?labelSelector="+url.QueryEscape(selector), "", fmt.Sprintf(`"totalItems":%d`, total))
		if strings.Contains(got, `"name":"db"`) {
			t.Errorf("with %s another pod of the project is shown: %s", selector, got)
		}
	}
	w.ask(http.StatusNotFound, "GET", gateways+"/kubesphere-router-b/pods", "", "NotFound")
	w.ask(http.StatusOK, "GET", one+"/pods/p/log?tailLines=2", "", "one\ntwo\n")
	if want := "GET /api/v1/namespaces/a/pods/p/log?limitBytes=4194304&tailLines=2"; len(w.asked) != 1 || w.asked[0] != want {
		t.Errorf("kube-apiserver was asked %q", w.asked)
	}
	for path, code := range map[string]int{
		"/pods/db/log": http.StatusNotFound, "/pods/q/log": http.StatusNotFound, "/pods/P/log": http.StatusBadRequest, "/logs": http.StatusNotFound,
		"/pods/p/log?follow=true": http.StatusBadRequest, "/pods/p/log?tailLines=-1": http.StatusBadRequest, "/pods/p/log?taillines=1": http.StatusBadRequest,
	} {
		w.ask(code, "GET", one+path, "", "")
	}
	w.refuse = "list pods"
	w.ask(http.StatusForbidden, "GET", one+"/pods", "", "Forbidden")
	w.refuse = "get pods/log"
	w.ask(http.StatusForbidden, "GET", one+"/pods/p/log", "", "Forbidden")
	if len(w.asked) != 1 {
		t.Errorf("kube-apiserver was asked %q", w.asked)
	}
}

func TestAProjectSeesTheIngressClassesThatItMayUse(t *testing.T) { // O22
	scope := func(name, spec string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"5","annotations":{"gateway.kubesphere.io/service-name":"b/%s"}},"spec":%s}`,
			name, name, name, spec)
	}
	w := newWorld(t, gateway.Backend{}, map[string][]string{
		"/api/v1/namespaces": {object("", "a", "team=x", `"spec":{}`)},
		"/api/v1/nodes":      {node},
		"/api/v1/services":   {object("b", "all", "", `"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30080}]}`)},
		"/apis/gateway.kubesphere.io/v1alpha2/ingressclassscopes": {
			scope("all", `{"ingressClass":{"name":"nginx","default":true}}`),
			scope("named", `{"scope":{"namespaces":["a"],"namespaceSelector":"team=y"}}`),
			scope("others", `{"scope":{"namespaces":["b"],"namespaceSelector":"team=x"}}`),
			scope("selected", `{"scope":{"namespaceSelector":"team=x"}}`),
			scope("selected-2", `{"scope":{"namespaceSelector":{"matchLabels":{"team":"x"}}}}`),
			scope("unselected", `{"scope":{"namespaceSelector":{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}}}`),
			scope("unreadable", `{"scope":{"namespaceSelector":"team in ("}}`),
			scope("broken", `{"scope":{"namespaces":3}}`),
		},
	})
	var got []struct {
		Metadata struct{ Name string }
		Status   struct {
			LoadBalancer struct{ Ingress []struct{ IP string } }
			Service      []struct{ NodePort int }
		}
	}
	if err := json.Unmarshal([]byte(w.ask(http.StatusOK, "GET", scopes, "", "")), &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range got {
		names = append(names, s.Metadata.Name)
	}
	if strings.Join(names, " ") != "all named selected selected-2" {
		t.Errorf("project a may use %q", names)
	}
	if s := got[0].Status; len(s.LoadBalancer.Ingress) != 1 || s.LoadBalancer.Ingress[0].IP != "192.0.2.7" || s.Service[0].NodePort != 30080 {
		t.Errorf("it is reached at %+v", s)
	}
	without := storetest.Kinds{{Version: "v1"}: append(storetest.Namespaced("services Service"), storetest.Cluster("nodes Node", "namespaces Namespace")...)}
	h := &kapisgateway.V1alpha2{Caches: kapistest.NewStoreOf(t, without, nil)}
	if rec := kapistest.Serve(t, kapistest.Container(h.WebService()), http.MethodGet, scopes); rec.Code != http.StatusOK || rec.Body.String() != "[]" {
		t.Errorf("without the definition: %d %s", rec.Code, rec.Body)
	}
}
