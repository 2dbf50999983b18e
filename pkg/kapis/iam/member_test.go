package iam_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/request"
)

var demo, proj, cluster = authz.BindingScope{Scope: request.Workspace, Workspace: "demo"}, authz.BindingScope{Scope: request.Namespace,
	Namespace: "proj"}, authz.BindingScope{Scope: request.Cluster}

// village has a workspace, a namespace, and users in them.
func village(t *testing.T) *world {
	t.Helper()
	o := objects{}
	for _, name := range []string{"alice", "bob", "carol", "dora", "grouped"} {
		o.user(name)
	}
	o.add("/apis/tenant.kubesphere.io/v1beta1/workspaces", "", "demo", nil, nil)
	o.add("/apis/tenant.kubesphere.io/v1beta1/workspacetemplates", "", "born", nil, nil)
	o.add("/api/v1/namespaces", "", "proj", nil, nil)
	o.role(&binding.Workspace, demo, "demo-viewer", "pods")
	o.role(&binding.Workspace, demo, "demo-admin", "*")
	o.role(&binding.Workspace, authz.BindingScope{Scope: request.Workspace, Workspace: "other"}, "other-viewer", "pods")
	o.role(&binding.Namespace, proj, "viewer", "pods")
	o.role(&binding.Namespace, proj, "operator", "pods")
	o.role(&binding.Namespace, authz.BindingScope{Namespace: "elsewhere"}, "stranger", "pods")
	o.role(&binding.Cluster, cluster, "cluster-viewer", "nodes")
	o.bind(&binding.Workspace, demo, "old", "demo-viewer", "bob", "gone", "@team")
	o.bind(&binding.Workspace, demo, "carol-demo-admin", "demo-admin", "carol")
	o.bind(&binding.Workspace, demo, "more-of-carol", "demo-viewer", "carol", "dora")
	o.bind(&binding.Namespace, proj, "carol-viewer", "viewer", "carol")
	o.bind(&binding.Cluster, cluster, "carol-cluster-viewer", "cluster-viewer", "carol")
	return newWorld(t).within(o)
}

// shownUser is what tests read of a User.
type shownUser struct {
	Kind     string
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec map[string]any
}

func (w *world) members(path string) (list struct {
	Items      []shownUser
	TotalItems int
}) {
	w.t.Helper()
	if err := json.Unmarshal([]byte(w.want(200, as("carol"), http.MethodGet, path, "")), &list); err != nil {
		w.t.Fatal(err)
	}
	return list
}

const (
	inDemo = "/workspaces/demo/workspacemembers"
	inProj = "/namespaces/proj/namespacemembers"
)

