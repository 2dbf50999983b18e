package authz

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

var (
	anonymous = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	bob       = &user.DefaultInfo{Name: "bob", Groups: []string{user.AllAuthenticated}}
)

func answer(d Decision, err error) Authorizer {
	return Func(func(context.Context, user.Info, *request.Info) (Decision, error) { return d, err })
}

func parse(t testing.TB, method, target string) *request.Info {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	i, err := request.Parse(&http.Request{Method: method, URL: u})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestUnion(t *testing.T) {
	yes, failure := Allow("yes", "g"), errors.New("no connection")
	for _, c := range []struct {
		claim string
		in    []Authorizer
		want  Decision
		err   error
	}{
		{"NobodyAllows", nil, Decision{}, nil},
		{"OneAllows", []Authorizer{answer(Decision{}, nil), answer(yes, nil)}, yes, nil},
		{"TheFirstThatAllowsCounts", []Authorizer{answer(yes, nil), answer(Allow("", "other"), nil)}, yes, nil},
		{"AnErrorAllowsNothing", []Authorizer{answer(yes, failure)}, Decision{}, failure},
		{"AnErrorForbidsNothing", []Authorizer{answer(Decision{}, failure), answer(yes, nil)}, yes, nil},
		{"AReasonIsKept", []Authorizer{answer(Decision{Reason: "because"}, nil), answer(Decision{}, nil)}, Decision{Reason: "because"}, nil},
		{"ARefusalAssertsNoGroup", []Authorizer{answer(Decision{Reason: "because", Group: "g"}, nil)}, Decision{Reason: "because"}, nil},
		{"AlwaysDeny", []Authorizer{AlwaysDeny()}, Deny("the authorization mode is AlwaysDeny"), nil},
		{"AlwaysAllowAssertsNoGroup", []Authorizer{AlwaysAllow()}, Allow("the authorization mode is AlwaysAllow", ""), nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			d, err := Union(c.in).Authorize(t.Context(), bob, &request.Info{})
			if d != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %+v, %v", d, err)
			}
		})
	}
}

// S54: these paths are open without a login, and no others.
func TestDefaultPaths(t *testing.T) {
	const (
		nobody   = iota // not even a user who is logged in
		loggedIn        // not anonymous callers
		everyone
	)
	p := Paths(DefaultPaths())
	for _, c := range []struct {
		method, target string
		open           int
	}{
		{"POST", "/oauth/token", everyone},
		{"POST", "/clusters/host/oauth/token", everyone},
		{"GET", "/oauth/token", everyone}, // answered with 405
		{"GET", "/oauth/userinfo", everyone},
		{"POST", "/oauth/userinfo", everyone},
		{"PUT", "/oauth/userinfo", nobody},
		{"GET", "/oauth/keys", everyone},
		{"HEAD", "/oauth/keys", everyone},
		{"POST", "/oauth/keys", nobody},
		{"GET", "/oauth/logout", everyone},
		{"POST", "/oauth/logout", everyone},
		{"GET", "/oauth/anything", nobody},
		{"GET", "/oauth", nobody},
		{"GET", "/oauth/token/x", nobody},
		{"GET", "/.well-known/openid-configuration", everyone},
		{"GET", "/.well-known/oauth-authorization-server", everyone},
		{"GET", "/.well-known/x", nobody},
		{"GET", "/version", everyone},
		{"GET", "/version/", everyone},
		{"GET", "/versions", nobody},
		{"DELETE", "/version", nobody},
		{"GET", "/healthz", everyone},
		{"GET", "/healthz/ping", everyone},
		{"GET", "/healthzz", nobody},
		{"GET", "/livez/ping", everyone},
		{"GET", "/readyz", everyone},
		{"GET", "/readyz/a/b", everyone},
		{"POST", "/readyz", nobody},
		{"GET", "/metrics", nobody}, // it counts what there is: a role decides
		{"GET", "/metrics/slis", nobody},
		{"GET", "/openapi/v2", loggedIn},
		{"GET", "/openapi/v3", loggedIn},
		{"GET", "/openapi/v3/apis/apps/v1", loggedIn},
		{"GET", "/openapi/v2/x", nobody},
		{"GET", "/", nobody},
		{"GET", "/api", nobody},
		{"GET", "/apis", nobody},
		{"GET", "/api/v1/namespaces", nobody},
		{"GET", "/kapis/version", nobody},
		{"GET", "/dist/x", nobody},
		{"GET", "/debug/pprof", nobody},
		{"GET", "/VERSION", nobody},
	} {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			r := parse(t, c.method, c.target)
			for who, want := range map[user.Info]bool{anonymous: c.open == everyone, bob: c.open >= loggedIn, &user.DefaultInfo{}: c.open == everyone} {
				d, err := p.Authorize(t.Context(), who, r)
				if err != nil || d.Allowed() != want {
					t.Errorf("%q: got %+v, %v, want allowed=%v", who.GetName(), d, err, want)
				}
				if d.Group != "" {
					t.Errorf("%q: asserts %q", who.GetName(), d.Group)
				}
			}
			if d, _ := p.Authorize(t.Context(), nil, r); d.Allowed() != (c.open == everyone) {
				t.Errorf("without a user: %+v", d)
			}
		})
	}
}

