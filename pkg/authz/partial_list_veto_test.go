package authz_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
)

const vetoItems = 500 // items of a partial list that the webhook is asked about

// forbids is an authorizer that denies the requests for which f is true, and allows nothing.
func forbids(f func(*request.Info) bool) authz.Authorizer {
	return authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
		if f(r) {
			return authz.Deny("never"), nil
		}
		return authz.Decision{}, nil
	})
}

func podsAlias() authz.Aliases {
	return authz.Aliases{GroupOf: func(resource string) (schema.GroupResource, bool) {
		return schema.GroupResource{Resource: resource}, resource == "pods"
	}}
}

func TestWhatIsForbiddenSomewhereIsNoPartOfAList(t *testing.T) {
	all := authz.NewOwnPartialList([]string{"a", "b"}, []string{"w", "x"}, []string{"ann"})
	pods := requesttest.Info(t, "GET", "/kapis/resources.kubesphere.io/v1alpha3/pods")
	for _, c := range []struct {
		claim  string
		before func(*request.Info) bool
		want   string
	}{
		{"NothingIsForbidden", func(*request.Info) bool { return false }, "[a b] [w x] [ann]"},
		{"ANamespace", func(r *request.Info) bool {
			return r.Namespace == "a" && r.Scope == request.Namespace && r.Workspace == ""
		}, "[b] [w x] [ann]"},
		{"AWorkspace", func(r *request.Info) bool {
			return r.Workspace == "x" && r.Scope == request.Workspace && r.Namespace == ""
		}, "[a b] [w] [ann]"},
		{"AName", func(r *request.Info) bool { return r.Name == "ann" }, "[a b] [w x] []"},
		{"TheKindItselfInANamespace", func(r *request.Info) bool { return r.APIGroup == "" && r.Resource == "pods" && r.Namespace == "b" }, "[a] [w x] [ann]"},
		{"Everything", func(r *request.Info) bool { return r.Namespace+r.Workspace+r.Name != "" }, "[] [] []"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			n := authz.Order{Authorizers: authz.Union{forbids(c.before), answer(authz.AllowPartial(all, ""), nil)}, Vetoing: 1, Aliases: podsAlias()}
			d, err := n.Authorize(t.Context(), bob, pods)
			if err != nil || d.Allowed() || d.PartialList() == nil {
				t.Fatalf("%+v, %v", d, err)
			}
			got := strings.Join([]string{text(d.PartialList().Namespaces), text(d.PartialList().Workspaces), text(d.PartialList().Names)}, " ")
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if (d.PartialList().Key == all.Key) != (c.want == "[a b] [w x] [ann]") {
				t.Error("the key does not tell the parts apart")
			}
		})
	}
}

func text(names []string) string { return "[" + strings.Join(names, " ") + "]" }

func TestWhatARequestStandsForMayBeForbidden(t *testing.T) {
	yes := authz.Allow("", "kapis:global:g")
	n := authz.Order{
		Authorizers: authz.Union{forbids(func(r *request.Info) bool { return r.APIGroup == "" && r.Resource == "pods" }), answer(yes, nil)},
		Vetoing:     1, Aliases: podsAlias(),
	}
	for path, want := range map[string]authz.Decision{
		"/kapis/resources.kubesphere.io/v1alpha3/namespaces/a/pods":     authz.Deny("never"),
		"/kapis/resources.kubesphere.io/v1alpha3/namespaces/a/services": yes,
	} {
		if d, err := n.Authorize(t.Context(), bob, requesttest.Info(t, "GET", path)); err != nil || d != want {
			t.Errorf("%s: %+v, %v", path, d, err)
		}
	}
}

