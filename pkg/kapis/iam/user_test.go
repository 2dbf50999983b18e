package iam_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/request"
)

// staffed has an administrator, users who manage users, and other users.
func staffed(t *testing.T, admins ...string) *world {
	t.Helper()
	o := objects{}
	for _, name := range []string{"admin", "second", "manager", "peer", "alice", "chief", "zoe", "yan"} {
		o.user(name)
	}
	o.role(&binding.Platform, authz.BindingScope{}, "platform-admin", "*")
	o.role(&binding.Platform, authz.BindingScope{}, "users-manager", "users", "users/password")
	o.role(&binding.Platform, authz.BindingScope{}, "platform-regular")
	o.role(&binding.Platform, authz.BindingScope{}, "authenticated", "configs")
	o.role(&binding.Cluster, cluster, "cluster-admin", "*")
	for _, name := range append(admins, "admin") {
		o.bind(&binding.Platform, authz.BindingScope{}, name+"-platform-admin", "platform-admin", name)
	}
	o.bind(&binding.Platform, authz.BindingScope{}, "authenticated", "authenticated", "@system:authenticated")
	o.bind(&binding.Platform, authz.BindingScope{}, "managers", "users-manager", "manager", "peer")
	o.bind(&binding.Platform, authz.BindingScope{}, "alice-platform-regular", "platform-regular", "alice")
	o.bind(&binding.Cluster, cluster, "chief-cluster-admin", "cluster-admin", "chief")
	system := authz.BindingScope{Scope: request.Workspace, Workspace: "system-workspace"}
	o.role(&binding.Workspace, system, "system-workspace-admin", "*")
	o.bind(&binding.Workspace, system, "zoe-system", "system-workspace-admin", "zoe")
	theirs := authz.BindingScope{Scope: request.Namespace, Namespace: "kubesphere-system"}
	o.role(&binding.Namespace, theirs, "reader", "secrets")
	o.bind(&binding.Namespace, theirs, "yan-reader", "reader", "yan")
	w := newWorld(t).within(o)
	for _, name := range []string{"admin", "second", "manager", "peer", "alice", "chief", "zoe", "yan"} {
		w.live[iamPath+"users"+"/"+name] = stored(name)
	}
	return w
}

// stored is a user as kube-apiserver has it.
func stored(name string) string {
	return fmt.Sprintf(`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","metadata":{"name":%q,"uid":"uid-%s","resourceVersion":"5","managedFields":[{}],`+
		`"finalizers":["f"],"annotations":{"iam.kubesphere.io/globalrole":"stale","a":"b"}},"spec":{"email":"%s@example.com","password":"$2a$10$canary"},`+
		`"status":{"state":"Active","lastLoginTime":"2026-01-01T00:00:00Z"}}`, name, name, name)
}

// sentBack is the object as the console sends it back, with something replaced, and with the role that alice has.
func sentBack(name, old, next string) string {
	sent := strings.Replace(strings.Replace(stored(name), `,"password":"$2a$10$canary"`, "", 1), old, next, 1)
	return strings.Replace(sent, `"stale"`, `"platform-regular"`, 1)
}

