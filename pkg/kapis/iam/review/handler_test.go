package review

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

const reviewRoot = "/kapis/iam.kubesphere.io/v1beta1"

// town is the routes of reviews, with the default roles on the platform and some users.
type town struct {
	t     testing.TB
	sinks map[schema.GroupVersionResource]store.Sink
	v     *Handler
}

func newTown(t testing.TB) *town {
	t.Helper()
	x, err := rbac.NewIndex()
	if err != nil {
		t.Fatal(err)
	}
	users := iam.NewUserIndex()
	users.Set(&store.Object{Name: "ann", Raw: []byte(`{"metadata":{"name":"ann","uid":"uid-ann"},"spec":{"groups":["dev"]},"status":{"state":"Active"}}`)})
	aliases := authz.Aliases{GroupOf: func(resource string) (schema.GroupResource, bool) {
		gr, ok := map[string]schema.GroupResource{"pods": {Resource: "pods"}, "deployments": {Group: "apps", Resource: "deployments"}}[resource]
		return gr, ok
	}}
	w := &town{t: t, sinks: x.Sinks(), v: &Handler{
		May:    &authz.Order{Authorizers: authz.Union{authz.Paths(authz.DefaultPaths()), x}, Aliases: aliases},
		Grants: x, Alias: aliases.Of, Users: users,
	}}
	w.defaults("../../../../config/roles/globalroles.yaml")
	w.defaults("../../../../config/roles/globalrolebindings.yaml")
	w.set(map[string]any{"kind": "Namespace", "metadata": map[string]any{"name": "shop", "labels": map[string]any{"kubesphere.io/workspace": "a"}}})
	w.role("WorkspaceRole", "", "a-viewer", rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{"", "apps"}, Resources: []string{"pods",
		"deployments", "namespaces"}})
	w.bind("WorkspaceRole", "", "ann-views", "a", "a-viewer", "Group", "dev")
	w.role("WorkspaceRole", "", "a-admin", rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}})
	w.bind("WorkspaceRole", "", "wim", "a", "a-admin", "User", "wim")
	w.role("Role", "shop", "operator", rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"apps"}, Resources: []string{"deployments"}})
	w.bind("Role", "shop", "ed", "", "operator", "User", "ed")
	w.role("ClusterRole", "", "cluster-admin", rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}})
	w.bind("ClusterRole", "", "cleo", "", "cluster-admin", "User", "cleo")
	return w
}

func (w *town) set(o map[string]any) {
	w.t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		w.t.Fatal(err)
	}
	u := unstructured.Unstructured{Object: o}
	for gvr, sink := range w.sinks {
		if gvr.Resource == strings.ToLower(u.GetKind())+"s" {
			sink.Set(&store.Object{Namespace: u.GetNamespace(), Name: u.GetName(), Raw: raw})
			return
		}
	}
	w.t.Fatalf("nothing follows %q", u.GetKind())
}

func (w *town) defaults(file string) {
	w.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		o := map[string]any{}
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			w.t.Fatal(err)
		}
		if len(o) > 0 {
			w.set(o)
		}
	}
}

