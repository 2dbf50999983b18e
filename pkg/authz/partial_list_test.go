package authz_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
)

func TestPartsAreEqualByTheirKeys(t *testing.T) {
	seen := map[string]string{}
	for name, p := range map[string]*authz.PartialList{
		"one":       authz.NewPartialList([]string{"a"}, nil),
		"two":       authz.NewPartialList([]string{"a", "b"}, nil),
		"joined":    authz.NewPartialList([]string{"ab"}, nil),
		"workspace": authz.NewPartialList(nil, []string{"a"}),
		"one each":  authz.NewPartialList([]string{"a"}, []string{"b"}),
		"turned":    authz.NewPartialList([]string{"b"}, []string{"a"}),
		"long":      authz.NewPartialList([]string{string(make([]byte, 300))}, nil),
	} {
		if other, ok := seen[p.Key]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[p.Key] = name
		if len(p.Key) != 32 {
			t.Errorf("%s: the key %q has %d characters", name, p.Key, len(p.Key))
		}
	}
	p, q := authz.NewPartialList([]string{"b", "a", "b"}, []string{"w", "v", "w"}), authz.NewPartialList([]string{"a", "b"}, []string{"v", "w"})
	if p.Key != q.Key || !slices.Equal(p.Namespaces, q.Namespaces) || !slices.Equal(p.Workspaces, q.Workspaces) {
		t.Errorf("%+v is not %+v", p, q)
	}
	if p := authz.NewPartialList(nil, []string{}); p != nil {
		t.Errorf("nothing is a part: %+v", p)
	}
}

func TestOrIsTheUnionOfTwoParts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	names := func() (out []string) {
		for _, name := range [...]string{"a", "b", "c", "d", "e"} {
			if r.IntN(2) == 0 {
				out = append(out, name)
			}
		}
		return out
	}
	for range 2000 {
		a, b, c, d := names(), names(), names(), names()
		p, q := authz.NewPartialList(slices.Clone(a), slices.Clone(c)), authz.NewPartialList(slices.Clone(b), slices.Clone(d))
		want := authz.NewPartialList(slices.Concat(a, b), slices.Concat(c, d))
		got := p.Or(q)
		if (got == nil) != (want == nil) || got != nil && (got.Key != want.Key || !slices.Equal(got.Namespaces, want.Namespaces) ||
			!slices.Equal(got.Workspaces, want.Workspaces)) {
			t.Fatalf("%+v or %+v is %+v, want %+v", p, q, got, want)
		}
		for name, unchanged := range map[string]bool{
			"p": p == nil || slices.Equal(p.Namespaces, a), "q": q == nil || slices.Equal(q.Namespaces, b),
		} {
			if !unchanged {
				t.Fatalf("%s was changed", name)
			}
		}
	}
	p := authz.NewPartialList([]string{"a", "b"}, nil)
	if p.Or(authz.NewPartialList([]string{"b"}, nil)) != p || authz.NewPartialList([]string{"a"}, nil).Or(p) != p {
		t.Error("a part that has the other is made anew")
	}
}

func TestUnionKeepsEveryPart(t *testing.T) {
	a, b := authz.AllowPartial(authz.NewPartialList([]string{"a"}, nil), ""), authz.AllowPartial(authz.NewPartialList(nil, []string{"w"}), "no")
	d, err := authz.Union{answer(a, nil), answer(authz.Decision{}, nil), answer(b, nil)}.Authorize(t.Context(), bob, &request.Info{})
	if err != nil || d.Allowed() || d.Reason != "no" || d.PartialList() == nil || d.PartialList().Key != authz.NewPartialList([]string{"a"}, []string{"w"}).Key {
		t.Errorf("got %+v, %v", d, err)
	}
	d, err = authz.Union{answer(a, nil), answer(authz.Decision{}, errors.New("no connection"))}.Authorize(t.Context(), bob, &request.Info{})
	if err == nil || d.PartialList() != nil {
		t.Errorf("a part beside an error: %+v, %v", d, err)
	}
	yes := authz.Allow("", "")
	if d, _ := (authz.Union{answer(a, nil), answer(yes, nil)}).Authorize(t.Context(), bob, &request.Info{}); d != yes {
		t.Errorf("a part beside all: %+v", d)
	}
}