// S6: a user who manages users can't become a user who holds more, by no route.
func TestNobodyManagesWhoHoldsMore(t *testing.T) {
	const fresh = `{"password":"Secret-123"}`
	for _, c := range []struct{ name, method, path, body string }{
		{"Password", http.MethodPut, "/password", fresh},
		{"APIKeys", http.MethodDelete, "/apikeys", ""},
		{"AnAPIKey", http.MethodDelete, "/apikeys/x", ""},
		{"Sessions", http.MethodDelete, "/sessions", ""},
		{"ASession", http.MethodDelete, "/sessions/x", ""},
		{"Factors", http.MethodDelete, "/factors", ""},
		{"Put", http.MethodPut, "", stored("admin")},
		{"MergePatch", http.MethodPatch, "", `{"spec":{"email":"mine@example.com"}}`},
		{"JSONPatch", http.MethodPatch, "", `[{"op":"replace","path":"/spec/password","value":"Secret-123"}]`},
		{"Delete", http.MethodDelete, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := staffed(t)
			for _, name := range []string{"admin", "chief", "zoe", "yan"} {
				answer := w.want(403, as("manager"), c.method, "/users/"+name+c.path, strings.ReplaceAll(c.body, "admin", name))
				if !strings.Contains(answer, "does not hold") {
					t.Errorf("%s", answer)
				}
			}
			if len(w.sent) != 0 || len(w.written) != 0 || len(w.ended) != 0 {
				t.Errorf("written %v %v %v", w.sent, w.written, w.ended)
			}
		})
	}
	t.Run("WhomKubernetesNames", func(t *testing.T) {
		w := staffed(t)
		w.forbidden["become alice"] = true
		for _, c := range []struct{ method, path, body string }{
			{http.MethodPut, "/password", fresh}, {http.MethodDelete, "/factors", ""}, {http.MethodPatch, "", `{"spec":{"email":"mine@example.com"}}`},
		} {
			w.want(403, as("manager"), c.method, "/users/alice"+c.path, c.body)
		}
		if len(w.sent) != 0 || len(w.written) != 0 {
			t.Errorf("written %v %v", w.sent, w.written)
		}
		w.want(200, as("admin"), http.MethodPut, "/users/alice/password", fresh)
	})
	t.Run("ButOthers", func(t *testing.T) {
		w := staffed(t)
		w.want(200, as("manager"), http.MethodPut, "/users/alice/password", fresh)
		w.want(200, as("manager"), http.MethodPut, "/users/peer/password", fresh) // a user with the same role
		w.want(200, as("admin"), http.MethodPut, "/users/manager/password", fresh)
		w.want(200, as("admin"), http.MethodPut, "/users/chief/password", fresh)
		w.want(200, as("admin"), http.MethodPut, "/users/zoe/password", fresh)
		w.want(200, as("manager"), http.MethodDelete, "/users/alice", "")
	})
}

// S22: a dryRun that is dropped would be a real write.
func TestADryRunThatIsNotSupportedIsRefused(t *testing.T) {
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPut, "/users/alice/password?dryRun=All", `{"password":"Secret-123"}`},
		{http.MethodPost, "/users/alice/apikeys?dryRun=All", `{}`},
		{http.MethodDelete, "/users/alice/apikeys?dryRun=All", ""},
		{http.MethodDelete, "/users/alice/apikeys/x?dryRun=All", ""},
		{http.MethodDelete, "/users/alice/sessions?dryRun=All", ""},
		{http.MethodDelete, "/users/alice/sessions", `{"dryRun":["All"]}`},
		{http.MethodDelete, "/users/alice/sessions/x?dryRun=All", ""},
		{http.MethodDelete, "/users/alice/factors?dryRun=All", ""},
	} {
		w := staffed(t)
		if answer := w.want(400, as("manager"), c.method, c.path, c.body); !strings.Contains(answer, "does not support dryRun") {
			t.Errorf("%s %s: %s", c.method, c.path, answer)
		}
		if len(w.sent) != 0 || len(w.written) != 0 || len(w.ended) != 0 {
			t.Errorf("%s %s: written %v %v %v", c.method, c.path, w.sent, w.written, w.ended)
		}
	}
	w := newWorld(t)
	newcomer := &user.DefaultInfo{Name: "system:pre-registration", Extra: map[string][]string{"idp": {"x"}, "uid": {"y"}}}
	w.want(400, newcomer, http.MethodPost, "/users?dryRun=All", `{"metadata":{"name":"new"}}`)
	if len(w.made) != 0 {
		t.Errorf("made %v", w.made)
	}
}