func (w *town) role(kind, namespace, name string, rules ...rbacv1.PolicyRule) {
	w.set(map[string]any{"kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name}, "rules": rules})
}

func (w *town) bind(kind, namespace, name, workspace, role, subjectKind, subject string) {
	w.set(map[string]any{
		"kind": kind + "Binding", "metadata": map[string]any{"namespace": namespace, "name": name, "labels": map[string]any{"kubesphere.io/workspace": workspace}},
		"roleRef":  rbacv1.RoleRef{APIGroup: "iam.kubesphere.io", Kind: kind, Name: role},
		"subjects": []rbacv1.Subject{{Kind: subjectKind, APIGroup: rbacv1.GroupName, Name: subject}},
	})
}

func somebody(name string, groups ...string) user.Info {
	return &user.DefaultInfo{Name: name, UID: "uid-" + name, Groups: append(groups, user.AllAuthenticated)}
}

// do sends a request as the server would: it is parsed and authorized first.
func (w *town) do(u user.Info, method, path, body string) (int, string) {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, reviewRoot+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	info, err := request.Parse(r)
	if err != nil {
		w.t.Fatal(err)
	}
	d, err := w.v.May.Authorize(r.Context(), u, info)
	if err != nil {
		w.t.Fatal(err)
	}
	if !d.Allowed() {
		return http.StatusForbidden, d.Reason
	}
	ctx := request.WithUser(request.WithInfo(r.Context(), info), u)
	ws := new(restful.WebService).Path(reviewRoot).Produces(restful.MIME_JSON)
	w.v.Mount(ws)
	rec := httptest.NewRecorder()
	kapistest.Container(ws).ServeHTTP(rec, r.WithContext(authz.WithDecision(ctx, d)))
	return rec.Code, strings.TrimSpace(rec.Body.String())
}

func (w *town) want(code int, u user.Info, method, path, body string, into any) string {
	w.t.Helper()
	got, answer := w.do(u, method, path, body)
	if got != code {
		w.t.Fatalf("%s: %s %s %s: %d %s, want %d", u.GetName(), method, path, body, got, answer, code)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(answer), into); err != nil {
			w.t.Fatalf("%v: %s", err, answer)
		}
	}
	return answer
}

func TestAReviewIsDecidedAsARequest(t *testing.T) {
	w := newTown(t)
	ann, admin := somebody("ann", "dev"), somebody("admin")
	for _, c := range []struct {
		claim   string
		who     user.Info
		spec    string
		allowed bool
		say     string
	}{
		{"AboutOneself", ann, `{"resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}`, true, `WorkspaceRoleBinding \"ann-views\"`},
		{"ByOnesOwnName", ann, `{"user":"ann","resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}`, true, "ann-views"},
		{"GroupsAreOnesOwn", somebody("ann"), `{"user":"ann","groups":["dev"],"resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}`,
			false, "no role"},
		{"OtherVerb", ann, `{"resourceAttributes":{"namespace":"shop","verb":"delete","resource":"pods"}}`, false, "no role"},
		{"OtherGroup_S4", ann, `{"resourceAttributes":{"namespace":"shop","verb":"list","resource":"deployments"}}`, true, ""},
		{"GroupOfTheAPIIsPartOfIt_S4", ann, `{"resourceAttributes":{"namespace":"shop","verb":"list","group":"x.example.com","resource":"deployments"}}`, false, ""},
		{"NamespacesOfAnotherGroup_S5", ann, `{"resourceAttributes":{"name":"shop","verb":"get","group":"foo.io","resource":"namespaces"}}`, false, ""},
		{"TheNamespaceItself", ann, `{"resourceAttributes":{"name":"shop","verb":"get","resource":"namespaces"}}`, true, ""},
		{"TheNamespaceItselfTwice", ann, `{"resourceAttributes":{"namespace":"shop","name":"shop","verb":"get","resource":"namespaces"}}`, true, ""},
		{"InAWorkspace", ann, `{"resourceAttributes":{"workspace":"a","verb":"list","group":"apps","resource":"deployments","resourceScope":"Workspace"}}`, true, ""},
		{"InAnotherWorkspace", ann, `{"resourceAttributes":{"workspace":"b","verb":"list","group":"apps","resource":"deployments"}}`, false, ""},
		{"TheWorkspaceItself", somebody("wim"), `{"resourceAttributes":{"name":"a","verb":"get","group":"tenant.kubesphere.io","version":"v1beta1","resource":"workspaces"}}`, true, "wim"},
		{"TheWorkspaceItselfByItsPlace", somebody("wim"),
			`{"resourceAttributes":{"workspace":"a","verb":"get","group":"tenant.kubesphere.io","resource":"workspaces"}}`, true, "wim"},
		{"AnotherWorkspaceItself", somebody("wim"), `{"resourceAttributes":{"name":"b","verb":"get","group":"tenant.kubesphere.io","resource":"workspaces"}}`,
			false, ""},
		{"AnotherWorkspaceByOnesOwn", somebody("wim"),
			`{"resourceAttributes":{"workspace":"a","name":"b","verb":"get","group":"tenant.kubesphere.io","resource":"workspaces"}}`, false, "no request asks"},
		{"APartOfAList", ann, `{"resourceAttributes":{"verb":"list","resource":"pods"}}`, false, "no role"},
		{"ByTheRoutesOfEveryKind", ann, `{"resourceAttributes":{"namespace":"shop","verb":"list","group":"resources.kubesphere.io","resource":"pods"}}`, true, ""},
		{"ByAnotherVersionOfThem", ann, `{"resourceAttributes":{"namespace":"shop","verb":"list","group":"resources.kubesphere.io","version":"v9","resource":"pods"}}`, false, ""},
		{"OnesOwnUserByACondition", ann, `{"resourceAttributes":{"verb":"get","group":"iam.kubesphere.io","resource":"users","name":"ann"}}`, true,
			"authenticated-self"},
		{"AnothersUserByACondition", ann, `{"resourceAttributes":{"verb":"get","group":"iam.kubesphere.io","resource":"users","name":"bob"}}`, false, ""},
		{"OnesOwnPassword", ann, `{"resourceAttributes":{"verb":"update","group":"iam.kubesphere.io","resource":"users","subresource":"password","name":"ann"}}`,
			true, ""},
		{"EverythingOfWhoMay", admin, `{"resourceAttributes":{"verb":"*","group":"*","version":"*","resource":"*"}}`, true, "platform-admin"},
		{"EverythingOfWhoMayNot", somebody("cleo"), `{"resourceAttributes":{"verb":"*","group":"iam.kubesphere.io","resource":"users"}}`, false, ""},
		{"AVerbThatNoRequestHas", admin, `{"resourceAttributes":{"verb":"escalate","group":"iam.kubesphere.io","resource":"globalroles","name":"x"}}`, true, ""},
		{"ASubresourceOfAny", admin, `{"resourceAttributes":{"verb":"get","namespace":"shop","resource":"pods","subresource":"log"}}`, true, ""},
		{"ASubresourceOfAnyNamespace", somebody("cleo"), `{"resourceAttributes":{"verb":"update","resource":"namespaces","subresource":"status"}}`, true, "cleo"},
		{"APath", ann, `{"nonResourceAttributes":{"path":"/version","verb":"get"}}`, true, "open"},
		{"APathOfARole", ann, `{"nonResourceAttributes":{"path":"/static/images/x.png","verb":"HEAD"}}`, true, "authenticated"},
		{"AnotherPath", ann, `{"nonResourceAttributes":{"path":"/metrics","verb":"get"}}`, false, ""},
		{"APathThatIsAResource", ann, `{"nonResourceAttributes":{"path":"/api/v1/namespaces/shop/pods","verb":"get"}}`, true, "ann-views"},
		{"APathThatIsNone", ann, `{"nonResourceAttributes":{"path":"x","verb":"get"}}`, false, "not the path of a request"},
		{"APathOfAnotherCluster", ann, `{"nonResourceAttributes":{"path":"/clusters/m/api/v1/pods","verb":"get"}}`, false, "each cluster decides by itself"},
		{"AConfusingPath_S23", ann, `{"nonResourceAttributes":{"path":"/api/v1/namespaces/shop/../b/pods","verb":"get"}}`, false, "path"},
		{"AVerbThatIsNoMethod", ann, `{"nonResourceAttributes":{"path":"/version","verb":"*"}}`, false, "method"},
		{"ANameWithASlash_S23", admin, `{"resourceAttributes":{"verb":"get","resource":"pods","namespace":"shop","name":"../b"}}`, false, "name"},
		{"ANameThatIsADot_S23", admin, `{"resourceAttributes":{"verb":"get","resource":"pods","namespace":"..","name":"b"}}`, false, "path"},
		{"AResourceThatIsAPlace_S23", admin, `{"resourceAttributes":{"verb":"get","resource":"workspaces","name":"b","subresource":"pods"}}`, false,
			"no request asks"},
		{"NoVerb_S10", admin, `{"resourceAttributes":{"resource":"pods"}}`, false, "verb and resource"},
		{"NoResource_S10", admin, `{"resourceAttributes":{"verb":"get"}}`, false, "verb and resource"},
		{"Nothing_S10", admin, `{}`, false, "say what it is about"},
		{"BothAtOnce", admin, `{"resourceAttributes":{"verb":"get","resource":"pods"},"nonResourceAttributes":{"path":"/version","verb":"get"}}`, false,
			"say what it is about"},
		{"NoSpec", admin, `7`, false, "spec"},
		{"GroupsWithoutAUser_S10", admin, `{"groups":["system:masters"],"resourceAttributes":{"verb":"get","resource":"pods"}}`, false, "spec.user is missing"},
		{"AboutAnotherByAnAdmin", admin, `{"user":"ed","resourceAttributes":{"namespace":"shop","verb":"create","group":"apps","resource":"deployments"}}`,
			true, `\"shop/ed\"`},
		{"GroupsOfAKnownUser", admin, `{"user":"ann","resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}`, true, "ann-views"},
		{"GroupsThatAreGiven", admin, `{"user":"ann","groups":[],"resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}`, false, "no role"},
		{"GroupsOfAnUnknownUser", admin, `{"user":"zoe","groups":["dev"],"resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}`, true,
			"ann-views"},
		{"WhoIsNotLoggedIn", admin, `{"user":"system:anonymous","resourceAttributes":{"verb":"get","group":"config.kubesphere.io","resource":"configs","name":"x"}}`,
			true, "anonymous"},
		{"AboutAnotherByAnybody", ann, `{"user":"admin","resourceAttributes":{"verb":"get","resource":"pods"}}`, false, "right to create subjectaccessreviews"},
		{"AboutAnotherByTheAdminOfAWorkspace", somebody("wim"), `{"user":"ann","resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}`,
			false, "on the platform"},
		{"AboutAnotherByTheAdminOfTheCluster", somebody("cleo"), `{"user":"ann","resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}`,
			false, "on the platform"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			w.t = t
			var got review
			answer := w.want(200, c.who, http.MethodPost, "/subjectaccessreviews", `{"spec":`+c.spec+`}`, &got)
			if got.Status.Allowed != c.allowed || !strings.Contains(answer, c.say) || got.Kind != "SubjectAccessReview" ||
				got.APIVersion != "iam.kubesphere.io/v1beta1" {
				t.Errorf("%s", answer)
			}
			if !c.allowed && got.Status.Reason == "" && got.Status.EvaluationError == "" {
				t.Errorf("no word why: %s", answer)
			}
		})
	}
}

