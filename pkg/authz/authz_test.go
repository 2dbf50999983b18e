package authz_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
)

var (
	anonymous = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	bob       = &user.DefaultInfo{Name: "bob", Groups: []string{user.AllAuthenticated}}
)

func answer(d authz.Decision, err error) authz.Authorizer {
	return authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) { return d, err })
}

func TestUnion(t *testing.T) {
	yes, failure := authz.Allow("yes", "g"), errors.New("no connection")
	for _, c := range []struct {
		claim string
		in    []authz.Authorizer
		want  authz.Decision
		err   error
	}{
		{"NobodyAllows", nil, authz.Decision{}, nil},
		{"OneAllows", []authz.Authorizer{answer(authz.Decision{}, nil), answer(yes, nil)}, yes, nil},
		{"TheFirstThatAllowsCounts", []authz.Authorizer{answer(yes, nil), answer(authz.Allow("", "other"), nil)}, yes, nil},
		{"AnErrorAllowsNothing", []authz.Authorizer{answer(yes, failure)}, authz.Decision{}, failure},
		{"AnErrorForbidsNothing", []authz.Authorizer{answer(authz.Decision{}, failure), answer(yes, nil)}, yes, nil},
		{"AReasonIsKept", []authz.Authorizer{answer(authz.Decision{Reason: "because"}, nil), answer(authz.Decision{}, nil)}, authz.Decision{Reason: "because"}, nil},
		{"ARefusalAssertsNoGroup", []authz.Authorizer{answer(authz.Decision{Reason: "because", Group: "g"}, nil)}, authz.Decision{Reason: "because"}, nil},
		{"AlwaysDeny", []authz.Authorizer{authz.AlwaysDeny()}, authz.Deny("the authorization mode is AlwaysDeny"), nil},
		{"AlwaysAllowAssertsNoGroup", []authz.Authorizer{authz.AlwaysAllow()}, authz.Allow("the authorization mode is AlwaysAllow", ""), nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			d, err := authz.Union(c.in).Authorize(t.Context(), bob, &request.Info{})
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
	p := authz.Paths(authz.DefaultPaths())
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
		{"POST", "/fleet/join", everyone},
		{"GET", "/fleet/join", nobody},
		{"GET", "/fleet/links/x", everyone},
		{"GET", "/fleet/replicas", everyone}, // who is there proves it within the connection
		{"POST", "/fleet/replicas", nobody},
		{"GET", "/fleet/replicas/x", nobody},
		{"GET", "/fleet/digest", nobody},
		{"GET", "/dist/x", everyone},
		{"POST", "/dist/x", nobody},
		{"GET", "/dist", nobody},
		{"GET", "/proxy/x", nobody},
		{"GET", "/debug/pprof", nobody},
		{"GET", "/VERSION", nobody},
	} {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			r := requesttest.Info(t, c.method, c.target)
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
	p := authz.Paths([]authz.Path{{Path: "/*", Methods: []string{"get", "list"}}})
	for target, want := range map[string]bool{"/x": true, "/": false, "/api": false, "/api/v1/pods": false, "/kapis/a/v1/pods": false} {
		if d, _ := p.Authorize(t.Context(), bob, requesttest.Info(t, "GET", target)); d.Allowed() != want {
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
		d                     authz.Decision
		want                  string
	}{
		{
			"InANamespace", "GET", "/api/v1/namespaces/x/pods", bob, authz.Decision{},
			`pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "x": no role of the user, or of one of the user's groups, allows it; an administrator of the project can grant one`,
		},
		{
			"ASubresourceOfOne", "GET", "/apis/apps/v1/namespaces/x/deployments/d/scale", bob, authz.Decision{Reason: "because"},
			`deployments.apps "d" is forbidden: User "bob" cannot get resource "deployments/scale" in API group "apps" in the namespace "x": because`,
		},
		{
			"InAWorkspace", "POST", "/kapis/iam.kubesphere.io/v1beta1/workspaces/w/workspacemembers", bob, authz.Decision{},
			`workspacemembers.iam.kubesphere.io is forbidden: User "bob" cannot create resource "workspacemembers" in API group "iam.kubesphere.io" in the workspace "w": no role of the user, or of one of the user's groups, allows it; an administrator of the workspace can grant one`,
		},
		{
			"InTheCluster", "DELETE", "/api/v1/nodes/n", bob, authz.Decision{},
			`nodes "n" is forbidden: User "bob" cannot delete resource "nodes" in API group "" at the cluster scope: no role of the user, or of one of the user's groups, allows it; an administrator of the cluster can grant one`,
		},
		{
			"OnThePlatform", "GET", "/kapis/iam.kubesphere.io/v1beta1/users", bob, authz.Decision{},
			`users.iam.kubesphere.io is forbidden: User "bob" cannot list resource "users" in API group "iam.kubesphere.io" at the cluster scope: no role of the user, or of one of the user's groups, allows it; an administrator of the platform can grant one`,
		},
		{"Anonymous", "GET", "/apis", anonymous, authz.Decision{}, `forbidden: User "system:anonymous" cannot get path "/apis": log in first`},
		{"NoUser", "GET", "/apis", nil, authz.Decision{}, `forbidden: User "" cannot get path "/apis": log in first`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := requesttest.Info(t, c.method, c.target)
			err := authz.Forbidden(c.who, r, c.d)
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
			a := &authz.Order{Aliases: authz.Aliases{GroupOf: groupOf},
				Authorizers: authz.Union{authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
					asked++
					if c.err == nil && r.APIGroup+"/"+r.Resource+" "+string('0'+byte(r.Scope)) == c.allowed {
						return authz.Allow("", ""), nil
					}
					return authz.Decision{}, c.err
				})}}
			r := requesttest.Info(t, c.method, c.target)
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
	a := authz.Aliases{GroupOf: func(resource string) (schema.GroupResource, bool) {
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
	list := authz.NewOwnPartialList(nil, nil, nil)
	for claim, c := range map[string]struct {
		d                 authz.Decision
		verdict           authz.Verdict
		whole, restricted bool
		denied            bool
		list              *authz.PartialList
	}{
		"TheZeroValueRefuses":         {d: authz.Decision{}, verdict: authz.Refused},
		"AReasonAndAGroupAllowNone":   {d: authz.Decision{Reason: "r", Group: "g"}, verdict: authz.Refused},
		"ADenialRefuses":              {d: authz.Deny("r"), verdict: authz.Refused, denied: true},
		"AnEmptyListIsAPartialOne":    {d: authz.AllowPartial(list, "r"), verdict: authz.Partial, restricted: true, list: list},
		"NoListRefuses":               {d: authz.AllowPartial(nil, "r"), verdict: authz.Refused},
		"WhatIsAllowedIsAllowedWhole": {d: authz.Allow("r", "g"), verdict: authz.Allowed, whole: true, restricted: true},
	} {
		d := c.d
		if d.Verdict() != c.verdict || d.Allowed() != c.whole || d.Permits(false) != c.whole || d.Permits(true) != c.restricted ||
			d.Denied() != c.denied || d.PartialList() != c.list {
			t.Errorf("%s: %+v", claim, d)
		}
	}
}

func TestContextCarriesTheDecision(t *testing.T) {
	want := authz.Allow("r", "g")
	if got := authz.DecisionFrom(authz.WithDecision(t.Context(), want)); got != want {
		t.Errorf("got %+v", got)
	}
	if got := authz.DecisionFrom(t.Context()); got.Allowed() {
		t.Errorf("outside of a request: %+v", got)
	}
}