func TestMembersAreTheUsersWhoAreBound(t *testing.T) {
	w := village(t)
	for name, c := range map[string]struct {
		path, annotation, want string
		total                  int
	}{
		"OfAWorkspace": {inDemo + "?sortBy=name&ascending=true", "iam.kubesphere.io/workspacerole",
			"bob=demo-viewer carol=demo-admin dora=demo-viewer", 3},
		"APage": {inDemo + "?sortBy=name&ascending=true&limit=1&page=2", "iam.kubesphere.io/workspacerole", "carol=demo-admin", 3},
		"ByRole": {inDemo + "?sortBy=name&ascending=true&workspacerole=demo-viewer", "iam.kubesphere.io/workspacerole",
			"bob=demo-viewer carol=demo-viewer dora=demo-viewer", 3},
		"ByName": {inDemo + "?name=bo", "iam.kubesphere.io/workspacerole", "bob=demo-viewer", 1},
		"TheQueryNamesNoOther": {inDemo + "?workspace=other&namespace=x&cluster=true&globalrole=x&name=bo", "iam.kubesphere.io/workspacerole",
			"bob=demo-viewer", 1},
		"OfAWorkspaceJustBorn":     {"/workspaces/born/workspacemembers", "iam.kubesphere.io/workspacerole", "", 0},
		"OfANamespace":             {inProj, "iam.kubesphere.io/role", "carol=viewer", 1},
		"OfANamespaceByRole":       {inProj + "?role=operator", "iam.kubesphere.io/role", "", 0},
		"OfTheCluster":             {"/clustermembers?clusterrole=cluster-viewer", "iam.kubesphere.io/clusterrole", "carol=cluster-viewer", 1},
		"OlderName":                {"/kapis/iam.kubesphere.io/v1alpha2/namespaces/proj/members", "iam.kubesphere.io/role", "carol=viewer", 1},
		"OlderVersion":             {"/kapis/iam.kubesphere.io/v1alpha2" + inProj, "iam.kubesphere.io/role", "carol=viewer", 1},
		"NobodyBelowAnotherFilter": {inDemo + "?fieldSelector=spec.email=nobody", "iam.kubesphere.io/workspacerole", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			list := w.members(c.path)
			var got []string
			for _, u := range list.Items {
				got = append(got, u.Metadata.Name+"="+u.Metadata.Annotations[c.annotation])
				if u.Kind != "User" || u.Spec["password"] != nil || u.Spec["email"] == nil {
					t.Errorf("%+v", u)
				}
			}
			if strings.Join(got, " ") != c.want || list.TotalItems != c.total {
				t.Errorf("%v of %d", got, list.TotalItems)
			}
		})
	}
	w.t = t
	one := w.want(200, as("carol"), http.MethodGet, inDemo+"/bob", "")
	if !strings.Contains(one, `"iam.kubesphere.io/workspacerole":"demo-viewer"`) || !strings.Contains(one, "bob@example.com") {
		t.Errorf("%s", one)
	}
	for path, code := range map[string]int{
		inDemo + "/alice": 400, inDemo + "/gone": 400, inDemo +
			"/grouped": 400, "/workspaces/none/workspacemembers": 404, "/workspaces/none/workspacemembers/bob": 404,
		"/namespaces/none/namespacemembers": 404, inProj + "/bob": 400, "/clustermembers/carol": 200, inDemo + "?limit=x": 400, inDemo + "?watch=true": 405,
		"/namespaces/proj/members": 404,
	} {
		w.want(code, as("carol"), http.MethodGet, path, "")
	}
}

// S1: every user may ask whether they are a member, anywhere, and the answer is the same for a scope that does not exist.
func TestAskingAboutOneselfTellsNoPlaces(t *testing.T) {
	w := village(t)
	for _, paths := range [][2]string{{inDemo, "/workspaces/none/workspacemembers"}, {inProj, "/namespaces/none/namespacemembers"}} {
		there := w.want(400, as("alice"), http.MethodGet, paths[0]+"/alice", "")
		if gone := w.want(400, as("alice"), http.MethodGet, paths[1]+"/alice", ""); strings.NewReplacer("demo", "none", "proj", "none").Replace(there) != gone {
			t.Errorf("%s, and %s", there, gone)
		}
	}
	w.want(200, as("carol"), http.MethodGet, inDemo+"/carol", "")
}