func TestReviewsKeepTheirForm(t *testing.T) {
	w := newTown(t)
	one := func(verb string) string {
		return `{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"SubjectAccessReview","metadata":{"name":"` + verb + `"},` +
			`"spec":{"resourceAttributes":{"namespace":"shop","resource":"pods","verb":"` + verb + `"},"x":[1]}}`
	}
	verbs := []string{"get", "delete", "list", "create", "get"}
	var items []string
	for _, verb := range verbs {
		items = append(items, one(verb))
	}
	check := func(got []review) {
		t.Helper()
		var allowed []bool
		for n, r := range got {
			allowed = append(allowed, r.Status.Allowed)
			if !strings.Contains(string(r.Spec), `"`+verbs[n]+`"`) || !strings.Contains(string(r.Spec), `"x":[1]`) || !strings.Contains(string(r.Metadata), verbs[n]) {
				t.Errorf("%d: %s %s", n, r.Metadata, r.Spec)
			}
		}
		if !slices.Equal(allowed, []bool{true, false, true, false, true}) {
			t.Errorf("%v: the order is lost", allowed)
		}
	}
	ann := somebody("ann", "dev")
	var array []review
	w.want(200, ann, http.MethodPost, "/subjectaccessreviews", " ["+strings.Join(items, ",")+"]", &array)
	check(array)
	var list reviewList
	w.want(200, ann, http.MethodPost, "/subjectaccessreviews", `{"apiVersion":"v1","kind":"List","items":[`+strings.Join(items, ",")+`]}`, &list)
	check(list.Items)
	if list.Kind != "List" || list.APIVersion != "v1" {
		t.Errorf("%+v", list)
	}
	if answer := w.want(200, ann, http.MethodPost, "/subjectaccessreviews", `{"items":[]}`, nil); answer != `{"items":[]}` {
		t.Errorf("%s", answer)
	}
	if answer := w.want(200, ann, http.MethodPost, "/subjectaccessreviews", `[]`, nil); answer != `[]` {
		t.Errorf("%s", answer)
	}
}