func TestOfAListOnlyAPartThatIsKnownIsGiven(t *testing.T) {
	pods, failure := requesttest.Info(t, "GET", "/kapis/resources.kubesphere.io/v1alpha3/pods"), errors.New("no connection")
	var many []string
	for n := range vetoItems + 1 {
		many = append(many, "n"+strconv.Itoa(n))
	}
	part := authz.NewPartialList([]string{"a", "b"}, nil)
	never := forbids(func(*request.Info) bool { return false })
	broken := authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
		if r.Namespace != "" { // an item
			return authz.Deny(""), failure
		}
		return authz.Decision{}, nil
	})
	for _, c := range []struct {
		claim string
		in    authz.Union
		ctx   context.Context
		err   error
	}{
		{"NotWherePlacesAreTooMany", authz.Union{never, answer(authz.AllowPartial(authz.NewPartialList(many, nil), ""), nil)}, t.Context(), nil},
		{"NotWhereItCanNotBeTold", authz.Union{broken, answer(authz.AllowPartial(part, ""), nil)}, t.Context(), failure},
		{"NotWhereNobodyWantsIt", authz.Union{never, answer(authz.AllowPartial(part, ""), nil)}, authz.WithoutPartialList(t.Context()), nil},
		{"NotOfAListAtKubeAPIServer", authz.Union{broken, answer(authz.AllowPartial(part, ""), nil)}, t.Context(), nil},
		{"NotWhereNextFails", authz.Union{never, answer(authz.AllowPartial(part, ""), failure)}, t.Context(), failure},
	} {
		t.Run(c.claim, func(t *testing.T) {
			n, list := authz.Order{Authorizers: c.in, Vetoing: 1, Aliases: podsAlias()}, pods
			if strings.HasSuffix(c.claim, "AtKubeAPIServer") {
				list = requesttest.Info(t, "GET", "/api/v1/pods")
			}
			d, err := n.Authorize(c.ctx, bob, list)
			if !errors.Is(err, c.err) || d.Allowed() || c.err == nil && d.PartialList() != nil {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

func TestPlacesOfAPartAreRequestsAsTheirPathsSay(t *testing.T) {
	for list, want := range map[string][]string{
		"/kapis/resources.kubesphere.io/v1alpha3/pods":           {"/kapis/resources.kubesphere.io/v1alpha3/namespaces/a/pods"},
		"/kapis/tenant.kubesphere.io/v1beta1/workspacetemplates": {},
		"/kapi/v1/pods": {"/kapi/v1/namespaces/a/pods"},
	} {
		r := requesttest.Info(t, "GET", list)
		var items []*request.Info
		asked := forbids(func(i *request.Info) bool {
			if i.Namespace != "" && i.APIGroup == r.APIGroup { // aliases have another group
				items = append(items, i)
			}
			return false
		})
		o := authz.Order{
			Authorizers: authz.Union{asked, answer(authz.AllowPartial(authz.NewPartialList([]string{"a"}, nil), ""), nil)}, Vetoing: 1, Aliases: podsAlias(),
		}
		if _, err := o.Authorize(t.Context(), bob, r); err != nil || len(items) != 1 {
			t.Errorf("%s: %d items are asked about, %v", list, len(items), err)
		}
		var got []string
		for _, i := range items {
			if again := requesttest.Info(t, "GET", i.Path); again.Namespace != i.Namespace || again.Resource != i.Resource || again.Scope != i.Scope ||
				again.APIGroup != i.APIGroup {
				t.Errorf("%+v is not what its path says: %+v", i, again)
			}
			got = append(got, i.Path)
		}
		if len(want) > 0 && !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", list, got, want)
		}
	}
}

func TestWhatForbidsEndsTheOrder(t *testing.T) {
	yes, no, failure := authz.Allow("", ""), authz.Deny("never"), errors.New("no connection")
	anon := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	for _, c := range []struct {
		claim string
		in    []authz.Authorizer
		want  authz.Decision
		err   error
	}{
		{"BeforeWhoAllows", []authz.Authorizer{answer(no, nil), answer(yes, nil)}, no, nil},
		{"NotBehindWhoAllows", []authz.Authorizer{answer(yes, nil), answer(no, nil)}, yes, nil},
		{"WithAnError", []authz.Authorizer{answer(no, failure), answer(yes, nil)}, no, failure},
		{"WithoutAPart", []authz.Authorizer{answer(authz.AllowPartial(authz.NewPartialList([]string{"a"}, nil), ""), nil), answer(no, nil)}, no, nil},
		{"AlwaysDeny", []authz.Authorizer{authz.AlwaysDeny(), answer(yes, nil)}, authz.Deny("the authorization mode is AlwaysDeny"), nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if d, err := authz.Union(c.in).Authorize(t.Context(), anon, &request.Info{}); d != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %+v, %v", d, err)
			}
		})
	}
}

// S54: no mode allows anything to a caller who is not logged in.
func TestAlwaysAllowIsForWhoIsLoggedIn(t *testing.T) {
	anon := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	if d, err := authz.AlwaysAllow().Authorize(t.Context(), anon, &request.Info{}); err != nil || d.Allowed() {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestAnAliasThatIsForbiddenHasNoPart(t *testing.T) {
	a := authz.Order{Aliases: podsAlias(), Authorizers: authz.Union{authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
		if r.APIGroup == "" {
			return authz.Deny(""), nil
		}
		return authz.AllowPartial(authz.NewPartialList([]string{"a"}, nil), ""), nil
	})}}
	d, err := a.Authorize(t.Context(), bob, requesttest.Info(t, "GET", "/kapis/resources.kubesphere.io/v1alpha3/pods"))
	if err != nil || !d.Denied() || d.PartialList() != nil {
		t.Errorf("%+v, %v", d, err)
	}
}
