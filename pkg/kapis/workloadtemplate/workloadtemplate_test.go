package workloadtemplate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/kapis/workloadtemplate"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
	"kapis.dev/ks-apiserver/pkg/stream"
)

const (
	root     = "/kapis/workloadtemplate.kubesphere.io/v1alpha1"
	ofA      = root + "/namespaces/a/workloadtemplates"
	kubeOfA  = "/api/v1/namespaces/a/secrets"
	label    = `"workloadtemplate.kubesphere.io":"true"`
	template = "workloadtemplate.kubesphere.io/workloadtemplate"
	group    = "kapis:platform:workloadtemplates"
)

// secret returns the JSON of a Secret. Its data is the canary of its name.
func secret(namespace, name, typ, labels string) string {
	return fmt.Sprintf(`{"kind":"Secret","apiVersion":"v1","metadata":{"namespace":%q,"name":%q,"uid":"u-%s","resourceVersion":"5","labels":{%s}},`+
		`"type":%q,"data":{"of":%q}}`, namespace, name, name, labels, typ, "canary-"+name)
}

// all are templates, and Secrets that only look like some.
func all() []string {
	return []string{
		secret("a", "web", template, label),
		secret("a", "db", template, label+`,"tier":"back"`),
		secret("a", "unlabelled", template, ""),
		secret("a", "labelled", "Opaque", label),
		secret("a", "says-false", template, `"workloadtemplate.kubesphere.io":"false"`),
		secret("a", "token", "kubernetes.io/service-account-token", label),
		secret("a", "prefix", template+"x", label),
		secret("b", "other", template, label),
		secret("b", "hidden", "Opaque", label),
	}
}

// kinds are Secrets and namespaces.
var kinds = storetest.Kinds{{Version: "v1"}: append(storetest.Namespaced("secrets Secret"), storetest.Cluster("namespaces Namespace")...)}

// world is the routes before a cache and a kube-apiserver.
type world struct {
	t         *testing.T
	resources *resource.Service
	container *restful.Container
	// decision is what the filters have decided on each request.
	decision authz.Decision
	// live are the Secrets that kube-apiserver has in namespace a; answer, if set, is its answer instead.
	live   map[string]string
	answer func(*http.Request) (int, string)
	asked  []string
	sent   []string // bodies
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, decision: authz.Allow("", "kapis:namespace:reader"), live: map[string]string{}}
	objects := map[string][]string{
		"/api/v1/secrets": all(),
		"/api/v1/namespaces": {
			`{"metadata":{"name":"a","labels":{"kubesphere.io/workspace":"w"}}}`, `{"metadata":{"name":"b","labels":{"kubesphere.io/workspace":"v"}}}`,
		},
	}
	for _, text := range all() {
		var s corev1.Secret
		_ = json.Unmarshal([]byte(strings.ReplaceAll(text, "canary-", "")), &s)
		objects["/api/v1/namespaces/"+s.Namespace+"/secrets"] = append(objects["/api/v1/namespaces/"+s.Namespace+"/secrets"], text)
		if s.Namespace == "a" {
			w.live[s.Name] = strings.Replace(text, "canary-"+s.Name, "bGl2ZQ==", 1)
		}
	}
	st := kapistest.NewStoreOf(t, kinds, objects)
	// The caller has no right at all to Secrets.
	may := authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) { return authz.Decision{}, nil })
	w.resources = resource.New(st, resource.Options{})
	h := &workloadtemplate.V1alpha1{Resources: w.resources, Streams: stream.New(stream.Options{}),
		AsCaller: caller.Client{May: may, Kube: w}}
	w.container = kapistest.Container(h.WebService())
	return w
}