func TestReviewsAreBounded(t *testing.T) {
	w := newTown(t)
	for body, code := range map[string]int{
		"": 400, "{": 400, "7": 400, `"x"`: 400, "[7]": 400, `{"items":7}`: 400, "null": 200,
		"[" + strings.Repeat("{},", maxReviews-1) + "{}]": 200,
		"[" + strings.Repeat("{},", maxReviews) + "{}]":   413,
		strings.Repeat(" ", maxReviewBody) + "{}":         413,
		strings.Repeat("[", 100_000):                      400,
	} {
		if got, answer := w.do(somebody("ann"), http.MethodPost, "/subjectaccessreviews", body); got != code || strings.Contains(answer, `"allowed":true`) {
			t.Errorf("%.20q: %d %.200s, want %d", body, got, answer, code)
		}
	}
}

// S1: no route is open to callers who are not logged in, and not every user may ask what others may do.
func TestWhoMayAsk(t *testing.T) {
	w := newTown(t)
	anonymous := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	about := `{"spec":{"user":"admin","resourceAttributes":{"verb":"get","resource":"pods"}}}`
	for _, c := range []struct {
		claim, method, path, body  string
		anonymous, u0, cleo, admin int
	}{
		{"ReviewsOfOneself", http.MethodPost, "/subjectaccessreviews", `{"spec":{}}`, 403, 200, 200, 200},
		{"ExplanationsAboutOneself", http.MethodPost, "/accessexplanations", `{"spec":{"path":"/version"}}`, 403, 200, 200, 200},
		{"ExplanationsAboutOthers", http.MethodPost, "/accessexplanations", about, 403, 403, 403, 200},
		{"WhoCan", http.MethodGet, "/whocan?verb=get&resource=pods", "", 403, 403, 403, 200},
		{"WhoCanByPost", http.MethodPost, "/whocan", `{"verb":"get","resource":"pods"}`, 403, 403, 403, 200},
	} {
		for who, code := range map[user.Info]int{anonymous: c.anonymous, somebody("u0"): c.u0, somebody("cleo"): c.cleo, somebody("admin"): c.admin} {
			if got, answer := w.do(who, c.method, c.path, c.body); got != code {
				t.Errorf("%s by %s: %d %s, want %d", c.claim, who.GetName(), got, answer, code)
			}
		}
	}
}