func TestPathsAreNeverResources(t *testing.T) {
	p := Paths([]Path{{Path: "/*", Methods: []string{"get", "list"}}})
	for target, want := range map[string]bool{"/x": true, "/": false, "/api": false, "/api/v1/pods": false, "/kapis/a/v1/pods": false} {
		if d, _ := p.Authorize(t.Context(), bob, parse(t, "GET", target)); d.Allowed() != want {
			t.Errorf("%s: %+v", target, d)
		}
	}
	if d, err := p.Authorize(t.Context(), bob, nil); d.Allowed() || err != nil {
		t.Errorf("no request: %+v, %v", d, err)
	}
}

func TestDeniedSaysWhoCannotDoWhatAndWhatToDo(t *testing.T) {
	for _, c := range []struct {
		claim, method, target string
		who                   user.Info
		d                     Decision
		want                  string
	}{
		{
			"InANamespace", "GET", "/api/v1/namespaces/x/pods", bob, Decision{},
			`pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "x": no role of the user, or of one of the user's groups, allows it; an administrator of the project can grant one`,
		},
		{
			"ASubresourceOfOne", "GET", "/apis/apps/v1/namespaces/x/deployments/d/scale", bob, Decision{Reason: "because"},
			`deployments.apps "d" is forbidden: User "bob" cannot get resource "deployments/scale" in API group "apps" in the namespace "x": because`,
		},
		{
			"InAWorkspace", "POST", "/kapis/iam.kubesphere.io/v1beta1/workspaces/w/workspacemembers", bob, Decision{},
			`workspacemembers.iam.kubesphere.io is forbidden: User "bob" cannot create resource "workspacemembers" in API group "iam.kubesphere.io" in the workspace "w": no role of the user, or of one of the user's groups, allows it; an administrator of the workspace can grant one`,
		},
		{
			"InTheCluster", "DELETE", "/api/v1/nodes/n", bob, Decision{},
			`nodes "n" is forbidden: User "bob" cannot delete resource "nodes" in API group "" at the cluster scope: no role of the user, or of one of the user's groups, allows it; an administrator of the cluster can grant one`,
		},
		{
			"OnThePlatform", "GET", "/kapis/iam.kubesphere.io/v1beta1/users", bob, Decision{},
			`users.iam.kubesphere.io is forbidden: User "bob" cannot list resource "users" in API group "iam.kubesphere.io" at the cluster scope: no role of the user, or of one of the user's groups, allows it; an administrator of the platform can grant one`,
		},
		{"Anonymous", "GET", "/apis", anonymous, Decision{}, `forbidden: User "system:anonymous" cannot get path "/apis": log in first`},
		{"NoUser", "GET", "/apis", nil, Decision{}, `forbidden: User "" cannot get path "/apis": log in first`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := parse(t, c.method, c.target)
			err := Denied(c.who, r, c.d)
			if err.Error() != c.want {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
			if !apierrors.IsForbidden(err) {
				t.Errorf("the reason is %q", apierrors.ReasonForError(err))
			}
			if s := err.(apierrors.APIStatus).Status(); s.Details.Group != r.APIGroup || s.Details.Kind != r.Resource || s.Code != http.StatusForbidden {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestAliases(t *testing.T) {
	failure := errors.New("no connection")
	groupOf := func(resource string) (schema.GroupResource, bool) {
		switch resource {
		case "pods":
			return schema.GroupResource{Resource: "pods"}, true
		case "users":
			return schema.GroupResource{Group: "iam.kubesphere.io", Resource: "users"}, true
		}
		return schema.GroupResource{}, false
	}
	for _, c := range []struct {
		claim, method, target string
		allowed               string // by Next: "group/resource scope"
		err                   error
		want                  bool
		asked                 int
	}{
		{"KindsOwnGroup", "GET", "/kapis/resources.kubesphere.io/v1alpha3/namespaces/x/pods", "/pods 3", nil, true, 2},
		{"OlderVersion", "GET", "/kapis/resources.kubesphere.io/v1alpha2/namespaces/x/pods/p", "/pods 3", nil, true, 2},
		{"FirstAnswerIsEnough", "GET", "/kapis/resources.kubesphere.io/v1alpha3/namespaces/x/pods", "resources.kubesphere.io/pods 3", nil, true, 1},
		{"ScopeIsThatOfTheKind", "GET", "/kapis/resources.kubesphere.io/v1alpha3/users", "iam.kubesphere.io/users 0", nil, true, 2},
		{"NeitherAllows", "GET", "/kapis/resources.kubesphere.io/v1alpha3/namespaces/x/pods", "apps/pods 3", nil, false, 2},
		{"UnknownKind", "GET", "/kapis/resources.kubesphere.io/v1alpha3/things", "/things 1", nil, false, 1},
		{"WritesHaveNoAlias", "POST", "/kapis/resources.kubesphere.io/v1alpha3/namespaces/x/pods", "/pods 3", nil, false, 1},
		{"SubresourcesHaveNoAlias", "GET", "/kapis/resources.kubesphere.io/v1alpha3/namespaces/x/pods/p/log", "/pods 3", nil, false, 1},
		{"OtherGroupsHaveNoAlias", "GET", "/kapis/x.io/v1alpha3/namespaces/x/pods", "/pods 3", nil, false, 1},
		{"OtherVersionsHaveNoAlias", "GET", "/kapis/resources.kubesphere.io/v1/namespaces/x/pods", "/pods 3", nil, false, 1},
		{"KubernetesHasNoAlias", "GET", "/apis/resources.kubesphere.io/v1alpha3/namespaces/x/pods", "/pods 3", nil, false, 1},
		{"PathsHaveNoAlias", "GET", "/kapis/resources.kubesphere.io/v1alpha3", "/pods 3", nil, false, 1},
		{"AnErrorIsFinal", "GET", "/kapis/resources.kubesphere.io/v1alpha3/namespaces/x/pods", "/pods 3", failure, false, 1},
	} {
		t.Run(c.claim, func(t *testing.T) {
			asked := 0
			a := &Order{Aliases: Aliases{GroupOf: groupOf}, Authorizers: Union{Func(func(_ context.Context, _ user.Info, r *request.Info) (Decision, error) {
				asked++
				if c.err == nil && r.APIGroup+"/"+r.Resource+" "+string('0'+byte(r.Scope)) == c.allowed {
					return Allow("", ""), nil
				}
				return Decision{}, c.err
			})}}
			r := parse(t, c.method, c.target)
			before := *r
			d, err := a.Authorize(t.Context(), bob, r)
			if d.Allowed() != c.want || asked != c.asked || !errors.Is(err, c.err) {
				t.Errorf("got %+v, %v after %d questions", d, err, asked)
			}
			if *r != before {
				t.Error("the request was changed")
			}
		})
	}
}

func TestAnAliasIsTheRightToTheKind(t *testing.T) {
	a := Aliases{GroupOf: func(resource string) (schema.GroupResource, bool) {
		return schema.GroupResource{Group: "iam.kubesphere.io", Resource: resource}, resource == "users"
	}}
	r := request.Info{Verb: "list", APIGroup: "resources.kubesphere.io", APIVersion: "v1alpha3", Resource: "users", IsResource: true, Scope: request.Cluster}
	if as := a.Of(&r); as == nil || as.APIGroup != "iam.kubesphere.io" || as.Scope != request.Global {
		t.Errorf("%+v", as)
	}
	for claim, change := range map[string]func(*request.Info){
		"AWrite":         func(r *request.Info) { r.Verb = "delete" },
		"ASubresource":   func(r *request.Info) { r.Subresource = "kubeconfig" },
		"AnotherGroup":   func(r *request.Info) { r.APIGroup = "iam.kubesphere.io" },
		"AnUnknownKind":  func(r *request.Info) { r.Resource = "metrics" },
		"AnotherVersion": func(r *request.Info) { r.APIVersion = "v1" },
	} {
		c := r
		change(&c)
		if as := a.Of(&c); as != nil {
			t.Errorf("%s: %+v", claim, as)
		}
	}
}

// S1: one function says which verdicts may be served, and a handler that does not restrict lists never takes a partial list for the whole one.
func TestVerdictsSayWhatMayGoOn(t *testing.T) {
	list := NewOwnPartialList(nil, nil, nil)
	for claim, c := range map[string]struct {
		d                 Decision
		verdict           Verdict
		whole, restricted bool
		denied            bool
		list              *PartialList
	}{
		"TheZeroValueRefuses":         {d: Decision{}, verdict: Refused},
		"AReasonAndAGroupAllowNone":   {d: Decision{Reason: "r", Group: "g"}, verdict: Refused},
		"ADenialRefuses":              {d: Deny("r"), verdict: Refused, denied: true},
		"AnEmptyListIsAPartialOne":    {d: AllowPartial(list, "r"), verdict: Partial, restricted: true, list: list},
		"NoListRefuses":               {d: AllowPartial(nil, "r"), verdict: Refused},
		"WhatIsAllowedIsAllowedWhole": {d: Allow("r", "g"), verdict: Allowed, whole: true, restricted: true},
	} {
		d := c.d
		if d.Verdict() != c.verdict || d.Allowed() != c.whole || d.Permits(false) != c.whole || d.Permits(true) != c.restricted ||
			d.Denied() != c.denied || d.PartialList() != c.list {
			t.Errorf("%s: %+v", claim, d)
		}
	}
}

func TestContextCarriesTheDecision(t *testing.T) {
	want := Allow("r", "g")
	if got := DecisionFrom(WithDecision(t.Context(), want)); got != want {
		t.Errorf("got %+v", got)
	}
	if got := DecisionFrom(t.Context()); got.Allowed() {
		t.Errorf("outside of a request: %+v", got)
	}
}
