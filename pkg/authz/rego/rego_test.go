package rego_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz/rego"
	"kapis.dev/ks-apiserver/pkg/request"
)

const (
	maxLength = 16 << 10 // bytes that a policy may have
	maxDepth  = 50       // brackets that may be open at once
)

// self is the policy that existing installations have in a role for every user who is logged in, in our own words.
const self = `package authz

default allow = false

read := ["get", "list", "watch"]

allow {
	input.Resource == "users"
	input.Name == input.User.Name
}

allow {
	own_memberships[input.Resource]
	input.Name == input.User.Name
	input.Verb == read[_]
}

own_memberships = {"clustermembers", "workspacemembers", "namespacemembers"}

allow {
	not input.ResourceRequest
	input.Verb == "get"
	input.Path == ["/api", "/api/v1"][_]
}

allow {
	input.APIGroup == "tenant.kubesphere.io"
	input.KubernetesRequest == false
	input.Verb == read[_]
}

allow {
	input.Resource == "pods"
	input.Subresource == "exec"
	input.Name == concat("-", ["managed-kubectl", input.User.Name])
}
`

// scopes is the policy of the platform's administrators.
const scopes = `package authz

default allow = false

allow {
	scopes := {"Workspace", "Namespace", "Cluster"}
	scopes[input.ResourceScope]
}
`