// A rule for resources.kubesphere.io and one for the kind's own group give a partial list each, and the caller sees both. A kind of the whole platform, or an
// unknown kind, has no partial list.
func TestAliasesJoinParts(t *testing.T) {
	groupOf := func(resource string) (schema.GroupResource, bool) {
		switch resource {
		case "deployments":
			return schema.GroupResource{Group: "apps", Resource: resource}, true
		case "users":
			return schema.GroupResource{Group: "iam.kubesphere.io", Resource: resource}, true
		}
		return schema.GroupResource{}, false
	}
	next := authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
		if r.APIGroup == "apps" {
			return authz.AllowPartial(authz.NewPartialList([]string{"a"}, nil), ""), nil
		}
		return authz.AllowPartial(authz.NewPartialList([]string{"b"}, []string{"w"}), ""), nil
	})
	for path, want := range map[string]*authz.PartialList{
		"/kapis/resources.kubesphere.io/v1alpha3/deployments": authz.NewPartialList([]string{"a", "b"}, []string{"w"}),
		"/kapis/resources.kubesphere.io/v1alpha3/users":       nil,
		"/kapis/resources.kubesphere.io/v1alpha3/unicorns":    nil,
		"/kapis/apps/v1/deployments":                          authz.NewPartialList([]string{"a"}, nil),
	} {
		order := authz.Order{Authorizers: authz.Union{next}, Aliases: authz.Aliases{GroupOf: groupOf}}
		d, err := order.Authorize(t.Context(), bob, requesttest.Info(t, "GET", path))
		if err != nil || d.Allowed() || (d.PartialList() == nil) != (want == nil) || want != nil && d.PartialList().Key != want.Key {
			t.Errorf("%s: %+v, %v", path, d, err)
		}
	}
}

func TestAnOwnPartIsThereEvenWhenItIsEmpty(t *testing.T) {
	empty, named := authz.NewOwnPartialList(nil, nil, nil), authz.NewOwnPartialList(nil, nil, []string{"b", "a", "b"})
	if empty == nil || empty.Key == "" || len(empty.Namespaces)+len(empty.Workspaces)+len(empty.Names) > 0 {
		t.Fatalf("%+v", empty)
	}
	if !slices.Equal(named.Names, []string{"a", "b"}) {
		t.Errorf("%v", named.Names)
	}
	keys := map[string]bool{}
	for _, p := range []*authz.PartialList{empty, named, authz.NewPartialList([]string{"a", "b"}, nil), authz.NewPartialList(nil, []string{"a", "b"}),
		authz.NewOwnPartialList([]string{"a"}, []string{"b"}, nil), authz.NewOwnPartialList([]string{"a"}, nil, []string{"b"})} {
		if keys[p.Key] {
			t.Errorf("two parts have the key of %+v", p)
		}
		keys[p.Key] = true
	}
	if p := authz.NewOwnPartialList([]string{"b", "a"}, nil, nil); p.Key != authz.NewPartialList([]string{"a", "b"}, nil).Key {
		t.Error("equal parts have two keys")
	}
	if p := named.Or(authz.NewPartialList([]string{"n"}, nil)); !slices.Equal(p.Names, named.Names) || !slices.Equal(p.Namespaces, []string{"n"}) {
		t.Errorf("%+v", p)
	}
	if named.Or(empty) != named || empty.Or(named) != named {
		t.Error("nothing adds something")
	}
}

// Keys are equal for equal partial lists only.
func FuzzPartsAreToldApart(f *testing.F) {
	f.Add("a|b", "c", "a", "b|c")
	f.Add("ab", "", "a|b", "")
	f.Add("", "a", "a", "")
	f.Fuzz(func(t *testing.T, namespaces, workspaces, otherNamespaces, otherWorkspaces string) {
		split := func(s string) []string { return strings.Split(s, "|") }
		p, q := authz.NewPartialList(split(namespaces), split(workspaces)), authz.NewPartialList(split(otherNamespaces), split(otherWorkspaces))
		same := slices.Equal(p.Namespaces, q.Namespaces) && slices.Equal(p.Workspaces, q.Workspaces)
		if same != (p.Key == q.Key) {
			t.Errorf("%+v and %+v", p, q)
		}
	})
}