func TestMembersAreInvitedAsTheCaller(t *testing.T) {
	w := village(t)
	answer := w.want(200, as("carol"), http.MethodPost, inDemo, `[{"username":"alice","roleRef":"demo-viewer"},{"username":"dora","roleRef":"demo-viewer","x":1}]`)
	if answer != `[{"username":"alice","roleRef":"demo-viewer"},{"username":"dora","roleRef":"demo-viewer"}]` {
		t.Errorf("%s", answer)
	}
	want := `POST /apis/iam.kubesphere.io/v1beta1/workspacerolebindings {"apiVersion":"iam.kubesphere.io/v1beta1","kind":"WorkspaceRoleBinding",` +
		`"metadata":{"labels":{"iam.kubesphere.io/role-ref":"demo-viewer","iam.kubesphere.io/user-ref":"alice","kubesphere.io/workspace":"demo"},"name":"alice-demo-viewer"},` +
		`"roleRef":{"apiGroup":"iam.kubesphere.io","kind":"WorkspaceRole","name":"demo-viewer"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"alice"}]}`
	if got := w.changes(); len(got) != 1 || got[0] != want || !strings.HasPrefix(w.sent[0], "carol ") {
		t.Errorf("sent %q\nwant %s", w.sent, want)
	}
	if !slices.Equal(w.guarded, []string{"create workspacerolebindings alice-demo-viewer"}) {
		t.Errorf("guarded %v", w.guarded)
	}
	t.Run("InANamespaceAndInTheCluster", func(t *testing.T) {
		w := village(t)
		w.want(200, as("carol"), http.MethodPost, "/kapis/iam.kubesphere.io/v1alpha2/namespaces/proj/members?dryRun=All", `[{"username":"alice","roleRef":"viewer"}]`)
		w.want(200, as("carol"), http.MethodPost, "/clustermembers", `[{"username":"alice","roleRef":"cluster-viewer"}]`)
		got := w.changes()
		if len(got) != 2 || !strings.HasPrefix(got[0], "POST /apis/iam.kubesphere.io/v1beta1/namespaces/proj/rolebindings?dryRun=All {") ||
			!strings.Contains(got[0], `"namespace":"proj"`) || !strings.HasPrefix(got[1], "POST /apis/iam.kubesphere.io/v1beta1/clusterrolebindings {") {
			t.Errorf("%q", got)
		}
	})
	t.Run("ARoleIsReplacedNewBeforeOld", func(t *testing.T) {
		w := village(t)
		w.want(200, as("carol"), http.MethodPost, inDemo, `[{"username":"dora","roleRef":"demo-admin"}]`)
		got := w.changes()
		if len(got) != 2 || !strings.Contains(got[0], `"name":"dora-demo-admin"`) || !strings.HasPrefix(got[1],
			"PUT /apis/iam.kubesphere.io/v1beta1/workspacerolebindings/more-of-carol {") ||
			strings.Contains(got[1], `"dora"`) || !strings.Contains(got[1], `"carol"`) || !strings.Contains(got[1], `"resourceVersion":"5"`) {
			t.Errorf("%q", got)
		}
	})
	t.Run("ANameThatIsTakenIsNotUsed", func(t *testing.T) {
		o := objects{}
		o.user("a")
		o.user("a-demo")
		o.role(&binding.Cluster, cluster, "demo-x", "pods")
		o.bind(&binding.Cluster, cluster, "a-demo-x", "x", "a-demo")
		w := newWorld(t).within(o)
		w.want(200, as("bob"), http.MethodPost, "/clustermembers", `[{"username":"a","roleRef":"demo-x"}]`)
		if got := w.changes(); len(got) != 1 || strings.Contains(got[0], `"name":"a-demo-x"`) || !strings.Contains(got[0], `"name":"a-demo-x-`) {
			t.Errorf("%q", got)
		}
	})
}

func TestNothingIsWrittenIfOneOfManyIsWrong(t *testing.T) { // S6
	for name, c := range map[string]struct {
		body string
		code int
		says string
	}{
		"AUserWhoIsNotThere": {`[{"username":"alice","roleRef":"demo-viewer"},{"username":"nobody","roleRef":"demo-viewer"}]`, 404,
			`\"nobody\": users.iam.kubesphere.io \"nobody\" not found`},
		"ARoleThatIsNotThere":   {`[{"username":"alice","roleRef":"demo-viewer"},{"username":"dora","roleRef":"none"}]`, 404, `"field":"[1]"`},
		"ARoleOfAnotherPlace":   {`[{"username":"alice","roleRef":"demo-viewer"},{"username":"dora","roleRef":"other-viewer"}]`, 404, "other-viewer"},
		"ARoleAboveTheCallers":  {`[{"username":"alice","roleRef":"demo-viewer"},{"username":"dora","roleRef":"demo-admin"}]`, 403, "nothing was written"},
		"TheSameTwice":          {`[{"username":"alice","roleRef":"demo-viewer"},{"username":"alice","roleRef":"demo-admin"}]`, 400, "twice"},
		"NoRole":                {`[{"username":"alice"}]`, 400, "missing"},
		"NoName":                {`[{"roleRef":"demo-viewer"}]`, 400, "missing"},
		"Nobody":                {`[]`, 400, "array"},
		"NoArray":               {`{"username":"alice","roleRef":"demo-viewer"}`, 400, "array"},
		"NoJSON":                {`x`, 400, "array"},
		"NoBody":                {``, 400, "array"},
		"TooMany":               {"[" + strings.Repeat(`{},`, 500) + "{}]", 413, "500"},
		"TooLong":               {strings.Repeat(" ", (256<<10)+1), 413, ""},
		"EveryoneWhoIsWrong":    {`[{"username":"x","roleRef":"demo-viewer"},{"username":"y","roleRef":"demo-viewer"}]`, 404, "and 1 more"},
		"AnotherNamespacesRole": {`[{"username":"alice","roleRef":"stranger"}]`, 404, "stranger"},
	} {
		t.Run(name, func(t *testing.T) {
			w := village(t)
			w.forbidden["create workspacerolebindings dora-demo-admin"] = true
			if answer := w.want(c.code, as("carol"), http.MethodPost, inDemo, c.body); !strings.Contains(answer, c.says) {
				t.Errorf("%s", answer)
			}
			if len(w.sent) != 0 {
				t.Errorf("sent %v", w.sent)
			}
		})
	}
	w := village(t)
	w.want(404, as("carol"), http.MethodPost, inProj, `[{"username":"alice","roleRef":"stranger"}]`)
	w.want(404, as("carol"), http.MethodPost, "/workspaces/none/workspacemembers", `[{"username":"alice","roleRef":"demo-viewer"}]`)
	w.want(400, as("carol"), http.MethodPost, inDemo+"?dryrun=All", `[{"username":"alice","roleRef":"demo-viewer"}]`)
	if len(w.sent) != 0 {
		t.Errorf("sent %v", w.sent)
	}
}