func compile(t testing.TB, text string) *rego.Policy {
	t.Helper()
	p, err := rego.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func allows(t testing.TB, p *rego.Policy, u user.Info, r *request.Info) bool {
	t.Helper()
	ok, err := p.Allows(t.Context(), u, r)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestPoliciesOfExistingInstallations(t *testing.T) {
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}}
	everybody, admins := compile(t, self), compile(t, scopes)
	iam := func(verb, resource, name string) *request.Info {
		return &request.Info{Verb: verb, APIPrefix: "kapis", APIGroup: "iam.kubesphere.io", APIVersion: "v1beta1", Resource: resource, Name: name, IsResource: true}
	}
	for name, tc := range map[string]struct {
		policy *rego.Policy
		r      *request.Info
		want   bool
	}{
		"OwnUserIsRead":    {everybody, iam("get", "users", "ann"), true},
		"OwnUserIsWritten": {everybody, iam("update", "users", "ann"), true},
		"OwnUserInAnyGroup": {everybody, &request.Info{Verb: "patch", APIPrefix: "apis", APIGroup: "x.example.com", Resource: "users", Name: "ann",
			IsResource: true}, true},
		"OtherUserIsNot":            {everybody, iam("get", "users", "bob"), false},
		"UsersAreNotListed":         {everybody, iam("list", "users", ""), false},
		"OwnMembershipIsRead":       {everybody, iam("get", "workspacemembers", "ann"), true},
		"OwnMembershipIsNotWritten": {everybody, iam("delete", "workspacemembers", "ann"), false},
		"VersionsAreRead":           {everybody, &request.Info{Verb: "get", Path: "/api/v1", IsKubernetes: true}, true},
		"OtherPathsAreNot":          {everybody, &request.Info{Verb: "get", Path: "/metrics"}, false},
		"TenantIsRead":              {everybody, &request.Info{Verb: "list", APIGroup: "tenant.kubesphere.io", Resource: "workspaces", IsResource: true}, true},
		"TenantIsNotWritten":        {everybody, &request.Info{Verb: "create", APIGroup: "tenant.kubesphere.io", Resource: "workspaces", IsResource: true}, false},
		"OwnTerminal": {everybody, &request.Info{Verb: "create", Resource: "pods", Subresource: "exec", Name: "managed-kubectl-ann", IsResource: true},
			true},
		"OtherTerminal": {everybody, &request.Info{Verb: "create", Resource: "pods", Subresource: "exec", Name: "managed-kubectl-bob", IsResource: true},
			false},
		"AdminInAWorkspace":         {admins, &request.Info{Verb: "delete", Resource: "workspacetemplates", IsResource: true, Scope: request.Workspace}, true},
		"AdminInANamespace":         {admins, &request.Info{Verb: "delete", Resource: "pods", IsResource: true, Scope: request.Namespace}, true},
		"AdminInTheCluster":         {admins, &request.Info{Verb: "delete", Resource: "nodes", IsResource: true, Scope: request.Cluster}, true},
		"AdminOfThePlatformByRules": {admins, iam("delete", "users", "bob"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := allows(t, tc.policy, ann, tc.r); got != tc.want {
				t.Errorf("allowed = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestInputHasEveryField(t *testing.T) {
	p := compile(t, `package authz
allow {
	input == {
		"User": {"Name": "ann", "UID": "7", "Groups": ["a", "b"], "Extra": {"k": ["v"]}},
		"Verb": "get", "Cluster": "c", "Workspace": "w", "Namespace": "n", "APIGroup": "g", "APIVersion": "v1",
		"Resource": "r", "Subresource": "s", "Name": "x", "KubernetesRequest": true, "ResourceRequest": true,
		"Path": "/p", "ResourceScope": "Namespace",
	}
}`)
	u := &user.DefaultInfo{Name: "ann", UID: "7", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"v"}}}
	r := &request.Info{
		Verb: "get", Cluster: "c", Workspace: "w", Namespace: "n", APIGroup: "g", APIVersion: "v1", Resource: "r", Subresource: "s", Name: "x",
		IsKubernetes: true, IsResource: true, Path: "/p", Scope: request.Namespace,
	}
	if !allows(t, p, u, r) {
		t.Error("the input differs")
	}
}

func TestScopesHaveTheirNames(t *testing.T) {
	for scope, name := range map[request.Scope]string{
		request.Global: "Global", request.Cluster: "Cluster", request.Workspace: "Workspace", request.Namespace: "Namespace",
	} {
		p := compile(t, `package authz
allow { input.ResourceScope == "`+name+`" }`)
		if !allows(t, p, &user.DefaultInfo{Name: "ann"}, &request.Info{Verb: "get", Path: "/", Scope: scope}) {
			t.Errorf("scope %d is not %s", scope, name)
		}
	}
}

func TestOnlyTrueAllows(t *testing.T) {
	for name, text := range map[string]string{
		"False":     "package authz\nallow = false",
		"Undefined": "package authz\nallow { input.Verb == \"no\" }",
		"Data":      "package authz\nallow { data.users[_] == \"ann\" }",
		"Runtime":   "package authz\nallow { data.system.environment }",
	} {
		t.Run(name, func(t *testing.T) {
			if allows(t, compile(t, text), &user.DefaultInfo{Name: "ann"}, &request.Info{Verb: "get", Path: "/"}) {
				t.Error("it allows")
			}
		})
	}
}

func TestVersionOneIsUnderstood(t *testing.T) {
	p := compile(t, "package authz\nimport rego.v1\nallow if { input.Verb in {\"get\"}\nevery g in input.User.Groups { g != \"x\" } }")
	if !allows(t, p, &user.DefaultInfo{Name: "ann", Groups: []string{"a"}}, &request.Info{Verb: "get", Path: "/"}) {
		t.Error("it does not allow")
	}
}

func TestPoliciesThatAreNotCompiled(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"OfAnotherPackage":  {"package other\nallow = true", `"authz"`},
		"OfANestedPackage":  {"package authz.more\nallow = true", `"authz"`},
		"WithoutAllow":      {"package authz\ndeny = true", `"allow"`},
		"WithAllowBelow":    {"package authz\nallow.x = true", `"allow"`},
		"OfBrokenText":      {"package authz\nallow {", "compile the policy"},
		"Empty":             {"", "compile the policy"},
		"LongerThanAllowed": {"package authz\nallow = true\n#" + strings.Repeat("x", maxLength), "longer than"},
		"OverTheNetwork":    {"package authz\nallow { http.send({\"method\": \"get\", \"url\": \"http://127.0.0.1\"}).status_code == 200 }", "http.send"},
		"AskingNames":       {"package authz\nallow { net.lookup_ip_addr(\"example.com\")[_] }", "net.lookup_ip_addr"},
		"OfTheProcess":      {"package authz\nallow { opa.runtime().env.HOME }", "opa.runtime"},
		"OfKeys":            {"package authz\nallow { io.jwt.decode(input.Name) }", "io.jwt.decode"},
		"OfSchemas":         {"package authz\nallow { json.match_schema({}, {\"$ref\": \"http://127.0.0.1\"})[0] }", "json.match_schema"},
		"ThatRecur":         {"package authz\nallow { b }\nb { allow }", "recursive"},
		"OfATextForTrue":    {"package authz\nallow = \"true\"", "boolean"},
		"OfASet":            {"package authz\nallow[x] { x := true }", "boolean"},
		"Hidden":            {"package authz\nallow { count(input.Verb) with count as http.send }", "with"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := rego.Compile(tc.text)
			if err == nil || p != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one with %s", err, tc.want)
			}
		})
	}
}

