package authz

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// forbids is an authorizer that denies the requests for which f is true, and allows nothing.
func forbids(f func(*request.Info) bool) Authorizer {
	return Func(func(_ context.Context, _ user.Info, r *request.Info) (Decision, error) {
		if f(r) {
			return Deny("never"), nil
		}
		return Decision{}, nil
	})
}

func podsAlias() Aliases {
	return Aliases{GroupOf: func(resource string) (schema.GroupResource, bool) {
		return schema.GroupResource{Resource: resource}, resource == "pods"
	}}
}

func TestWhatIsForbiddenSomewhereIsNoPartOfAList(t *testing.T) {
	all := NewOwnPartialList([]string{"a", "b"}, []string{"w", "x"}, []string{"ann"})
	pods := parse(t, "GET", "/kapis/resources.kubesphere.io/v1alpha3/pods")
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
			n := Order{Authorizers: Union{forbids(c.before), answer(AllowPartial(all, ""), nil)}, Vetoing: 1, Aliases: podsAlias()}
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
	yes := Allow("", "kapis:global:g")
	n := Order{
		Authorizers: Union{forbids(func(r *request.Info) bool { return r.APIGroup == "" && r.Resource == "pods" }), answer(yes, nil)},
		Vetoing:     1, Aliases: podsAlias(),
	}
	for path, want := range map[string]Decision{
		"/kapis/resources.kubesphere.io/v1alpha3/namespaces/a/pods":     Deny("never"),
		"/kapis/resources.kubesphere.io/v1alpha3/namespaces/a/services": yes,
	} {
		if d, err := n.Authorize(t.Context(), bob, parse(t, "GET", path)); err != nil || d != want {
			t.Errorf("%s: %+v, %v", path, d, err)
		}
	}
}

func TestOfAListOnlyAPartThatIsKnownIsGiven(t *testing.T) {
	pods, failure := parse(t, "GET", "/kapis/resources.kubesphere.io/v1alpha3/pods"), errors.New("no connection")
	var many []string
	for n := range vetoItems + 1 {
		many = append(many, "n"+strconv.Itoa(n))
	}
	part := NewPartialList([]string{"a", "b"}, nil)
	never := forbids(func(*request.Info) bool { return false })
	broken := Func(func(_ context.Context, _ user.Info, r *request.Info) (Decision, error) {
		if r.Namespace != "" { // an item
			return Deny(""), failure
		}
		return Decision{}, nil
	})
	for _, c := range []struct {
		claim string
		in    Union
		ctx   context.Context
		err   error
	}{
		{"NotWherePlacesAreTooMany", Union{never, answer(AllowPartial(NewPartialList(many, nil), ""), nil)}, t.Context(), nil},
		{"NotWhereItCanNotBeTold", Union{broken, answer(AllowPartial(part, ""), nil)}, t.Context(), failure},
		{"NotWhereNobodyWantsIt", Union{never, answer(AllowPartial(part, ""), nil)}, WithoutPartialList(t.Context()), nil},
		{"NotOfAListAtKubeAPIServer", Union{broken, answer(AllowPartial(part, ""), nil)}, t.Context(), nil},
		{"NotWhereNextFails", Union{never, answer(AllowPartial(part, ""), failure)}, t.Context(), failure},
	} {
		t.Run(c.claim, func(t *testing.T) {
			n, list := Order{Authorizers: c.in, Vetoing: 1, Aliases: podsAlias()}, pods
			if strings.HasSuffix(c.claim, "AtKubeAPIServer") {
				list = parse(t, "GET", "/api/v1/pods")
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
		r := parse(t, "GET", list)
		var items []*request.Info
		asked := forbids(func(i *request.Info) bool {
			if i.Namespace != "" && i.APIGroup == r.APIGroup { // aliases have another group
				items = append(items, i)
			}
			return false
		})
		o := Order{
			Authorizers: Union{asked, answer(AllowPartial(NewPartialList([]string{"a"}, nil), ""), nil)}, Vetoing: 1, Aliases: podsAlias(),
		}
		if _, err := o.Authorize(t.Context(), bob, r); err != nil || len(items) != 1 {
			t.Errorf("%s: %d items are asked about, %v", list, len(items), err)
		}
		var got []string
		for _, i := range items {
			if again := parse(t, "GET", i.Path); again.Namespace != i.Namespace || again.Resource != i.Resource || again.Scope != i.Scope ||
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
	yes, no, failure := Allow("", ""), Deny("never"), errors.New("no connection")
	anon := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	for _, c := range []struct {
		claim string
		in    []Authorizer
		want  Decision
		err   error
	}{
		{"BeforeWhoAllows", []Authorizer{answer(no, nil), answer(yes, nil)}, no, nil},
		{"NotBehindWhoAllows", []Authorizer{answer(yes, nil), answer(no, nil)}, yes, nil},
		{"WithAnError", []Authorizer{answer(no, failure), answer(yes, nil)}, no, failure},
		{"WithoutAPart", []Authorizer{answer(AllowPartial(NewPartialList([]string{"a"}, nil), ""), nil), answer(no, nil)}, no, nil},
		{"AlwaysDeny", []Authorizer{AlwaysDeny(), answer(yes, nil)}, Deny("the authorization mode is AlwaysDeny"), nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if d, err := Union(c.in).Authorize(t.Context(), anon, &request.Info{}); d != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %+v, %v", d, err)
			}
		})
	}
}

// S54: no mode allows anything to a caller who is not logged in.
func TestAlwaysAllowIsForWhoIsLoggedIn(t *testing.T) {
	anon := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	if d, err := AlwaysAllow().Authorize(t.Context(), anon, &request.Info{}); err != nil || d.Allowed() {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestAnAliasThatIsForbiddenHasNoPart(t *testing.T) {
	a := Order{Aliases: podsAlias(), Authorizers: Union{Func(func(_ context.Context, _ user.Info, r *request.Info) (Decision, error) {
		if r.APIGroup == "" {
			return Deny(""), nil
		}
		return AllowPartial(NewPartialList([]string{"a"}, nil), ""), nil
	})}}
	d, err := a.Authorize(t.Context(), bob, parse(t, "GET", "/kapis/resources.kubesphere.io/v1alpha3/pods"))
	if err != nil || !d.Denied() || d.PartialList() != nil {
		t.Errorf("%+v, %v", d, err)
	}
}
