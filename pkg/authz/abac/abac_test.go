package abac

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
)

func policy(spec string) string {
	return `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{` + spec + `}}`
}

// one returns an authorizer of one policy; the namespace shop is in the workspace a.
func one(t testing.TB, spec string) *Authorizer {
	t.Helper()
	a, err := parse([]byte(policy(spec)))
	if err != nil {
		t.Fatal(err)
	}
	a.WorkspaceOf = func(namespace string) string {
		if namespace == "shop" {
			return "a"
		}
		return ""
	}
	return a
}

func TestPolicies(t *testing.T) {
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{"ops", user.AllAuthenticated}}
	anon := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	const pods = "/api/v1/namespaces/shop/pods"
	for _, c := range []struct {
		claim, spec string
		u           user.Info
		method, at  string
		want        bool
	}{
		{"AUserByName", `"user":"ann","resource":"*","apiGroup":"*","namespace":"*"`, ann, "DELETE", pods + "/web", true},
		{"NotAnother", `"user":"bob","resource":"*","apiGroup":"*","namespace":"*"`, ann, "GET", pods, false},
		{"AGroup", `"group":"ops","resource":"pods","namespace":"shop"`, ann, "GET", pods, true},
		{"NotAnotherGroup", `"group":"dev","resource":"pods","namespace":"shop"`, ann, "GET", pods, false},
		{"UserAndGroupBothCount", `"user":"ann","group":"dev","resource":"pods","namespace":"shop"`, ann, "GET", pods, false},
		{"EverybodyIsLoggedIn", `"user":"*","resource":"pods","namespace":"shop"`, ann, "GET", pods, true},
		{"NobodyElseIsEverybody", `"user":"*","resource":"pods","namespace":"shop"`, anon, "GET", pods, false},
		{"NorAllGroups", `"group":"*","resource":"pods","namespace":"shop"`, anon, "GET", pods, false},
		{"AnonymousByNameOnly", `"user":"system:anonymous","resource":"pods","namespace":"shop"`, anon, "GET", pods, true},
		{"ReadonlyReads", `"user":"ann","resource":"pods","namespace":"shop","readonly":true`, ann, "GET", pods + "?watch=true", true},
		{"ReadonlyWritesNot", `"user":"ann","resource":"pods","namespace":"shop","readonly":true`, ann, "POST", pods, false},
		{"ANamespaceIsThatOne", `"user":"ann","resource":"pods","namespace":"other"`, ann, "GET", pods, false},
		{"NoNamespaceIsNotAll", `"user":"ann","resource":"pods"`, ann, "GET", pods, false},
		{"NoNamespaceIsTheCluster", `"user":"ann","resource":"nodes"`, ann, "GET", "/api/v1/nodes", true},
		{"AllNamespacesAndTheCluster", `"user":"ann","resource":"nodes","namespace":"*"`, ann, "GET", "/api/v1/nodes", true},
		{"NoGroupIsTheCoreGroup", `"user":"ann","resource":"deployments","namespace":"shop"`, ann, "GET", "/apis/apps/v1/namespaces/shop/deployments", false},
		{"TheGroupCounts", `"user":"ann","resource":"deployments","namespace":"shop","apiGroup":"apps"`, ann, "GET", "/apis/apps/v1/namespaces/shop/deployments",
			true},
		{"NotOfAnotherGroup", `"user":"ann","resource":"deployments","namespace":"shop","apiGroup":"apps"`, ann, "GET",
			"/apis/x.example.com/v1/namespaces/shop/deployments", false},
		{"AResourceIsNotItsSubresource", `"user":"ann","resource":"pods","namespace":"shop"`, ann, "GET", pods + "/web/exec", false},
		{"ASubresourceByName", `"user":"ann","resource":"pods/log","namespace":"shop"`, ann, "GET", pods + "/web/log", true},
		{"NotTheResourceOfIt", `"user":"ann","resource":"pods/log","namespace":"shop"`, ann, "GET", pods + "/web", false},
		{"AllSubresources", `"user":"ann","resource":"pods/*","namespace":"shop"`, ann, "GET", pods + "/web/log", true},
		{"OneSubresourceOfAll", `"user":"ann","resource":"*/scale","apiGroup":"apps","namespace":"shop"`, ann, "GET",
			"/apis/apps/v1/namespaces/shop/deployments/web/scale", true},
		{"EverythingWithSubresources", `"user":"ann","resource":"*","namespace":"shop"`, ann, "GET", pods + "/web/log", true},
		{"AWorkspaceHasItsNamespaces", `"user":"ann","resource":"*","apiGroup":"*","namespace":"*","workspace":"a"`, ann, "GET", pods, true},
		{"AWorkspaceItself", `"user":"ann","resource":"*","apiGroup":"*","namespace":"*","workspace":"a"`, ann, "GET",
			"/kapis/iam.kubesphere.io/v1beta1/workspaces/a/workspacemembers", true},
		{"NotAnotherWorkspace", `"user":"ann","resource":"*","apiGroup":"*","namespace":"*","workspace":"a"`, ann, "GET",
			"/kapis/iam.kubesphere.io/v1beta1/workspaces/b/workspacemembers", false},
		{"NotANamespaceOfNoWorkspace", `"user":"ann","resource":"*","apiGroup":"*","namespace":"*","workspace":"a"`, ann, "GET", "/api/v1/namespaces/other/pods",
			false},
		{"NotTheClusterForAWorkspace", `"user":"ann","resource":"*","apiGroup":"*","namespace":"*","workspace":"a"`, ann, "GET", "/api/v1/pods", false},
		{"APath", `"user":"ann","nonResourcePath":"/metrics"`, ann, "GET", "/metrics", true},
		{"NotAnotherPath", `"user":"ann","nonResourcePath":"/metrics"`, ann, "GET", "/metrics/slis", false},
		{"PathsThatBeginSo", `"user":"ann","nonResourcePath":"/metrics/*"`, ann, "GET", "/metrics/slis", true},
		{"APathReadonlyIsGet", `"user":"ann","nonResourcePath":"*","readonly":true`, ann, "POST", "/metrics", false},
		{"APathIsNoResource", `"user":"ann","nonResourcePath":"*"`, ann, "GET", pods, false},
		{"AResourceIsNoPath", `"user":"ann","resource":"*","apiGroup":"*","namespace":"*"`, ann, "GET", "/metrics", false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			d, err := one(t, c.spec).Authorize(t.Context(), c.u, requesttest.Info(t, c.method, c.at))
			if err != nil || d.Allowed() != c.want || d.Denied() || d.Group != "" || d.PartialList() != nil {
				t.Errorf("%+v, %v", d, err)
			}
			if d.Allowed() && d.Reason != "allowed by the policy in line 1 of the file of the mode ABAC" {
				t.Error(d.Reason)
			}
		})
	}
}