func TestWhatKubeAPIServerRefusesIsToldPerMember(t *testing.T) {
	w := village(t)
	w.fails["POST "+iamPath+"workspacerolebindings"] = []int{403}
	answer := w.want(403, as("carol"), http.MethodPost, inDemo, `[{"username":"alice","roleRef":"demo-viewer"},{"username":"grouped","roleRef":"demo-viewer"}]`)
	if !strings.Contains(answer, `1 of 2 were written: grouped`) || !strings.Contains(answer, `"field":"[0]"`) || strings.Contains(answer, `"field":"[1]"`) {
		t.Errorf("%s", answer)
	}
}

func TestAMemberGetsAnotherRole(t *testing.T) {
	w := village(t)
	if got := w.want(200, as("carol"), http.MethodPut, inDemo+"/bob", `{"username":"bob","roleRef":"demo-admin"}`); got != `{"message":"success"}` {
		t.Errorf("%s", got)
	}
	if got := w.changes(); len(got) != 2 || !strings.Contains(got[0], "bob-demo-admin") || !strings.Contains(got[1], `"gone"`) || !strings.Contains(got[1],
		`"team"`) {
		t.Errorf("%q", got)
	}
	w.want(400, as("carol"), http.MethodPut, inDemo+"/bob", `{"username":"carol","roleRef":"demo-admin"}`)
	w.want(400, as("carol"), http.MethodPut, inDemo+"/alice", `{"username":"alice","roleRef":"demo-admin"}`)
	w.want(404, as("carol"), http.MethodPut, inDemo+"/bob", `{"username":"bob","roleRef":"other-viewer"}`)
	w.forbidden["create workspacerolebindings dora-demo-admin"] = true
	w.want(403, as("carol"), http.MethodPut, inDemo+"/dora", `{"roleRef":"demo-admin"}`)
	if n := len(w.changes()); n != 2 {
		t.Errorf("%d writes", n)
	}
}