// RoundTrip answers as kube-apiserver.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	rec, body := httptest.NewRecorder(), []byte(nil)
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	ctx := r.Context()
	if request.UserFrom(ctx).GetName() != "ann" || authz.DecisionFrom(ctx).Group != group {
		w.t.Errorf("%s %s as %s in %q", r.Method, r.URL, request.UserFrom(ctx).GetName(), authz.DecisionFrom(ctx).Group)
	}
	query, _ := url.QueryUnescape(r.URL.RawQuery)
	w.asked = append(w.asked, strings.TrimSuffix(r.Method+" "+r.URL.Path+"?"+query, "?"))
	w.sent = append(w.sent, string(body))
	if w.answer != nil {
		if code, text := w.answer(r); code != 0 {
			rec.WriteHeader(code)
			_, _ = rec.WriteString(text)
			return rec.Result(), nil
		}
	}
	switch r.Method {
	case http.MethodGet: // a list, of one name
		var found []string
		for name, text := range w.live {
			if strings.Contains(query, "metadata.name="+name+",type="+template) && strings.Contains(text, label) &&
				strings.Contains(text, `"type":"`+template+`"`) {
				found = append(found, text)
			}
		}
		_, _ = fmt.Fprintf(rec, `{"kind":"SecretList","items":[%s]}`, strings.Join(found, ","))
	case http.MethodDelete:
		_, _ = rec.WriteString(`{"kind":"Status","status":"Success"}`)
	default:
		_, _ = rec.Write(body)
	}
	return rec.Result(), nil
}

// ask sends a request of ann's, and returns the body of the answer, which has to have the code.
func (w *world) ask(code int, method, path, body string) string {
	w.t.Helper()
	r, rec := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(body)), httptest.NewRecorder()
	r.Header.Set("Content-Type", "application/json")
	info, err := request.Parse(r)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx := authz.WithDecision(request.WithUser(request.WithInfo(r.Context(), info), &user.DefaultInfo{Name: "ann"}), w.decision)
	w.container.ServeHTTP(rec, r.WithContext(ctx))
	if rec.Code != code {
		w.t.Errorf("%s %s %s: %d %s, want %d", method, path, body, rec.Code, rec.Body, code)
	}
	return rec.Body.String()
}

// names returns the names of a list's items, sorted.
func (w *world) names(body string) string {
	w.t.Helper()
	var list struct {
		Items []struct{ Metadata metav1.ObjectMeta }
		Total int `json:"totalItems"`
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		w.t.Fatal(err, body)
	}
	var out []string
	for _, o := range list.Items {
		out = append(out, o.Metadata.Name)
	}
	slices.Sort(out)
	if list.Total < len(out) {
		w.t.Errorf("%d are more than the total %d", len(out), list.Total)
	}
	return strings.Join(out, " ")
}

// onlyTemplates reports a canary of a Secret that is no template.
func (w *world) onlyTemplates(what, body string) {
	w.t.Helper()
	for _, name := range []string{"unlabelled", "labelled", "says-false", "token", "prefix", "hidden"} {
		if strings.Contains(body, "canary-"+name) || strings.Contains(body, `"name":"`+name+`"`) {
			w.t.Errorf("%s shows %s: %s", what, name, body)
		}
	}
}