// S10: empty values match nothing.
func TestEmptyQuestionsAreRefused(t *testing.T) {
	a := one(t, `"user":"*","resource":"*","apiGroup":"*","namespace":"*","nonResourcePath":"*"`)
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}}
	for claim, c := range map[string]struct {
		u user.Info
		r *request.Info
	}{
		"NoUser": {nil, requesttest.Info(t, "GET", "/api/v1/pods")}, "NoName": {&user.DefaultInfo{Groups: ann.Groups}, requesttest.Info(t, "GET", "/api/v1/pods")},
		"NoRequest": {ann, nil}, "NoVerb": {ann, &request.Info{Path: "/x"}}, "NoResource": {ann, &request.Info{Verb: "get", IsResource: true}},
	} {
		if d, err := a.Authorize(t.Context(), c.u, c.r); err != nil || d.Allowed() {
			t.Errorf("%s: %+v, %v", claim, d, err)
		}
	}
}

func TestBadFilesAreRefusedByLine(t *testing.T) {
	good := policy(`"user":"ann","resource":"pods"`)
	for claim, c := range map[string]struct{ text, want string }{
		"NoJSON":                {good + "\n\nuser: ann", "line 3: it is not a JSON object"},
		"TwoInALine":            {good + good, "line 1: it is not a JSON object"},
		"AnUnknownField":        {"# comment\n" + policy(`"user":"ann","resource":"pods","namspace":"x"`), `line 2: unknown field "spec.namspace"`},
		"AFieldInOtherCase":     {policy(`"User":"ann","resource":"pods"`), `unknown field "spec.User"`},
		"AFieldTwice":           {policy(`"user":"ann","user":"bob","resource":"pods"`), `duplicate field "spec.user"`},
		"AnotherType":           {policy(`"user":["ann"],"resource":"pods"`), "line 1: it is not a JSON object"},
		"AnotherVersion":        {strings.Replace(good, "v1beta1", "v0", 1), "line 1: it is not a Policy of abac.authorization.kubernetes.io/v1beta1"},
		"AnotherKind":           {strings.Replace(good, "Policy", "Role", 1), "line 1: it is not a Policy"},
		"Null":                  {"null", "line 1: it is not a Policy"},
		"Nobody":                {policy(`"resource":"pods"`), "spec.user or spec.group is missing"},
		"Nothing":               {policy(`"user":"ann"`), "spec.resource or spec.nonResourcePath is missing"},
		"ANamespaceOfPaths":     {policy(`"user":"ann","nonResourcePath":"*","namespace":"x"`), "spec.resource is missing, although"},
		"APatternOfNames":       {policy(`"user":"ann","resource":"pods","namespace":"shop-*"`), `spec.namespace: "shop-*": a * stands for everything`},
		"APatternOfResources":   {policy(`"user":"ann","resource":"pods/l*"`), `spec.resource: "l*"`},
		"AStarWithinAPath":      {policy(`"user":"ann","nonResourcePath":"/a*/b"`), `spec.nonResourcePath: "/a*/b": a * comes at the end`},
		"TooManyPolicies":       {strings.Repeat(good+"\n", maxPolicies+1), "line 2001: there are more than 2000 policies"},
		"TooLong":               {strings.Repeat("#", maxFile+1), "more than 1048576 bytes"},
		"APolicyOverManyLines":  {strings.ReplaceAll(good, ",", ",\n"), "line 1: it is not a JSON object"},
		"ANameThatIsNotInASpec": {`{"apiVersion":"` + apiVersion + `","kind":"Policy","user":"ann","resource":"*"}`, `unknown field "user"`},
	} {
		t.Run(claim, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "policies.jsonl")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(file)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "mode ABAC") {
		t.Errorf("%v", err)
	}
}