func TestAMemberIsRemovedFromEveryBinding(t *testing.T) {
	w := village(t)
	w.want(200, as("bob"), http.MethodDelete, inDemo+"/carol", "")
	got := w.changes()
	if len(got) != 2 || !strings.HasPrefix(got[0], `DELETE `+iamPath+`workspacerolebindings/carol-demo-admin {`) || !strings.Contains(got[0],
		`"uid":"uid-carol-demo-admin","resourceVersion":"5"`) ||
		!strings.HasPrefix(got[1], "PUT "+iamPath+"workspacerolebindings/more-of-carol {") || strings.Contains(got[1], `"carol"`) {
		t.Errorf("%q", got)
	}
	w.want(400, as("bob"), http.MethodDelete, inDemo+"/alice", "")
	t.Run("InEarnestOnlyIfAskedTo", func(t *testing.T) {
		w := village(t)
		w.want(200, as("bob"), http.MethodDelete, inProj+"/carol", `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`)
		if got := w.changes(); len(got) != 1 || !strings.HasPrefix(got[0], "DELETE "+iamPath+"namespaces/proj/rolebindings/carol-viewer {") || !isDry(got[0]) {
			t.Errorf("%q", got)
		}
		w.want(400, as("bob"), http.MethodDelete, inProj+"/carol", `[]`)
	})
	t.Run("WhoChangedItMeanwhileIsHeard", func(t *testing.T) {
		w := village(t)
		path := iamPath + "workspacerolebindings/more-of-carol"
		w.fails["PUT "+path] = []int{409}
		w.live[path] = `{"metadata":{"name":"more-of-carol","uid":"u","resourceVersion":"7","labels":{"kubesphere.io/workspace":"demo"}},"subjects":[{"kind":"User","name":"dora"},{"kind":"User","name":"new"}]}`
		w.want(200, as("bob"), http.MethodDelete, inDemo+"/dora", "")
		got := w.changes()
		if len(got) != 2 || !strings.Contains(got[1], `"new"`) || !strings.Contains(got[1], `"resourceVersion":"7"`) || strings.Contains(got[1], `"dora"`) {
			t.Errorf("%q", got)
		}
	})
	t.Run("ButNotForEver", func(t *testing.T) {
		w := village(t)
		path := iamPath + "namespaces/proj/rolebindings/carol-viewer"
		w.fails["DELETE "+path] = []int{409, 409, 409, 409, 409}
		w.live[path] = `{"metadata":{"name":"carol-viewer","uid":"u","resourceVersion":"7"},"subjects":[{"kind":"User","name":"carol"}]}`
		w.want(409, as("bob"), http.MethodDelete, inProj+"/carol", "")
	})
	t.Run("GoneIsGone", func(t *testing.T) {
		w := village(t)
		w.fails["DELETE "+iamPath+"namespaces/proj/rolebindings/carol-viewer"] = []int{404}
		w.want(200, as("bob"), http.MethodDelete, inProj+"/carol", "")
	})
	t.Run("TheGuardIsAsked", func(t *testing.T) {
		w := village(t)
		w.forbidden["delete rolebindings carol-viewer"] = true
		w.want(403, as("bob"), http.MethodDelete, inProj+"/carol", "")
		if len(w.sent) != 0 {
			t.Errorf("%v", w.sent)
		}
	})
}

// isDry reports whether kube-apiserver takes a write that was sent for a dry run: for a deletion with a body it reads no query.
func isDry(sent string) bool {
	line, body, _ := strings.Cut(sent, "{")
	if strings.HasPrefix(line, "DELETE ") && body != "" {
		return strings.Contains(body, `"dryRun":["All"`)
	}
	return strings.Contains(line, "dryRun=All")
}