func TestX38ListsHaveTemplatesAndNoOtherSecret(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ path, want string }{
		{ofA, "db web"},
		{root + "/workloadtemplates", "db other web"},
		{root + "/workspaces/w/workloadtemplates", "db web"},
		{root + "/workspaces/v/workloadtemplates", "other"},
		{root + "/workspaces/none/workloadtemplates", ""},
		{root + "/namespaces/none/workloadtemplates", ""},
		{ofA + "?labelSelector=tier%3Dback", "db"},
		{ofA + "?name=w", "web"},
		{ofA + "?q=back", "db"},
		// Nothing that a caller adds widens it.
		{ofA + "?labelSelector=workloadtemplate.kubesphere.io%7C!workloadtemplate.kubesphere.io", "db web"},
		{ofA + "?labelSelector=workloadtemplate.kubesphere.io%3Dfalse", ""},
		{ofA + "?labelSelector=!workloadtemplate.kubesphere.io", ""},
		{ofA + "?names=unlabelled,labelled,says-false,token,prefix,web", "web"},
		{ofA + "?fieldSelector=type%3DOpaque", ""},
		{ofA + "?type=Opaque", ""},
		{ofA + "?type=kubernetes.io/service-account-token", ""},
		{ofA + "?fieldSelector=metadata.name%3Dtoken", ""},
		{ofA + "?cel=true", "db web"},
		{ofA + "?cel=object.data.of.contains('canary-')", "db web"},
		{ofA + "?cel=object.data.of%3D%3D'canary-token'", ""},
		{ofA + "?fieldSelector=data.of%3Dcanary-labelled", ""},
		{ofA + "?q=token", ""},
		{ofA + "?uid=u-token", ""},
		{ofA + "?sortBy=.data.of&ascending=true", "db web"},
		{ofA + "?namespace=b", ""},
		{root + "/workloadtemplates?namespace=b", "other"},
	} {
		body := w.ask(http.StatusOK, http.MethodGet, c.path, "")
		if got := w.names(body); got != c.want {
			t.Errorf("%s has %q, want %q", c.path, got, c.want)
		}
		w.onlyTemplates(c.path, body)
	}
	if len(w.asked) > 0 {
		t.Errorf("reads asked kube-apiserver %q", w.asked)
	}
}

