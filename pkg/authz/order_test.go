package authz_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// S1: every combination of what a webhook and a later mode answer about a request and its alias. A denial of either name holds, a right to either is enough,
// and nothing else allows anything.
func TestADenialOfEitherNameHoldsAndARightToEitherIsEnough(t *testing.T) {
	failure := errors.New("no connection")
	type answer struct {
		d   authz.Decision
		err error
	}
	answers := []answer{
		{d: authz.Decision{}}, {d: authz.AllowPartial(authz.NewPartialList([]string{"a"}, nil), "")}, {d: authz.Allow("", "g")}, {d: authz.Deny("")}, {err: failure},
	}
	r := parse(t, "GET", "/kapis/resources.kubesphere.io/v1alpha3/pods")
	alias := podsAlias().Of(r)
	for n := range 5 * 5 * 5 * 5 {
		webhook, mode := [2]answer{answers[n%5], answers[n/5%5]}, [2]answer{answers[n/25%5], answers[n/125]}
		of := func(names [2]answer) authz.Authorizer {
			return authz.Func(func(_ context.Context, _ user.Info, asked *request.Info) (authz.Decision, error) {
				if asked.Namespace != "" { // an item of the partial list
					return authz.Decision{}, nil
				}
				if asked.APIGroup == alias.APIGroup {
					return names[1].d, names[1].err
				}
				return names[0].d, names[0].err
			})
		}
		order := authz.Order{Authorizers: authz.Union{of(webhook), of(mode)}, Vetoing: 1, Aliases: podsAlias()}
		d, err := order.Authorize(t.Context(), bob, r)
		some := func(what func(answer) bool) bool {
			return what(webhook[0]) || what(webhook[1]) || what(mode[0]) || what(mode[1])
		}
		allows, fails := func(a answer) bool { return a.d.Allowed() }, func(a answer) bool { return a.err != nil }
		denies, partly := func(a answer) bool { return a.d.Denied() }, func(a answer) bool { return a.d.PartialList() != nil }
		if err != nil && d.Permits(true) {
			t.Errorf("%+v, %+v: an error allows: %+v", webhook, mode, d)
		}
		if (denies(webhook[0]) || denies(webhook[1])) && d.Permits(true) {
			t.Errorf("%+v, %+v: what is denied by one name is allowed: %+v", webhook, mode, d)
		}
		if d.Allowed() && !some(allows) || d.Verdict() == authz.Partial && (!some(partly) || some(allows)) {
			t.Errorf("%+v, %+v: what nothing allows is allowed: %+v", webhook, mode, d)
		}
		if some(fails) || some(denies) {
			continue
		}
		if d.Allowed() != some(allows) || !d.Allowed() && d.Permits(true) != some(partly) || err != nil {
			t.Errorf("%+v, %+v: got %+v, %v", webhook, mode, d, err)
		}
	}
}

// An authorizer is asked once about a request with one name, and Order itself allocates nothing for it.
func TestEachAuthorizerIsAskedOnceAboutEachName(t *testing.T) {
	asked := 0
	count := authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
		asked++
		return authz.Decision{}, nil
	})
	order := &authz.Order{Authorizers: authz.Union{authz.Func(authz.RestrictAPIKeys), authz.Paths(authz.DefaultPaths()), count}, Vetoing: 2, Aliases: podsAlias()}
	for path, c := range map[string]struct{ asked, allocations int }{
		"/kapi/v1/pods": {1, 0},
		"/apis/apps/v1/namespaces/a/deployments/d":         {1, 0},
		"/kapis/iam.kubesphere.io/v1alpha2/clustermembers": {1, 0},
		"/kapis/resources.kubesphere.io/v1alpha3/pods":     {2, 1},
		"/kapis/resources.kubesphere.io/v1alpha3/unknown":  {1, 0},
		"/metrics": {1, 0},
	} {
		r, ctx := parse(t, "GET", path), t.Context()
		asked = 0
		if _, err := order.Authorize(ctx, bob, r); err != nil || asked != c.asked {
			t.Errorf("%s: asked %d times, %v", path, asked, err)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = order.Authorize(ctx, bob, r) }); n > float64(c.allocations) {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

func BenchmarkOrder(b *testing.B) {
	for name, path := range map[string]string{
		"plain": "/apis/apps/v1/namespaces/a/deployments/d", "alias": "/kapis/resources.kubesphere.io/v1alpha3/pods",
	} {
		for claim, d := range map[string]authz.Decision{"allowed": authz.Allow("", ""), "refused": {}} {
			b.Run(name+"/"+claim, func(b *testing.B) {
				order := &authz.Order{Authorizers: authz.Union{authz.Func(authz.RestrictAPIKeys), authz.Paths(authz.DefaultPaths()), answer(d, nil)}, Aliases: podsAlias()}
				r, ctx := parse(b, "GET", path), b.Context()
				b.ReportAllocs()
				for b.Loop() {
					_, _ = order.Authorize(ctx, bob, r)
				}
			})
		}
	}
}