func TestAFileAllowsNothingByItself(t *testing.T) {
	a, err := parse([]byte("\n# nothing\n"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Authorize(t.Context(), &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}}, requesttest.Info(t, "GET", "/api/v1/pods"))
	if err != nil || d.Allowed() || d.Denied() {
		t.Errorf("%+v, %v", d, err)
	}
}

// A file that can be read allows no user who is not named in it, and nothing to anonymous callers by a "*".
func FuzzParse(f *testing.F) {
	f.Add([]byte(policy(`"user":"*","resource":"*","apiGroup":"*","namespace":"*"`)))
	f.Add([]byte(policy(`"group":"ops","nonResourcePath":"/*","readonly":true`)))
	f.Add([]byte("# x\n\n" + policy(`"user":"ann","resource":"*/log","workspace":"a"`)))
	f.Add([]byte("{\"spec\":null}"))
	stranger := &user.DefaultInfo{Name: "\x00nobody", Groups: []string{"\x00none"}}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := parse(text)
		if err != nil {
			return
		}
		if lines := bytes.Count(text, []byte("\n")) + 1; len(a.policies) > lines {
			t.Errorf("%d policies of %d lines", len(a.policies), lines)
		}
		for _, r := range []*request.Info{{Verb: "get", Resource: "pods", IsResource: true}, {Verb: "get", Path: "/metrics"}} {
			if d, err := a.Authorize(t.Context(), stranger, r); err != nil || d.Allowed() || d.Denied() {
				t.Errorf("%+v, %v", d, err)
			}
		}
	})
}

func BenchmarkAThousandPolicies(b *testing.B) {
	a, err := parse([]byte(strings.Repeat(policy(`"user":"bob","resource":"pods","namespace":"shop"`)+"\n", 1000)))
	if err != nil {
		b.Fatal(err)
	}
	ann, r := &user.DefaultInfo{Name: "ann", Groups: []string{"ops", user.AllAuthenticated}}, requesttest.Info(b, "GET", "/api/v1/namespaces/shop/pods")
	b.ReportAllocs()
	for b.Loop() {
		if d, _ := a.Authorize(b.Context(), ann, r); d.Allowed() {
			b.Fatal("allowed")
		}
	}
}

// S6: a policy for a group of an identity provider is not for a Group that a workspace has made with that name.
func TestAGroupOfAWorkspaceIsNotThatOfAPolicy(t *testing.T) {
	a := one(t, `"group":"sre","resource":"*","apiGroup":"*","namespace":"*"`)
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{"sre", user.AllAuthenticated}}
	allows := func() bool {
		d, err := a.Authorize(t.Context(), ann, requesttest.Info(t, "GET", "/api/v1/namespaces/shop/pods"))
		return d.Allowed() && err == nil
	}
	if !allows() {
		t.Error("all groups count where none is told from others")
	}
	if a.GroupsOf = func(user.Info) []string { return []string{user.AllAuthenticated} }; allows() {
		t.Error("the policy is for the Group of a workspace")
	}
}