func TestX38NoTotalFacetOrErrorTellsOfAnotherSecret(t *testing.T) {
	w := newWorld(t)
	body := w.ask(http.StatusOK, http.MethodGet, ofA+"?limit=0&facets=.type,.metadata.name,.data.of", "")
	w.onlyTemplates("facets", body)
	for _, want := range []string{`"totalItems":2`, `".type":{"` + template + `":2}`, `"canary-web":1`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
	// The expression fails for Secrets of another form, which nobody is to know of.
	body = w.ask(http.StatusOK, http.MethodGet, ofA+"?cel="+url.QueryEscape(`object.type == "`+template+`" || object.data.none == "x"`), "")
	if got := w.names(body); got != "db web" {
		t.Errorf("%s", body)
	}
	body = w.ask(http.StatusOK, http.MethodGet, ofA+"?fields=.metadata.name,.data", "")
	w.onlyTemplates("a projection", body)
}

// What the same query finds of all Secrets is never the answer for templates, nor the reverse, whichever was asked first.
func TestX38AnswersOfSecretsAndOfTemplatesAreNotMixedUp(t *testing.T) {
	w := newWorld(t)
	kind, err := w.resources.Catalog().Resolve(t.Context(), corev1.SchemeGroupVersion.WithResource("secrets"))
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{"", "limit=10&page=1", "facets=.type", "sortBy=name", "cel=true"} {
		for range 2 {
			values, _ := url.ParseQuery(raw)
			q, err := query.Parse(values)
			if err != nil {
				t.Fatal(err)
			}
			p, err := w.resources.List(t.Context(), kind, plan.Scope{Namespace: "a", Data: true}, q)
			if err != nil || p.Total != 7 {
				t.Errorf("?%s finds %+v, %v, want all 7 Secrets", raw, p, err)
			}
			if got := w.names(w.ask(http.StatusOK, http.MethodGet, ofA+"?"+raw, "")); got != "db web" {
				t.Errorf("?%s finds the templates %s", raw, got)
			}
		}
	}
}

func TestX38DataIsInTheNamespaceOnly(t *testing.T) {
	w := newWorld(t)
	if body := w.ask(http.StatusOK, http.MethodGet, ofA, ""); !strings.Contains(body, "canary-web") || !strings.Contains(body, "canary-db") {
		t.Errorf("the namespace lacks data: %s", body)
	}
	if body := w.ask(http.StatusOK, http.MethodGet, ofA+"/web", ""); !strings.Contains(body, "canary-web") {
		t.Errorf("one template lacks its data: %s", body)
	}
	for _, path := range []string{root + "/workloadtemplates", root + "/workspaces/w/workloadtemplates"} {
		if body := w.ask(http.StatusOK, http.MethodGet, path, ""); strings.Contains(body, "canary") || strings.Contains(body, `"data"`) ||
			!strings.Contains(body, `"name":"web"`) {
			t.Errorf("%s: %s", path, body)
		}
	}
}

func TestX38ListsShowVisibleNamespaces(t *testing.T) {
	w := newWorld(t)
	w.decision = authz.AllowPartial(authz.NewPartialList([]string{"b"}, nil), "")
	for path, want := range map[string]string{
		root + "/workloadtemplates": "other", root + "/workspaces/v/workloadtemplates": "other", root + "/workspaces/w/workloadtemplates": "",
	} {
		body := w.ask(http.StatusOK, http.MethodGet, path, "")
		if got := w.names(body); got != want || strings.Contains(body, "canary") {
			t.Errorf("%s has %q, want %q: %s", path, got, want, body)
		}
	}
}

// managedFields are read from kube-apiserver, which takes the caller's own right to the Secret.
func TestX38ManagedFieldsTakeTheRightToTheSecret(t *testing.T) {
	w := newWorld(t)
	body := w.ask(http.StatusForbidden, http.MethodGet, ofA+"?managedFields=true&limit=10", "")
	if strings.Contains(body, "canary") || len(w.asked) > 0 {
		t.Errorf("%s after %q", body, w.asked)
	}
}

func TestX38NoOtherSecretIsOpenedByItsName(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"unlabelled", "labelled", "says-false", "token", "prefix", "none", "other", "WEB", "web."} {
		for method, body := range map[string]string{
			http.MethodGet: "", http.MethodDelete: "",
			http.MethodPut: `{"metadata":{"labels":{` + label + `}},"type":"` + template + `","stringData":{"x":"y"}}`,
		} {
			got := w.ask(http.StatusNotFound, method, ofA+"/"+name, body)
			if !strings.Contains(got, "workloadtemplates.workloadtemplate.kubesphere.io") || strings.Contains(got, "canary") ||
				strings.Contains(got, "bGl2ZQ") {
				t.Errorf("%s %s: %s", method, name, got)
			}
		}
	}
	for _, asked := range w.asked {
		if !strings.HasPrefix(asked, "GET ") || !strings.Contains(asked, ",type="+template) {
			t.Errorf("kube-apiserver was asked %s", asked)
		}
	}
}

// What kube-apiserver selects is checked again, so that nothing depends on how it reads a selector.
func TestX38WhatIsReadLiveIsCheckedAgain(t *testing.T) {
	w, noData := newWorld(t), strings.NewReplacer("canary-web", "", "canary-db", "")
	for _, wrong := range []string{
		secret("a", "web", "Opaque", label), secret("a", "web", template, ""), secret("b", "web", template, label), secret("a", "db", template, label),
	} {
		w.answer = func(r *http.Request) (int, string) {
			if r.Method == http.MethodGet {
				return http.StatusOK, `{"kind":"SecretList","items":[` + noData.Replace(wrong) + `]}`
			}
			t.Errorf("%s %s", r.Method, r.URL)
			return http.StatusInternalServerError, "{}"
		}
		w.ask(http.StatusNotFound, http.MethodPut, ofA+"/web", `{}`)
		w.ask(http.StatusNotFound, http.MethodDelete, ofA+"/web", "")
	}
}