// S22: a dry run of several writes covers all of them.
func TestADryRunIsDryInEveryWrite(t *testing.T) {
	const dry = `{"dryRun":["All"]}`
	for name, c := range map[string]struct {
		w                  *world
		method, path, body string
		writes             int
	}{
		"AMemberByTheQuery": {village(t), http.MethodDelete, inDemo + "/carol?dryRun=All", "", 2},
		"AMemberByTheBody":  {village(t), http.MethodDelete, inDemo + "/carol", dry, 2},
		"AMemberByBoth":     {village(t), http.MethodDelete, inDemo + "/carol?dryRun=All", dry, 2},
		"AnotherRole":       {village(t), http.MethodPut, inProj + "/carol?dryRun=All", `{"username":"carol","roleRef":"operator"}`, 2},
		"AnInvitation": {village(t), http.MethodPost, inProj + "?dryRun=All",
			`[{"username":"carol","roleRef":"operator"},{"username":"bob","roleRef":"viewer"}]`, 3},
		"AUserByTheQuery":     {staffed(t), http.MethodDelete, "/users/alice?dryRun=All", "", 1},
		"AUserByTheBody":      {staffed(t), http.MethodDelete, "/users/alice", dry, 1},
		"AUserWithOtherQuery": {staffed(t), http.MethodDelete, "/users/alice?dryRun=All&fieldManager=x", "", 1},
		"ARoleOnThePlatform": {staffed(t), http.MethodPatch, "/users/alice?dryRun=All",
			`{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"users-manager"}}}`, 3},
		"AReplacementOfAUser": {staffed(t), http.MethodPut, "/users/alice?dryRun=All", sentBack("alice", `"stale"`, `"users-manager"`), 3},
		"ANewUserWhoHasARole": {staffed(t), http.MethodPost, "/users?dryRun=All",
			`{"metadata":{"name":"new","annotations":{"iam.kubesphere.io/globalrole":"platform-regular"}}}`, 2},
		"AStateThatGoesByItself": {apart(t), http.MethodPatch, "/users/alice?dryRun=All", `{"status":{"state":"Disabled"}}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c.w.t = t
			c.w.want(200, as("bob"), c.method, c.path, c.body)
			got := c.w.changes()
			if len(got) != c.writes {
				t.Errorf("%d writes, want %d", len(got), c.writes)
			}
			for _, sent := range got {
				if !isDry(sent) {
					t.Errorf("in earnest: %s", sent)
				}
			}
		})
	}
	t.Run("AlsoDoneAgain", func(t *testing.T) {
		w := village(t)
		path := iamPath + "namespaces/proj/rolebindings/carol-viewer"
		w.fails["DELETE "+path] = []int{409}
		w.live[path] = `{"metadata":{"name":"carol-viewer","uid":"u","resourceVersion":"7"},"subjects":[{"kind":"User","name":"carol"}]}`
		w.want(200, as("bob"), http.MethodDelete, inProj+"/carol?dryRun=All", "")
		if got := w.changes(); len(got) != 2 || !isDry(got[0]) || !isDry(got[1]) {
			t.Errorf("%q", got)
		}
	})
}

// The next request sees what was written; for a deletion, kube-apiserver returns no version that could be waited for.
func TestAWriteIsWaitedFor(t *testing.T) {
	carols := iamPath + "namespaces/proj/rolebindings/carol-viewer"
	anew := func(w *world, code int) {
		w.fails["DELETE "+carols] = []int{409, code}
		w.live[carols] = `{"metadata":{"name":"carol-viewer","namespace":"proj","uid":"anew","resourceVersion":"7"},"subjects":[{"kind":"User","name":"carol"}]}`
	}
	for name, c := range map[string]struct {
		prepare            func(w *world)
		method, path, body string
		want               []string
	}{
		"ADeletion":          {nil, http.MethodDelete, inProj + "/carol", "", []string{"rolebindings without proj/carol-viewer uid-carol-viewer"}},
		"ADeletionDoneAgain": {func(w *world) { anew(w, 404) }, http.MethodDelete, inProj + "/carol", "", []string{"rolebindings without proj/carol-viewer anew"}},
		"SomebodyElsesToo": {func(w *world) { w.fails["DELETE "+carols] = []int{404} }, http.MethodDelete, inProj + "/carol", "",
			[]string{"rolebindings without proj/carol-viewer uid-carol-viewer"}},
		"AChangeAndADeletion": {nil, http.MethodDelete, inDemo + "/carol", "", []string{"workspacerolebindings at 5",
			"workspacerolebindings without /carol-demo-admin uid-carol-demo-admin"}},
		"NotADryRun":           {nil, http.MethodDelete, inDemo + "/carol?dryRun=All", "", nil},
		"NotWhatWasNotWritten": {func(w *world) { w.fails["DELETE "+carols] = []int{403} }, http.MethodDelete, inProj + "/carol", "", nil},
		"WhoeverManagesFields": {nil, http.MethodDelete, inDemo + "/dora?fieldManager=x", "", []string{"workspacerolebindings at 5"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := village(t)
			if c.prepare != nil {
				c.prepare(w)
			}
			w.do(as("bob"), c.method, c.path, c.body)
			if !slices.Equal(w.waited, c.want) {
				t.Errorf("waited for %q, want %q", w.waited, c.want)
			}
		})
	}
}

// apart is staffed where the status of users is a sub-resource.
func apart(t *testing.T) *world {
	w := staffed(t)
	w.statusApart = true
	return w
}
