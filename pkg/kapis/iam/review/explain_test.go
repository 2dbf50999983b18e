package review

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
)

// lines returns an explanation in few words.
func lines(e *explanation) (out []string) {
	for _, s := range e.Scopes {
		line := s.Scope + " " + s.Place + ":"
		for _, g := range s.Grants {
			line += fmt.Sprintf(" %s/%s %v", g.Binding.Kind, g.Binding.Name, g.Held)
		}
		if s.Hidden > 0 {
			line += fmt.Sprintf(" %d hidden", s.Hidden)
		}
		out = append(out, line+" | "+s.Missing)
	}
	return out
}

func TestAnExplanationSaysWhatAllowedOrWhatIsMissing(t *testing.T) {
	w := newTown(t)
	admin := somebody("admin")
	noBinding := func(who, where string) string {
		return `no binding of "` + who + `", or of a group of that user, ` + where
	}
	// Those of system:authenticated hold on the platform for every user.
	const everybodys = ` GlobalRoleBinding/authenticated false GlobalRoleBinding/authenticated-labels false GlobalRoleBinding/authenticated-reviews false GlobalRoleBinding/authenticated-self false`
	for _, c := range []struct {
		claim, spec string
		who         user.Info
		allowed     bool
		asked       string
		want        []string
	}{
		{"AllowedInItsWorkspace", `{"user":"ann","resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}`, admin, true,
			`list pods in the namespace "shop"`, []string{
				"global :" + everybodys + ` | the role "authenticated" has no rule for list pods; the role "authenticated-labels" has no rule for list pods; the role "authenticated-reviews" has no rule for list pods; the role "authenticated-self" has no rule for list pods`,
				"workspace a: WorkspaceRoleBinding/ann-views true | ",
				"namespace shop: | " + noBinding("ann", `in the namespace "shop"`), "cluster : | " + noBinding("ann", "in the cluster"),
			}},
		{"MissingARule", `{"user":"ed","groups":[],"method":"DELETE","path":"/apis/apps/v1/namespaces/shop/deployments/web"}`, admin, false,
			`delete deployments.apps "web" in the namespace "shop"`, []string{
				"global : | " + noBinding("ed", "on the platform"), "workspace a: | " + noBinding("ed", `in the workspace "a"`),
				`namespace shop: RoleBinding/ed false | the role "operator" has no rule for delete deployments.apps "web"`, "cluster : | " + noBinding("ed",
					"in the cluster"),
			}},
		{"NamespaceInNoWorkspace", `{"user":"ed","groups":[],"resourceAttributes":{"namespace":"lost","verb":"list","resource":"pods"}}`, admin, false,
			`list pods in the namespace "lost"`, []string{
				"global : | " + noBinding("ed", "on the platform"), "workspace : | the namespace is in no workspace",
				"namespace lost: | " + noBinding("ed", `in the namespace "lost"`), "cluster : | " + noBinding("ed", "in the cluster"),
			}},
		{"MissingTheCondition", `{"user":"ed","groups":["system:authenticated"],"resourceAttributes":{"verb":"get","group":"iam.kubesphere.io","resource":"users","name":"ann"}}`, admin, false,
			`get users.iam.kubesphere.io "ann" on the platform`, []string{"global :" + everybodys +
				` | the role "authenticated" has no rule for get users.iam.kubesphere.io "ann"; ` +
				`the role "authenticated-labels" has no rule for get users.iam.kubesphere.io "ann"; the role "authenticated-reviews" has no rule for get users.iam.kubesphere.io "ann"; the condition of the role "authenticated-self" does not hold for this request`}},
		{"ByTheKindItself", `{"user":"ed","groups":["dev"],"method":"GET","path":"/kapis/resources.kubesphere.io/v1alpha3/namespaces/shop/pods"}`, admin, true,
			`list pods.resources.kubesphere.io in the namespace "shop"`, []string{
				"global : | " + noBinding("ed", "on the platform"), "workspace a: WorkspaceRoleBinding/ann-views true | ",
				`namespace shop: RoleBinding/ed false | the role "operator" has no rule for list pods`, "cluster : | " + noBinding("ed", "in the cluster"),
			}},
		{"OnesOwnBindingsThatOneMayNotSee", `{"resourceAttributes":{"namespace":"shop","verb":"delete","resource":"pods"}}`, somebody("ann", "dev"), false,
			`delete pods in the namespace "shop"`, []string{
				"global : 4 hidden | none of the bindings on the platform allows it", `workspace a: 1 hidden | none of the bindings in the workspace "a" allows it`,
				"namespace shop: | " + noBinding("ann", `in the namespace "shop"`), "cluster : | " + noBinding("ann", "in the cluster"),
			}},
		{"OnesOwnBindingsThatOneMaySee", `{"resourceAttributes":{"namespace":"shop","verb":"delete","resource":"pods"}}`, somebody("wim"), true,
			`delete pods in the namespace "shop"`, []string{
				"global : 4 hidden | none of the bindings on the platform allows it", "workspace a: WorkspaceRoleBinding/wim true | ",
				"namespace shop: | " + noBinding("wim", `in the namespace "shop"`), "cluster : | " + noBinding("wim", "in the cluster"),
			}},
		{"TheWorkspaceOfAnothersNamespaceIsNotTold_S1", `{"resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}`, somebody("u0"), false,
			`list pods in the namespace "shop"`, []string{
				"global : 4 hidden | none of the bindings on the platform allows it", "workspace : | " + noBinding("u0", "in a workspace that the namespace may be in"),
				"namespace shop: | " + noBinding("u0", `in the namespace "shop"`), "cluster : | " + noBinding("u0", "in the cluster"),
			}},
		{"NorWhetherThereIsSuchANamespace_S1", `{"resourceAttributes":{"namespace":"lost","verb":"list","resource":"pods"}}`, somebody("u0"), false,
			`list pods in the namespace "lost"`, []string{
				"global : 4 hidden | none of the bindings on the platform allows it", "workspace : | " + noBinding("u0", "in a workspace that the namespace may be in"),
				"namespace lost: | " + noBinding("u0", `in the namespace "lost"`), "cluster : | " + noBinding("u0", "in the cluster"),
			}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			w.t = t
			var e explanation
			w.want(200, c.who, http.MethodPost, "/accessexplanations", `{"spec":`+c.spec+`}`, &e)
			if e.Allowed != c.allowed || e.Reason == "" || e.Asked != c.asked {
				t.Errorf("%+v", e)
			}
			if c.claim != "OnesOwnBindingsThatOneMaySee" { // the order of a user's bindings is that of their arrival
				for n := range e.Scopes {
					slices.SortFunc(e.Scopes[n].Grants, func(a, b grantView) int { return strings.Compare(a.Binding.Name, b.Binding.Name) })
					parts := strings.Split(e.Scopes[n].Missing, "; ")
					slices.Sort(parts)
					e.Scopes[n].Missing = strings.Join(parts, "; ")
				}
				for n, line := range c.want {
					head, missing, _ := strings.Cut(line, " | ")
					parts := strings.Split(missing, "; ")
					slices.Sort(parts)
					c.want[n] = head + " | " + strings.Join(parts, "; ")
				}
			}
			if got := lines(&e); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestAnExplanationShowsTheRule(t *testing.T) {
	w := newTown(t)
	answer := w.want(200, somebody("admin"), http.MethodPost, "/accessexplanations",
		`{"spec":{"user":"ann","resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}}`, nil)
	for _, part := range []string{
		`"binding":{"kind":"WorkspaceRoleBinding","workspace":"a","name":"ann-views"},"role":{"kind":"WorkspaceRole","name":"a-viewer"}`,
		`"subject":{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"dev"},"rule":{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]},"held":true,` +
			`"why":"allowed by WorkspaceRoleBinding \"ann-views\" of WorkspaceRole \"a-viewer\" to Group \"dev\""`,
		`"condition":"request.isResource \u0026\u0026 request.name != \"\" \u0026\u0026 request.name == user.name"`,
	} {
		if !strings.Contains(answer, part) {
			t.Errorf("%s\nlacks %s", answer, part)
		}
	}
	answer = w.want(200, somebody("wim"), http.MethodPost, "/accessexplanations",
		`{"spec":{"resourceAttributes":{"verb":"list","group":"iam.kubesphere.io","resource":"users"}}}`, nil)
	if !strings.Contains(answer, "only roles on the platform have a say on users") {
		t.Errorf("%s", answer)
	}
	answer = w.want(200, somebody("wim"), http.MethodPost, "/accessexplanations", `{"spec":{"path":"/kapi/v1/pods"}}`, nil)
	if !strings.Contains(answer, "not allowed for all there are, but allowed in 1 namespaces and 1 workspaces") {
		t.Errorf("%s", answer)
	}
	for _, body := range []string{`{}`, `7`, `[]`, `{"spec":{"path":"x"}}`, `{"spec":{"resourceAttributes":{"verb":"get","resource":"a/b"}}}`, ""} {
		w.want(400, somebody("wim"), http.MethodPost, "/accessexplanations", body, nil)
	}
}

func TestWhoCan(t *testing.T) {
	w := newTown(t)
	admin := somebody("admin")
	for _, c := range []struct {
		claim, query string
		want         []string
	}{
		{"InANamespace", "verb=list&resource=pods&namespace=shop", []string{
			"global User admin by platform-admin true", "workspace Group dev by ann-views true", "workspace User wim by wim true", "cluster User cleo by cleo true"}},
		{"ByTheRoutesOfEveryKindEachOnce", "verb=list&group=resources.kubesphere.io&resource=pods&namespace=shop", []string{
			"global User admin by platform-admin true", "workspace Group dev by ann-views true", "workspace User wim by wim true", "cluster User cleo by cleo true"}},
		{"WhereAConditionHolds", "verb=update&group=iam.kubesphere.io&resource=users&subresource=password&name=ann", []string{
			"global Group system:authenticated by authenticated-self false", "global User admin by platform-admin true"}},
		{"OnAPath", "verb=get&path=/static/images/x", []string{
			"global Group system:authenticated by authenticated true", "global Group system:unauthenticated by anonymous true",
			"global User admin by platform-admin true"}},
		{"APage", "verb=list&resource=pods&namespace=shop&limit=2&page=2", []string{"workspace User wim by wim true", "cluster User cleo by cleo true"}},
		{"NoPage", "verb=list&resource=pods&namespace=shop&limit=1000&page=9223372036854775807", nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			w.t = t
			var got whoCanAnswer
			w.want(200, admin, http.MethodGet, "/whocan?"+c.query, "", &got)
			var out []string
			for _, s := range got.Subjects {
				out = append(out, fmt.Sprintf("%s %s %s by %s %v", s.Scope, s.Subject.Kind, s.Subject.Name, s.Binding.Name, s.Held))
			}
			if !slices.Equal(out, c.want) || got.Asked == "" {
				t.Errorf("got\n%s", strings.Join(out, "\n"))
			}
			if total := 4; strings.Contains(c.query, "page=") && got.TotalItems != total {
				t.Errorf("%d in all", got.TotalItems)
			}
		})
	}
	var got whoCanAnswer
	w.want(200, admin, http.MethodPost, "/whocan", `{"verb":"list","resource":"pods","workspace":"a","limit":1}`, &got)
	if len(got.Subjects) != 1 || got.TotalItems != 4 {
		t.Errorf("%+v", got)
	}
	w.want(200, admin, http.MethodGet, "/whocan?verb=get&path=/version", "", &got)
	if got.Everybody != "the path is open" {
		t.Errorf("%+v", got)
	}
	for _, query := range []string{"", "verb=get", "resource=pods", "verb=get&path=x", "verb=get&path=/x&resource=pods",
		"verb=get&resource=pods&limit=1001", "verb=get&resource=pods&limit=-1",
		"verb=get&resource=pods&page=x", "verb=get&resource=" + url.QueryEscape("../x")} {
		w.want(400, admin, http.MethodGet, "/whocan?"+query, "", nil)
	}
}

// A caller who may ask about every user, and sees only the bindings of some scopes, learns how many there are elsewhere.
func TestWhoCanLeavesOutBindingsThatTheCallerMayNotSee(t *testing.T) {
	w := newTown(t)
	allow := func(verb, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{wire.Group}, Resources: []string{resource}, ResourceNames: names}
	}
	w.role("GlobalRole", "", "desk", allow("create", "subjectaccessreviews"), allow("list", "whocan"), allow("get", "workspacerolebindings", "ann-views"),
		allow("get", "clusterrolebindings"))
	w.bind("GlobalRole", "", "desk", "", "desk", "User", "dora")
	var got whoCanAnswer
	answer := w.want(200, somebody("dora"), http.MethodGet, "/whocan?verb=list&resource=pods&namespace=shop", "", &got)
	if got.TotalItems != 2 || got.Hidden != 2 || !strings.Contains(answer, "ann-views") || !strings.Contains(answer, "cleo") || strings.Contains(answer,
		"wim") || strings.Contains(answer, "platform-admin") {
		t.Errorf("%s", answer)
	}
	for path, body := range map[string]string{
		"/subjectaccessreviews": `{"spec":{"user":"wim","resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}}`,
		"/accessexplanations":   `{"spec":{"user":"wim","groups":[],"resourceAttributes":{"namespace":"shop","verb":"list","resource":"pods"}}}`,
	} {
		w.role("GlobalRole", "", "desk", allow("create", "subjectaccessreviews"))
		if answer := w.want(200, somebody("dora"), http.MethodPost, path, body, nil); !strings.Contains(answer,
			`"reason":"allowed by a binding that you may not see"`) || strings.Contains(answer, "WorkspaceRole") {
			t.Errorf("%s: %s", path, answer)
		}
		w.role("GlobalRole", "", "desk", allow("create", "subjectaccessreviews"), allow("get", "workspacerolebindings"))
		if answer := w.want(200, somebody("dora"), http.MethodPost, path, body, nil); !strings.Contains(answer, `WorkspaceRoleBinding \"wim\"`) {
			t.Errorf("%s: %s", path, answer)
		}
	}
}