// A role for one name is a right to ask about that one.
func TestTheRightToAskCanBeForSomeUsers(t *testing.T) {
	w := newTown(t)
	w.role("GlobalRole", "", "desk", rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{wire.Group},
		Resources: []string{"subjectaccessreviews"}, ResourceNames: []string{"ann"}})
	w.bind("GlobalRole", "", "desk", "", "desk", "User", "dora")
	for name, allowed := range map[string]bool{"ann": true, "ed": false} {
		var got review
		w.want(200, somebody("dora"), http.MethodPost, "/subjectaccessreviews",
			fmt.Sprintf(`{"spec":{"user":%q,"nonResourceAttributes":{"path":"/version","verb":"get"}}}`, name), &got)
		if got.Status.Allowed != allowed {
			t.Errorf("%s: %+v", name, got.Status)
		}
	}
}

func FuzzReviews(f *testing.F) {
	w := newTown(f)
	for _, seed := range []string{
		`{"spec":{"resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}}`,
		`[{"spec":{"nonResourceAttributes":{"path":"/version","verb":"get"}}},{}]`,
		`{"kind":"List","items":[{"spec":{"user":"admin","groups":["x"],"extra":{"a":["b"]},"resourceAttributes":{"verb":"*","group":"*","resource":"*"}}}]}`,
		`{"spec":{"resourceAttributes":{"workspace":"a","verb":"get","group":"tenant.kubesphere.io","resource":"workspaces","subresource":"x","name":"-"}}}`,
		`{"spec":{"method":"POST","path":"/kapis/iam.kubesphere.io/v1beta1/users?watch=1"}}`,
		`{"verb":"get","resource":"pods","limit":-1,"page":9223372036854775807}`,
	} {
		f.Add([]byte(seed))
	}
	nobody := &user.DefaultInfo{Name: "nobody"} // in no group: only open paths are allowed
	f.Fuzz(func(t *testing.T, body []byte) {
		raw := bytes.TrimSpace(body)
		if len(raw) == 0 {
			return
		}
		a := &requester{Handler: w.v, user: nobody, about: map[string]bool{}}
		list, _, err := decodeReviews(raw)
		if err != nil {
			return
		}
		for n := range list.Items {
			r := &list.Items[n]
			a.answer(t.Context(), r)
			if r.Status.Allowed && r.Status.Reason != "the path is open" {
				t.Errorf("%s: %+v", r.Spec, r.Status)
			}
			var spec reviewSpec
			if json.Unmarshal(r.Spec, &spec) != nil || spec.ResourceAttributes == nil {
				continue
			}
			// The decision is about the request in question.
			if info, err := spec.info(); err == nil && (info.Verb != spec.ResourceAttributes.Verb || info.Resource != spec.ResourceAttributes.Resource ||
				info.APIGroup != spec.ResourceAttributes.Group) {
				t.Errorf("%s became %+v", r.Spec, info)
			}
		}
	})
}