func TestX38ATemplateIsCreatedAsTheCaller(t *testing.T) {
	w := newWorld(t)
	body := w.ask(http.StatusOK, http.MethodPost, ofA+"?dryRun=All", `{"metadata":{"name":"new","labels":{"x":"y"},"annotations":{"n":"1"},`+
		`"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}],"finalizers":["x/y"]},"stringData":{"k":"v"},"data":{"b":"Yg=="}}`)
	if want := []string{"POST " + kubeOfA + "?dryRun=All"}; !slices.Equal(w.asked, want) {
		t.Errorf("asked %q, want %q", w.asked, want)
	}
	const want = `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"new","namespace":"a","labels":{` + label + `,"x":"y"},"annotations":{"n":"1"}},` +
		`"data":{"b":"Yg=="},"stringData":{"k":"v"},"type":"` + template + `"}`
	if w.sent[0] != want || !strings.Contains(body, `"name":"new"`) {
		t.Errorf("sent %s, want %s; answered %s", w.sent[0], want, body)
	}
	w.answer = func(*http.Request) (int, string) {
		return http.StatusConflict, `{"kind":"Status","status":"Failure","reason":"AlreadyExists","code":409,"message":"secrets \"token\" already exists"}`
	}
	if body := w.ask(http.StatusConflict, http.MethodPost, ofA, `{"metadata":{"name":"token"}}`); !strings.Contains(body, "workloadtemplates") {
		t.Errorf("%s", body)
	}
}

// Pages name the cluster in a body.
func TestMembersThatNoSecretHasAreIgnored(t *testing.T) {
	w := newWorld(t)
	w.ask(http.StatusOK, http.MethodPost, ofA, `{"metadata":{"name":"new","cluster":"host"},"cluster":"host","Type":"Opaque","stringData":{"k":"v"}}`)
	const want = `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"new","namespace":"a","labels":{` + label + `}},` +
		`"stringData":{"k":"v"},"type":"` + template + `"}`
	if len(w.sent) != 1 || w.sent[0] != want {
		t.Errorf("sent %s, want %s", w.sent, want)
	}
}

func TestX38AWriteThatIsNoTemplatesIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		code         int
		method, path string
		body         string
	}{
		{http.StatusBadRequest, "POST", ofA, `{"metadata":{"name":"x"},"type":"Opaque"}`},
		{http.StatusBadRequest, "POST", ofA, `{"metadata":{"name":"x"},"type":"kubernetes.io/service-account-token"}`},
		{http.StatusBadRequest, "POST", ofA, `{"metadata":{"name":"x"},"kind":"ConfigMap"}`},
		{http.StatusBadRequest, "POST", ofA, `{"metadata":{"name":"x"},"apiVersion":"v2"}`},
		{http.StatusBadRequest, "POST", ofA, `{"metadata":{"name":"x","namespace":"b"}}`},
		{http.StatusBadRequest, "POST", ofA, `{"metadata":{"name":"../b/secrets/x"}}`},
		{http.StatusBadRequest, "POST", ofA, `{"metadata":{}}`},
		{http.StatusBadRequest, "POST", ofA, `{"metadata":{"name":"x"},"type":"` + template + `","type":"Opaque"}`},
		{http.StatusBadRequest, "POST", ofA, `{"metadata":{"name":"x"},"metadata":{"name":"y"}}`},
		{http.StatusBadRequest, "POST", ofA, `{"metadata":{"name":"x","labels":{"config.kubesphere.io/type":"oauthclient"}}}`},
		{http.StatusBadRequest, "POST", ofA, `{"metadata":{"name":"x","labels":{"kapis.dev/values":"shop"}}}`},
		{http.StatusBadRequest, "POST", ofA, `{"metadata":{"name":"x","labels":{"owner":"helm"}}}`},
		{http.StatusBadRequest, "POST", ofA, `[]`},
		{http.StatusBadRequest, "POST", ofA, `{"stringData":{"canary":1}}`},
		{http.StatusBadRequest, "PUT", ofA + "/web", `{"metadata":{"name":"db"}}`},
		{http.StatusBadRequest, "PUT", ofA + "/web", `{"type":"Opaque"}`},
		{http.StatusForbidden, "POST", root + "/namespaces/kubesphere-system/workloadtemplates", `{"metadata":{"name":"x"}}`},
		{http.StatusForbidden, "PUT", root + "/namespaces/kubesphere-system/workloadtemplates/x", `{}`},
		{http.StatusForbidden, "DELETE", root + "/namespaces/kubesphere-system/workloadtemplates/x", ""},
	} {
		if body := w.ask(c.code, c.method, c.path, c.body); strings.Contains(body, "canary") {
			t.Errorf("%s %s repeats the body: %s", c.method, c.path, body)
		}
	}
	if len(w.asked) > 0 {
		t.Errorf("kube-apiserver was asked %q", w.asked)
	}
}