func TestAUserIsReplaced(t *testing.T) {
	w := staffed(t)
	answer := w.want(200, as("manager"), http.MethodPut, "/users/alice", sentBack("alice", `"email":"alice@example.com"`,
		`"email":"new@example.com","lang":"en","password":"Secret-123"`))
	got := w.changes()
	if len(got) != 1 || !strings.HasPrefix(got[0], "PUT "+iamPath+"users"+"/alice {") {
		t.Fatalf("%q", got)
	}
	for _, has := range []string{`"password":"$2a$10$canary"`, "new@example.com", `"finalizers":["f"]`, `"globalrole":"stale"`, "lastLoginTime",
		`"resourceVersion":"5"`} {
		if !strings.Contains(strings.ReplaceAll(got[0], "iam.kubesphere.io/globalrole", "globalrole"), has) {
			t.Errorf("%s is not in %s", has, got[0])
		}
	}
	if strings.Contains(got[0], "Secret-123") || strings.Contains(got[0], "managedFields") || !strings.Contains(answer, "new@example.com") ||
		strings.Contains(answer, "canary") {
		t.Errorf("%s\n%s", got[0], answer)
	}
	for name, c := range map[string]struct {
		path, body string
		code       int
	}{
		"AnotherName":     {"alice", stored("peer"), 400},
		"AnotherUID":      {"alice", sentBack("alice", "uid-alice", "uid-old"), 409},
		"AnOldVersion":    {"alice", sentBack("alice", `"resourceVersion":"5"`, `"resourceVersion":"4"`), 409},
		"AnotherKind":     {"alice", sentBack("alice", `"kind":"User"`, `"kind":"Role"`), 400},
		"BrokenLabels":    {"alice", sentBack("alice", `"finalizers"`, `"labels":{"a":1},"finalizers"`), 400},
		"BrokenSpec":      {"alice", `{"metadata":{"name":"alice"},"spec":[]}`, 400},
		"BrokenState":     {"alice", `{"metadata":{"name":"alice"},"status":{"state":1}}`, 400},
		"NobodyThere":     {"nobody", stored("nobody"), 404},
		"NoRoleOfTheName": {"alice", sentBack("alice", "stale", "none"), 404},
	} {
		t.Run(name, func(t *testing.T) {
			w := staffed(t)
			w.want(c.code, as("manager"), http.MethodPut, "/users/"+c.path, c.body)
			if got := w.changes(); len(got) != 0 {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestTheStateIsChangedByOthers(t *testing.T) {
	off := func(name string) string { return sentBack(name, `"state":"Active"`, `"state":"Disabled"`) }
	w := staffed(t)
	w.want(200, as("manager"), http.MethodPut, "/users/alice", off("alice"))
	if got := w.changes(); len(got) != 1 || !strings.Contains(got[0],
		`"status":{"lastLoginTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-11-21T12:00:00Z","state":"Disabled"}`) {
		t.Errorf("%q", got)
	}
	w.statusApart = true
	w.want(200, as("manager"), http.MethodPut, "/users/alice?dryRun=All", off("alice"))
	if got := w.changes(); len(got) != 3 ||
		got[2] != "PATCH "+iamPath+"users"+`/alice/status?dryRun=All {"metadata":{"uid":"uid-alice"},"status":{"lastTransitionTime":"2026-11-21T12:00:00Z","reason":null,"state":"Disabled"}}` {
		t.Errorf("%q", got)
	}
	w.statusApart = false
	w.want(403, as("alice"), http.MethodPut, "/users/alice", off("alice"))
	w.want(200, as("alice"), http.MethodPut, "/users/alice", sentBack("alice", "", ""))
	w.want(200, as("manager"), http.MethodPut, "/users/alice", sentBack("alice", `"state":"Active"`, `"state":"AuthLimitExceeded"`))
	got := w.changes()
	if last := got[len(got)-1]; !strings.Contains(last, `"state":"Active"`) {
		t.Errorf("a state that is the system's: %s", last)
	}
}

func TestARoleOfThePlatformIsGivenByWhoMay(t *testing.T) { // S6
	const binding = "POST /apis/iam.kubesphere.io/v1beta1/globalrolebindings {"
	w := staffed(t)
	answer := w.want(200, as("admin"), http.MethodPut, "/users/alice", sentBack("alice", "stale", "users-manager"))
	got := w.changes()
	if len(got) != 3 || !strings.HasPrefix(got[0], "PUT ") || !strings.Contains(got[0], `"stale"`) || !strings.HasPrefix(got[1], binding) ||
		!strings.Contains(got[1], `"alice-users-manager"`) ||
		!strings.HasPrefix(got[2], "DELETE "+iamPath+"globalrolebindings/alice-platform-regular ") || !strings.Contains(answer,
		`"iam.kubesphere.io/globalrole":"users-manager"`) {
		t.Errorf("%q %s", got, answer)
	}
	for name, c := range map[string]struct {
		by           user.Info
		method, path string
		body         string
		code         int
	}{
		"Put":      {as("manager"), http.MethodPut, "/users/alice", sentBack("alice", "stale", "platform-admin"), 403},
		"Patch":    {as("manager"), http.MethodPatch, "/users/alice", `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"platform-admin"}}}`, 403},
		"Create":   {as("manager"), http.MethodPost, "/users", `{"metadata":{"name":"alice","annotations":{"iam.kubesphere.io/globalrole":"platform-admin"}}}`, 403},
		"Oneself":  {as("manager"), http.MethodPut, "/users/manager", sentBack("manager", "stale", "platform-regular"), 403},
		"NoRole":   {as("manager"), http.MethodPost, "/users", `{"metadata":{"name":"new","annotations":{"iam.kubesphere.io/globalrole":"none"}}}`, 404},
		"NoString": {as("manager"), http.MethodPost, "/users", `{"metadata":{"name":"new","annotations":{"iam.kubesphere.io/globalrole":1}}}`, 400},
	} {
		t.Run(name, func(t *testing.T) {
			w := staffed(t)
			w.forbidden["create globalrolebindings alice-platform-admin"] = true
			w.want(c.code, c.by, c.method, c.path, c.body)
			if got := w.changes(); len(got) != 0 {
				t.Errorf("%q", got)
			}
		})
	}
	t.Run("WithANewUser", func(t *testing.T) {
		w := staffed(t)
		answer := w.want(200, as("manager"), http.MethodPost, "/users",
			`{"metadata":{"name":"bert","annotations":{"iam.kubesphere.io/globalrole":"platform-regular","x":"y"}},"spec":{"password":"Secret-123"}}`)
		got := w.changes()
		if len(got) != 2 || strings.Contains(got[0], "globalrole") || !strings.HasPrefix(got[1], binding) || !strings.Contains(got[1],
			`"bert-platform-regular"`) || !strings.Contains(answer, "platform-regular") {
			t.Errorf("%q %s", got, answer)
		}
	})
	// ks-controller-manager writes the annotation some time after the binding.
	t.Run("WhileTheAnnotationIsBehind", func(t *testing.T) {
		behind := func() *world {
			w := staffed(t)
			w.live[iamPath+"users/peer"] = strings.Replace(stored("peer"), "stale", "platform-regular", 1) // and bound is users-manager
			return w
		}
		w, ask := behind(), `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"platform-regular"}}}`
		answer := w.want(200, as("admin"), http.MethodPatch, "/users/peer", ask)
		got := w.changes()
		if len(got) != 3 || !strings.HasPrefix(got[1], binding) || !strings.Contains(got[1], `"peer-platform-regular"`) ||
			!strings.HasPrefix(got[2], "PUT "+iamPath+"globalrolebindings/managers ") || strings.Contains(got[2], `"peer"`) || !strings.Contains(answer,
			`"iam.kubesphere.io/globalrole":"platform-regular"`) {
			t.Errorf("what is stored is asked for: %q %s", got, answer)
		}
		w = behind()
		w.want(403, as("peer"), http.MethodPatch, "/users/peer", ask)
		answer = w.want(409, as("admin"), http.MethodPut, "/users/peer", strings.Replace(sentBack("peer", "", ""), "peer@", "new@", 1))
		if got := w.changes(); len(got) != 0 || !strings.Contains(answer, "users-manager") {
			t.Errorf("all that was read is sent back: %q %s", got, answer)
		}
		for _, other := range []string{
			`{"spec":{"lang":"en"}}`, `[{"op":"add","path":"/spec/lang","value":"en"}]`, `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":null}}}`,
			`{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"users-manager"}}}`,
		} {
			w = behind()
			w.want(200, as("admin"), http.MethodPatch, "/users/peer", other)
			if got := w.changes(); len(got) != 1 || !strings.Contains(got[0], `"iam.kubesphere.io/globalrole":"platform-regular"`) {
				t.Errorf("%s: %q", other, got)
			}
		}
	})
	t.Run("OfSeveralRolesOneIsLeft", func(t *testing.T) {
		w := staffed(t, "peer") // who is a users-manager as well
		w.live[iamPath+"users/peer"] = strings.Replace(stored("peer"), "stale", "platform-admin", 1)
		w.want(200, as("admin"), http.MethodPatch, "/users/peer", `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"users-manager"}}}`)
		if got := w.changes(); len(got) != 2 || !strings.HasPrefix(got[1], "DELETE "+iamPath+"globalrolebindings/peer-platform-admin ") {
			t.Errorf("%q", got)
		}
	})
	t.Run("WhatWasReadIsNoWish", func(t *testing.T) {
		w := staffed(t)
		w.want(200, as("manager"), http.MethodPut, "/users/alice", sentBack("alice", "", ""))
		w.want(200, as("manager"), http.MethodPut, "/users/alice", sentBack("alice", "stale", "platform-regular"))
		w.want(200, as("manager"), http.MethodPut, "/users/alice", `{"metadata":{"name":"alice"}}`)
		for _, s := range w.changes() {
			if !strings.HasPrefix(s, "PUT "+iamPath+"users") || !strings.Contains(s, `"stale"`) {
				t.Errorf("%s", s)
			}
		}
	})
}

func TestAUserIsPatched(t *testing.T) {
	for name, c := range map[string]struct {
		by    string
		body  string
		code  int
		has   string
		hasNo string
	}{
		"MergePatch":          {"manager", `{"spec":{"lang":"en"},"metadata":{"annotations":{"a":null}}}`, 200, `"lang":"en"`, `"a":"b"`},
		"AnArray":             {"manager", `[{"op":"add","path":"/spec/lang","value":"en"}]`, 200, `"lang":"en"`, "nothing"},
		"APasswordByAManager": {"manager", `[{"op":"replace","path":"/spec/password","value":"Secret-123"}]`, 200, `"password":"$2a$10$`, "canary"},
		"AWeakPassword":       {"manager", `{"spec":{"password":"weak"}}`, 400, "", ""},
		"OnesOwnPassword":     {"alice", `{"spec":{"password":"Secret-123"}}`, 400, "", ""},
		"ATestOfThePassword":  {"manager", `[{"op":"test","path":"/spec/password","value":"$2a$10$canary"}]`, 400, "", ""},
		"AMoveOfThePassword": {"manager", `[{"op":"move","from":"/spec/password","path":"/spec/description"}]`, 200, `"password":"$2a$10$canary"`,
			`"description":"$2a`},
		"ACopy": {"manager", `[{"op":"copy","from":"/spec","path":"/status"}]`, 400, "", ""},
		"TooManyOperations": {"manager", "[" + strings.Repeat(`{"op":"add","path":"/spec/lang","value":"en"},`, 100) +
			`{"op":"add","path":"/spec/lang","value":"en"}]`, 400, "", ""},
		"AnotherName":           {"manager", `{"metadata":{"name":"x"}}`, 400, "", ""},
		"AnotherUID":            {"manager", `{"metadata":{"uid":"x","ownerReferences":[{}]}}`, 200, `"uid":"uid-alice"`, "ownerReferences"},
		"NoUser":                {"manager", `null`, 400, "", ""},
		"Nothing":               {"manager", ``, 400, "", ""},
		"Text":                  {"manager", `x`, 400, "", ""},
		"TheLastLogin":          {"manager", `{"status":{"lastLoginTime":"x"}}`, 200, `"lastLoginTime":"2026-01-01T00:00:00Z"`, "nothing"},
		"Disabled":              {"manager", `{"status":{"state":"Disabled"}}`, 200, `"state":"Disabled"`, "nothing"},
		"OnesOwnDisabled":       {"alice", `{"status":{"state":"Disabled"}}`, 403, "", ""},
		"ThePasswordIsNotTaken": {"manager", `[{"op":"remove","path":"/spec/password"}]`, 200, `"password":"$2a$10$canary"`, "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := staffed(t)
			answer := w.want(c.code, as(c.by), http.MethodPatch, "/users/alice", c.body)
			got := w.changes()
			if c.code != 200 {
				if len(got) != 0 {
					t.Errorf("%q", got)
				}
				return
			}
			if len(got) != 1 || !strings.Contains(got[0], c.has) || strings.Contains(got[0], c.hasNo) || strings.Contains(answer, "$2a") {
				t.Errorf("%q %s", got, answer)
			}
		})
	}
	t.Run("OfWhatItHasBecomeMeanwhile", func(t *testing.T) {
		w := staffed(t)
		w.fails["PUT "+iamPath+"users"+"/alice"] = []int{409, 409}
		w.want(200, as("manager"), http.MethodPatch, "/users/alice", `{"spec":{"lang":"en"}}`)
		if got := w.changes(); len(got) != 3 {
			t.Errorf("%q", got)
		}
		w.fails["PUT "+iamPath+"users"+"/alice"] = []int{409, 409, 409, 409, 409}
		w.want(409, as("manager"), http.MethodPatch, "/users/alice", `{"spec":{"lang":"en"}}`)
	})
	t.Run("WhatKubectlAppliedIsNotShown", func(t *testing.T) { // S3
		const given = `"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"password\":\"$2a$10$canary\"}}"`
		for _, body := range []string{
			`{"spec":{"lang":"en"}}`, `[{"op":"move","from":"/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration","path":"/metadata/annotations/x"}]`,
		} {
			w := staffed(t)
			w.live[iamPath+"users"+"/alice"] = strings.Replace(stored("alice"), `"a":"b"`, `"a":"b",`+given, 1)
			answer := w.want(200, as("manager"), http.MethodPatch, "/users/alice", body)
			if got := w.changes(); len(got) != 1 || strings.Count(got[0], "canary") != 1 || strings.Contains(answer, "canary") {
				t.Errorf("%q %s", got, answer)
			}
		}
	})
	t.Run("OfAUserMadeAnew", func(t *testing.T) {
		w := staffed(t)
		w.live[iamPath+"users"+"/alice"] = strings.Replace(stored("alice"), "uid-alice", "uid-new", 1)
		w.want(404, as("manager"), http.MethodPatch, "/users/alice", `{"spec":{"lang":"en"}}`)
	})
}

// Which users can't be removed, and that users can't delete their own account, is decided by admission.Guard, before anything is written.
func TestTheGuardSaysWhoStays(t *testing.T) { // S72
	for name, c := range map[string]struct{ method, body, refused string }{
		"Delete":  {http.MethodDelete, "", "delete users admin"},
		"Disable": {http.MethodPatch, `{"status":{"state":"Disabled"}}`, "update users admin"},
		"AnotherRole": {http.MethodPatch, `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"platform-regular"}}}`,
			"delete globalrolebindings admin-platform-admin"},
	} {
		t.Run(name, func(t *testing.T) {
			w := staffed(t)
			w.h.Rights = all{w.h.Rights}
			w.forbidden = map[string]bool{c.refused: true}
			w.want(403, as("second"), c.method, "/users/admin", c.body)
			if got := w.changes(); len(got) != 0 {
				t.Errorf("%q", got)
			}
			w.forbidden = nil
			if w.want(200, as("second"), c.method, "/users/admin?dryRun=All", c.body); len(w.told) != 0 {
				t.Errorf("a dry run made %q", w.told)
			}
			if w.want(200, as("second"), c.method, "/users/admin", c.body); !slices.Contains(w.told, c.refused) {
				t.Errorf("the guard was told of %q", w.told)
			}
		})
	}
	w := staffed(t)
	w.h.Rights = all{w.h.Rights}
	w.fails["DELETE "+iamPath+"users/admin"] = []int{http.StatusForbidden}
	if w.want(403, as("second"), http.MethodDelete, "/users/admin", ""); len(w.changes()) != 1 || len(w.told) != 0 {
		t.Errorf("kube-apiserver refuses %q, and the guard is told of %q", w.changes(), w.told)
	}
	w = staffed(t)
	w.want(405, as("second"), http.MethodDelete, "/users", "")
	w.want(405, as("second"), http.MethodPatch, "/users/admin/status", `{"status":{"state":"Disabled"}}`)
	w.want(405, as("second"), http.MethodPut, "/users/admin/status", stored("admin"))
	if got := w.changes(); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// all are rights of callers who lack nothing.
type all struct{ allRights }

func (all) MissingOf(user.Info, authz.BindingScope, authz.RoleRef) (none []rbacv1.PolicyRule, found bool) {
	return nil, true
}

// A name that is no value of a label is one of before names were bounded, and on no record.
func TestLoginRecordsAreThoseOfTheUser(t *testing.T) {
	long := strings.Repeat("a", 64)
	o := objects{}
	o.user("ann")
	o.user(long)
	for name, labels := range map[string]map[string]string{
		"ann-1": {"iam.kubesphere.io/user-ref": "ann"}, "bob-1": {"iam.kubesphere.io/user-ref": "bob"}, "of-nobody": nil,
	} {
		o.add(iamPath+"loginrecords", "", name, labels, nil)
	}
	w := newWorld(t).within(o)
	for of, want := range map[string]string{
		"/users/ann/loginrecords": "ann-1", "/users/" + long + "/loginrecords": "",
		"/users/" + long + "/loginrecords?labelSelector=iam.kubesphere.io/user-ref%3Dann": "",
	} {
		var got []string
		for _, record := range w.members(of).Items {
			got = append(got, record.Metadata.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", of, got, want)
		}
	}
}
