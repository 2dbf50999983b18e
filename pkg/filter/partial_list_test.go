package filter

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// partly gives every user a partial list of everything: more than any authorizer may.
func partly(names ...string) authz.Authorizer {
	return authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
		return authz.AllowPartial(authz.NewPartialList(names, nil), ""), nil
	})
}

// Only a list of this server's own goes on with a partial list, whatever the authorizer says: no request to kube-apiserver, no object, no write and no other
// path.
func TestOnlyListsOfOursGoOnWithAPart(t *testing.T) {
	var seen authz.Decision
	reached := false
	h := Chain(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached, seen = true, authz.DecisionFrom(r.Context()) }),
		Info, Authentication{Authenticator: tokens}.Wrap, Authorize(partly("a")))
	for target, goesOn := range map[string]bool{
		"GET /kapis/apps/v1/deployments":                           true,
		"GET /kapi/v1/pods?watch=true":                             true,
		"HEAD /kapis/resources.kubesphere.io/v1alpha3/pods":        true,
		"GET /clusters/host/kapis/apps/v1/deployments":             true,
		"GET /kapis/apps/v1/namespaces/b/deployments":              false,
		"GET /kapis/apps/v1/workspaces/w/deployments":              true,
		"GET /kapis/apps/v1/workspaces/w/namespaces/b/deployments": false,
		"GET /kapis/apps/v1/deployments/d":                         false,
		"GET /kapis/apps/v1/namespaces/b/deployments/d":            false,
		"DELETE /kapis/apps/v1/deployments":                        false,
		"POST /kapis/apps/v1/deployments":                          false,
		"GET /api/v1/pods":                                         false,
		"GET /apis/apps/v1/deployments?watch=true":                 false,
		"GET /apis/apps/v1/deployments?fieldSelector=metadata.x=1": false,
		"GET /metrics":    false,
		"GET /openapi/v2": false,
	} {
		method, path, _ := strings.Cut(target, " ")
		reached, seen = false, authz.Decision{}
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", "Bearer bob")
		w := serve(h, r)
		if reached != goesOn || !goesOn && w.Code != http.StatusForbidden {
			t.Errorf("%s: went on: %v, code %d", target, reached, w.Code)
		}
		if goesOn && (seen.Allowed() || seen.PartialList() == nil || seen.PartialList().Namespaces[0] != "a") {
			t.Errorf("%s: the handler sees %+v", target, seen)
		}
	}
}

func TestAnAuthorizerThatCannotTellGivesNoPart(t *testing.T) {
	h := Chain(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it went on") }),
		Info, Authentication{Authenticator: tokens}.Wrap,
		Authorize(authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
			return authz.AllowPartial(authz.NewPartialList([]string{"a"}, nil), ""), errors.New("no connection")
		})))
	if w := serve(h, httptest.NewRequest(http.MethodGet, "/kapis/apps/v1/deployments", nil)); w.Code != http.StatusInternalServerError {
		t.Errorf("code %d", w.Code)
	}
}

// S2, U19: a watch of a partial list ends when the partial list changes, be it smaller or larger.
func TestRecheckFollowsThePart(t *testing.T) {
	all := authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
		return authz.Allow("", ""), nil
	})
	for name, c := range map[string]struct {
		before, after authz.Authorizer
		ends, anew    bool // anew: the client has to list again
	}{
		"TheSamePart":          {partly("a", "b"), partly("b", "a"), false, false},
		"SmallerPart":          {partly("a", "b"), partly("a"), true, true},
		"LargerPart":           {partly("a"), partly("a", "b"), true, true},
		"NothingLeft":          {partly("a"), partly(), true, false},
		"EverythingNow":        {partly("a"), all, true, true},
		"AllBecameAPart":       {all, partly("a"), true, true},
		"AllBecameAllOfPeople": {all, partly(), true, false},
		"StillAll":             {all, all, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var passed *http.Request
			h := Chain(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { passed = r }),
				Info, Authentication{Authenticator: tokens}.Wrap, Authorize(c.before))
			r := httptest.NewRequest(http.MethodGet, "/kapi/v1/pods?watch=true", nil)
			r.Header.Set("Authorization", "Bearer bob")
			serve(h, r)
			err := Recheck(tokens, c.after)(t.Context(), passed)
			if (err != nil) != c.ends || apierrors.IsResourceExpired(err) != c.anew {
				t.Errorf("the check says %v", err)
			}
		})
	}
}

func TestAuditSaysWhatPartWasAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		code            int
		verdict, reason string
	}{
		"Answered": {http.StatusOK, "allow", "allowed in 2 namespaces and 0 workspaces"},
		"Refused":  {http.StatusForbidden, "forbid", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got *audit.Event
			h := Chain(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.code) }),
				Auditing{Sink: audit.SinkFunc(func(e *audit.Event) { got = e }), Now: time.Now}.Wrap, Info, Authentication{Authenticator: tokens}.Wrap, Authorize(partly("a", "b")))
			serve(h, httptest.NewRequest(http.MethodGet, "/kapi/v1/pods", nil))
			if v, r := got.Decision, got.Reason; v != c.verdict || r != c.reason {
				t.Errorf("the event says %q, %q", v, r)
			}
		})
	}
}