func TestX38AnUpdateReplacesWhatATemplateSays(t *testing.T) {
	w := newWorld(t)
	w.ask(http.StatusOK, http.MethodPut, ofA+"/web", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"web","resourceVersion":"5",`+
		`"labels":{"workloadtemplate.kubesphere.io":"false","x":"y"}},"stringData":{"k":"v"}}`)
	const want = `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"web","namespace":"a","uid":"u-web","resourceVersion":"5",` +
		`"labels":{` + label + `,"x":"y"}},"stringData":{"k":"v"},"type":"` + template + `"}`
	if len(w.sent) != 2 || w.sent[1] != want || w.asked[1] != "PUT "+kubeOfA+"/web" {
		t.Errorf("%q sent %q, want %s", w.asked, w.sent, want)
	}
	for _, meta := range []string{`"resourceVersion":"4"`, `"uid":"another"`} {
		w.ask(http.StatusConflict, http.MethodPut, ofA+"/web", `{"metadata":{`+meta+`}}`)
	}
	if len(w.sent) != 4 {
		t.Errorf("a template that is not the one that was read was written: %q", w.asked)
	}
}

// Items of lists across namespaces have no data.
func TestAnItemWithoutDataIsSentBackWithoutLoss(t *testing.T) {
	for body, data := range map[string]string{
		`"metadata":{"name":"web"}`: `"data":{"of":"bGl2ZQ=="}`, `"metadata":{"name":"web"},"data":{"b":"Yg=="}`: `"data":{"b":"Yg=="}`,
		`"metadata":{"name":"web"},"data":{}`: "",
	} {
		w := newWorld(t)
		w.ask(http.StatusOK, http.MethodPut, ofA+"/web", `{`+body+`}`)
		if len(w.sent) != 2 || !strings.Contains(w.sent[1], data) || strings.Contains(w.sent[1], `"data"`) != (data != "") {
			t.Errorf("%s sends %q, want %s", body, w.sent, data)
		}
	}
}

// A Secret that stops being the template that was checked is not deleted: the deletion is bound to its UID and version.
func TestX38ADeletionIsOfTheTemplateThatWasChecked(t *testing.T) {
	w := newWorld(t)
	if body := w.ask(http.StatusOK, http.MethodDelete, ofA+"/web", ""); body != `{"message":"success"}` {
		t.Errorf("%s", body)
	}
	if want := `"preconditions":{"uid":"u-web","resourceVersion":"5"}`; len(w.sent) != 2 || !strings.Contains(w.sent[1], want) {
		t.Errorf("%q sent %q, want %s", w.asked, w.sent, want)
	}
	w.ask(http.StatusConflict, http.MethodDelete, ofA+"/web", `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"another"}}`)
	if len(w.sent) != 3 {
		t.Errorf("%q", w.asked)
	}
	// Between the check and the deletion it becomes something else: the check finds no template any more.
	w.answer = func(r *http.Request) (int, string) {
		if r.Method == http.MethodDelete {
			delete(w.live, "web")
			return http.StatusConflict, `{"kind":"Status","status":"Failure","reason":"Conflict","code":409,"message":"changed"}`
		}
		return 0, ""
	}
	w.ask(http.StatusNotFound, http.MethodDelete, ofA+"/web", "")
}
