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
)

func TestPermitDecidesOnTheRequestItself(t *testing.T) {
	outer := authz.WithDecision(request.WithInfo(request.WithUser(t.Context(), bob), &request.Info{Resource: "jobs"}), authz.Allow("", "kapis:outer"))
	ask := func(ctx context.Context, target string) (*http.Request, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		return authz.Permit(authz.Func(func(_ context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
			if r.Resource == "broken" {
				return authz.Allow("", ""), errors.New("no index")
			}
			if u == user.Info(bob) && r.Resource == "secrets" && r.Namespace == "a" && r.Name == "s" {
				return authz.Allow("", "kapis:inner"), nil
			}
			return authz.Decision{Group: "kapis:inner"}, nil
		}), r)
	}
	r, err := ask(outer, "/api/v1/namespaces/a/secrets/s")
	if err != nil {
		t.Fatal(err)
	}
	if d := authz.DecisionFrom(r.Context()); !d.Allowed() || d.Group != "kapis:inner" {
		t.Errorf("the decision is %+v", d)
	}
	if i := request.InfoFrom(r.Context()); i.Path != "/api/v1/namespaces/a/secrets/s" || i.Verb != "get" {
		t.Errorf("what is asked for is %+v", i)
	}
	if _, err := ask(outer, "/api/v1/namespaces/b/secrets/s"); !apierrors.IsForbidden(err) { // S25
		t.Errorf("another namespace: %v", err)
	}
	for claim, c := range map[string]struct {
		ctx    context.Context
		target string
	}{
		"ADecisionThatFailed": {outer, "/api/v1/broken"}, "NoCaller": {t.Context(), "/api/v1/namespaces/a/secrets/s"}, "NoPath": {outer, "/api//v1"},
	} {
		if _, err := ask(c.ctx, c.target); err == nil {
			t.Errorf("%s is permitted", claim)
		}
	}
}

func TestMayListAsksForAllObjectsOfTheKind(t *testing.T) {
	claims := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	var asked *request.Info
	answer := authz.Allow("", "")
	var failure error
	may := authz.MayList(authz.Func(func(ctx context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
		if asked = r; u != user.Info(bob) || authz.WantsPartialList(ctx) {
			t.Errorf("asked of %v", u)
		}
		return answer, failure
	}))
	ctx := request.WithInfo(request.WithUser(t.Context(), bob), &request.Info{Verb: "get", Name: "fast"})
	if !may(ctx, claims) || asked.Verb != "list" || asked.Path != "/kapi/v1/persistentvolumeclaims" || asked.Resource != claims.Resource || asked.APIGroup != "" ||
		asked.Name != "" || asked.Scope != request.Cluster || asked.IsKubernetes || !asked.IsResource {
		t.Errorf("asked for %+v", asked)
	}
	if may(t.Context(), claims) || authz.MayList(nil)(ctx, claims) {
		t.Error("nobody may list")
	}
	if answer = (authz.AllowPartial(authz.NewOwnPartialList([]string{"a"}, nil, nil), "")); may(ctx, claims) {
		t.Error("a part is taken for all")
	}
	if answer, failure = (authz.Allow("", "")), errors.New("no index"); may(ctx, claims) {
		t.Error("what can't be told is yes")
	}
}