func TestDeepTextsAreRefused(t *testing.T) {
	nest := func(n int, open, end string) string {
		return "package authz\nallow { x := " + strings.Repeat(open, n) + "1" + strings.Repeat(end, n) + " }"
	}
	for name, tc := range map[string]struct {
		text string
		ok   bool
	}{
		"AsDeepAsAllowed":       {nest(maxDepth-1, "[", "]"), true},
		"Deeper":                {nest(maxDepth, "[", "]"), false},
		"Deepest":               {nest(maxLength/2-40, "[", "]"), false},
		"OfBraces":              {nest(maxLength/4-40, "{1:", "}"), false},
		"OfParentheses":         {nest(maxDepth, "(", ")"), false},
		"BehindClosingTexts":    {nest(maxDepth, `["]", `, "]"), false},
		"BehindRawClosingTexts": {nest(maxDepth, "[`]`, ", "]"), false},
		"BehindClosingComments": {nest(maxDepth, "[ # ]]]\n", "]"), false},
		"BehindEscapedQuotes":   {nest(maxDepth, `["\"]", `, "]"), false},
		"OfTextsOnly":           {"package authz\nallow { x := `" + strings.Repeat("[", 2*maxDepth) + "` }", true},
		"OfCommentsOnly":        {"package authz # " + strings.Repeat("[", 2*maxDepth) + "\nallow = true", true},
		"LongSums":              {"package authz\nallow { x := " + strings.Repeat("1+", 1000) + "1 }", true},
		"LongAlternatives":      {"package authz\nallow { false } " + strings.Repeat("else = false { 1 } ", maxLength/20-40), true},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := rego.Compile(tc.text)
			if (err == nil) != tc.ok {
				t.Fatalf("error = %v, want none: %v", err, tc.ok)
			}
			if p != nil {
				_, _ = p.Allows(t.Context(), &user.DefaultInfo{Name: "ann"}, &request.Info{Verb: "get", Path: "/"})
			}
		})
	}
}

// loop tries more combinations than there is time for.
const loop = `package authz
allow {
	n := numbers.range(1, 1000)
	n[a] + n[b] + n[c] == 4000
}`

func TestAnEvaluationHasAnEnd(t *testing.T) {
	for name, text := range map[string]string{
		"OfSteps":         loop,
		"OfComprehension": "package authz\nallow { n := numbers.range(1, 1000); count([1 | n[_]; n[_]; n[_]]) == 7 }",
	} {
		t.Run(name, func(t *testing.T) {
			ok, err := compile(t, text).Allows(t.Context(), &user.DefaultInfo{Name: "ann"}, &request.Info{Verb: "get", Path: "/"})
			if ok || err == nil || !strings.Contains(err.Error(), "steps") {
				t.Errorf("allowed = %v, error = %v, want one about steps", ok, err)
			}
		})
	}
}

func TestAnEvaluationEndsWithItsRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ok, err := compile(
		t,
		"package authz\nallow { c := input.Verb; n := \"abcdefgh\"; a := split(n, \"\"); a[_] != a[_]; a[_] != a[_]; a[_] != a[_]; a[_] == \"x\" }",
	).Allows(ctx, &user.DefaultInfo{Name: "ann"}, &request.Info{Verb: "get", Path: "/"})
	if ok || err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("allowed = %v, error = %v, want that of the context", ok, err)
	}
}

func TestConflictingRulesAreAnError(t *testing.T) {
	ok, err := compile(t, "package authz\nallow = true { input.Verb }\nallow = false { input.Path }").
		Allows(t.Context(), &user.DefaultInfo{Name: "ann"}, &request.Info{Verb: "get", Path: "/"})
	if ok || err == nil {
		t.Errorf("allowed = %v, error = %v", ok, err)
	}
}

func FuzzCompile(f *testing.F) {
	for _, text := range []string{self, scopes, loop, "package authz\nallow = true", "package authz\nimport rego.v1\nallow if true"} {
		f.Add(text)
	}
	u, r := &user.DefaultInfo{Name: "ann"}, &request.Info{Verb: "get", Path: "/"}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := rego.Compile(text)
		if (p == nil) == (err == nil) {
			t.Fatalf("policy %v, error %v", p, err)
		}
		if p == nil {
			return
		}
		if ok, err := p.Allows(t.Context(), u, r); ok && err != nil {
			t.Fatalf("allowed with the error %v", err)
		}
	})
}

func BenchmarkAllows(b *testing.B) {
	p := compile(b, self)
	u, r := &user.DefaultInfo{
		Name:   "ann",
		Groups: []string{user.AllAuthenticated},
	}, &request.Info{
		Verb:       "list",
		APIGroup:   "apps",
		Resource:   "deployments",
		IsResource: true,
	}
	b.ReportAllocs()
	for b.Loop() {
		allows(b, p, u, r)
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		compile(b, self)
	}
}
