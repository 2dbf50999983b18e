package authz_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
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
	r := requesttest.Info(t, "GET", "/kapis/resources.kubesphere.io/v1alpha3/pods")
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
		r, ctx := requesttest.Info(t, "GET", path), t.Context()
		asked = 0
		if _, err := order.Authorize(ctx, bob, r); err != nil || asked != c.asked {
			t.Errorf("%s: asked %d times, %v", path, asked, err)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = order.Authorize(ctx, bob, r) }); n > float64(c.allocations) {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

// Shells are opened with the verb get: the question whether a request is for the caller's own is asked about no other.
func TestOnlyAGetMayBeForTheOwnShell(t *testing.T) {
	var about []string
	o := &authz.Order{Authorizers: authz.Union{answer(authz.Allow("", ""), nil)}, OwnShell: func(_ user.Info, r *request.Info) *request.Info {
		about = append(about, r.Verb)
		return r
	}}
	for _, verb := range []string{"get", "list", "watch", "create", "delete"} {
		r := &request.Info{Verb: verb, IsResource: true, APIPrefix: "kapis", APIGroup: "terminal.kubesphere.io", Resource: "users", Subresource: "kubectl"}
		if d, err := o.Authorize(t.Context(), &user.DefaultInfo{Name: "jane"}, r); err != nil || !d.Allowed() {
			t.Errorf("%s: %v, %v", verb, d, err)
		}
	}
	if len(about) != 1 || about[0] != "get" {
		t.Errorf("asked about %v", about)
	}
}

func BenchmarkOrder(b *testing.B) {
	for name, path := range map[string]string{
		"plain": "/apis/apps/v1/namespaces/a/deployments/d", "alias": "/kapis/resources.kubesphere.io/v1alpha3/pods",
	} {
		for claim, d := range map[string]authz.Decision{"allowed": authz.Allow("", ""), "refused": {}} {
			b.Run(name+"/"+claim, func(b *testing.B) {
				order := &authz.Order{Authorizers: authz.Union{authz.Func(authz.RestrictAPIKeys), authz.Paths(authz.DefaultPaths()), answer(d, nil)}, Aliases: podsAlias()}
				r, ctx := requesttest.Info(b, "GET", path), b.Context()
				b.ReportAllocs()
				for b.Loop() {
					_, _ = order.Authorize(ctx, bob, r)
				}
			})
		}
	}
}

func TestOlderNamesMeanWhatTheyAreCalledNow(t *testing.T) {
	var asked *request.Info
	older := authz.Order{Authorizers: authz.Union{authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
		asked = r
		return authz.Allow("", ""), nil
	})}}
	for path, want := range map[string]string{
		"/kapis/iam.kubesphere.io/v1alpha2/namespaces/a/members":   "namespacemembers  ",
		"/kapis/iam.kubesphere.io/v1alpha2/namespaces/a/members/b": "namespacemembers b ",
		"/kapis/iam.kubesphere.io/v1alpha2/users/b/globalroles":    "users b roletemplates",
		// The roles of a member are authorized as the member is.
		"/kapis/iam.kubesphere.io/v1alpha2/clustermembers/b/clusterroles":                  "clustermembers b ",
		"/kapis/iam.kubesphere.io/v1alpha2/workspaces/a/workspacemembers/b/workspaceroles": "workspacemembers b ",
		"/kapis/iam.kubesphere.io/v1alpha2/namespaces/a/members/b/roles":                   "namespacemembers b ",
		"/kapis/iam.kubesphere.io/v1alpha2/namespaces/a/namespacemembers/b/roles":          "namespacemembers b ",
		"/kapis/iam.kubesphere.io/v1alpha2/clustermembers/b/roles":                         "clustermembers b roles",
		"/kapis/iam.kubesphere.io/v1alpha2/clustermembers/b/status":                        "clustermembers b status",
		"/kapis/iam.kubesphere.io/v1alpha2/watch/clustermembers/b/clusterroles":            "clustermembers b clusterroles",
		"/kapis/iam.kubesphere.io/v1alpha2/members/b/roles":                                "members b ",
		"/kapis/iam.kubesphere.io/v1beta1/clustermembers/b/clusterroles":                   "clustermembers b clusterroles",
		"/kapis/config.kubesphere.io/v1alpha2/configs/gpu/kinds":                           "configs gpu ",
		"/kapis/config.kubesphere.io/v1alpha2/configs/oauth/kinds":                         "configs oauth kinds",
		"/kapis/iam.kubesphere.io/v1alpha2/users/b/password":                               "users b password",
		"/kapis/iam.kubesphere.io/v1alpha2/members":                                        "members  ",
		"/kapis/iam.kubesphere.io/v1beta1/namespaces/a/members":                            "members  ",
		"/kapis/iam.kubesphere.io/v1beta1/users/b/globalroles":                             "users b globalroles",
		"/apis/iam.kubesphere.io/v1alpha2/namespaces/a/members":                            "members  ",
		"/kapis/other/v1alpha2/namespaces/a/members":                                       "members  ",
	} {
		in := requesttest.Info(t, "GET", path)
		before := *in
		if d, err := older.Authorize(t.Context(), bob, in); err != nil || !d.Allowed() {
			t.Fatalf("%+v, %v", d, err)
		}
		if got := asked.Resource + " " + asked.Name + " " + asked.Subresource; got != want {
			t.Errorf("%s is decided as %s", path, got)
		}
		if *in != before || asked.Namespace != before.Namespace || asked.Scope != before.Scope {
			t.Errorf("%s: %+v became %+v", path, before, asked)
		}
	}
	if _, err := older.Authorize(t.Context(), bob, nil); err != nil || asked != nil {
		t.Errorf("nothing: %+v, %v", asked, err)
	}
}

// A terminal and files are commands in a container: the right to those decides, at whatever address, and no other name of the request.
func TestATerminalIsAuthorizedAsExec(t *testing.T) { // O1
	for path, want := range map[string]string{
		"/kapis/terminal.kubesphere.io/v1alpha2/namespaces/a/pods/p":                    "create pods/exec \"p\"",
		"/kapis/terminal.kubesphere.io/v1alpha2/namespaces/a/pods/p/exec":               "create pods/exec \"p\"",
		"/kapis/terminal.kubesphere.io/v1alpha2/namespaces/a/pods/p/file":               "create pods/exec \"p\"",
		"/kapis/terminal.kubesphere.io/v1alpha2/namespaces/a/pods":                      "list pods.terminal.kubesphere.io",
		"/kapis/terminal.kubesphere.io/v1alpha2/namespaces/a/pods/p/log":                "get pods/log.terminal.kubesphere.io \"p\"",
		"/kapis/terminal.kubesphere.io/v1alpha2/workspaces/w/namespaces/a/pods/p/exec":  "get pods/exec.terminal.kubesphere.io \"p\"",
		"/kapis/terminal.kubesphere.io/v1alpha2/nodes/n/exec":                           "create nodes/exec \"n\"",
		"/clusters/host/kapis/terminal.kubesphere.io/v1alpha2/nodes/n/exec":             "create nodes/exec \"n\"",
		"/kapis/terminal.kubesphere.io/v1alpha2/nodes/n":                                "get nodes.terminal.kubesphere.io \"n\"",
		"/kapis/terminal.kubesphere.io/v1alpha2/nodes/n/file":                           "get nodes/file.terminal.kubesphere.io \"n\"",
		"/kapis/terminal.kubesphere.io/v1alpha2/namespaces/a/nodes/n/exec":              "get nodes/exec.terminal.kubesphere.io \"n\"",
		"/kapis/terminal.kubesphere.io/v1alpha2/workspaces/w/nodes/n/exec":              "get nodes/exec.terminal.kubesphere.io \"n\"",
		"/apis/terminal.kubesphere.io/v1alpha2/namespaces/a/pods/p/exec":                "get pods/exec.terminal.kubesphere.io \"p\"",
		"/kapis/terminal2.kubesphere.io/v1alpha2/namespaces/a/pods/p/exec":              "get pods/exec.terminal2.kubesphere.io \"p\"",
		"/kapis/resources.kubesphere.io/v1alpha3/namespaces/a/pods/p/exec":              "get pods/exec.resources.kubesphere.io \"p\"",
		"/clusters/host/kapis/terminal.kubesphere.io/v1alpha2/namespaces/a/pods/p/exec": "create pods/exec \"p\"",
	} {
		var asked []string
		order := authz.Order{Authorizers: authz.Union{authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
			asked = append(asked, r.Asked())
			if r.Resource == "pods" && (r.Namespace != "a" || r.Scope != request.Namespace) ||
				r.Asked() == "create nodes/exec \"n\"" && r.Scope != request.Cluster {
				t.Errorf("%s: %+v", path, r)
			}
			return authz.Decision{}, nil
		})}}
		in := requesttest.Info(t, "GET", path)
		if d, err := order.Authorize(t.Context(), bob, in); err != nil || d.Allowed() || len(asked) != 1 || asked[0] != want {
			t.Errorf("%s is decided as %q, want %q (%v)", path, asked, want, err)
		}
	}
	said := authz.Forbidden(bob, requesttest.Info(t, "GET", "/kapis/terminal.kubesphere.io/v1alpha2/namespaces/a/pods/p/exec"), authz.Decision{}).Error()
	if want := `cannot create resource "pods/exec" in API group "" in the namespace "a"`; !strings.Contains(said, want) {
		t.Errorf("a refusal says %s", said)
	}
}

// The gateway of a project is one object, by whatever name a client writes it: the right to that object decides.
func TestOlderRoutesOfAGatewayAreAuthorizedAsTheGateway(t *testing.T) { // O22
	const router, gateways = "/kapis/resources.kubesphere.io/v1alpha2/namespaces/a/router", "/kapis/gateway.kubesphere.io/v1alpha1/namespaces/a/gateways"
	const own = ` "kubesphere-router-a"`
	for asked, want := range map[string]string{
		"GET " + router:                                         "get gateways.gateway.kubesphere.io" + own,
		"POST " + router:                                        "create gateways.gateway.kubesphere.io",
		"PUT " + router:                                         "update gateways.gateway.kubesphere.io" + own,
		"DELETE " + router:                                      "delete gateways.gateway.kubesphere.io" + own,
		"PATCH " + router:                                       "patch router.resources.kubesphere.io",
		"GET " + router + "?watch=true":                         "watch router.resources.kubesphere.io",
		"GET " + router + "/x":                                  `get router.resources.kubesphere.io "x"`,
		"GET " + gateways:                                       "list gateways.gateway.kubesphere.io",
		"POST " + gateways:                                      "create gateways.gateway.kubesphere.io",
		"PUT " + gateways:                                       "update gateways.gateway.kubesphere.io" + own,
		"DELETE " + gateways:                                    "delete gateways.gateway.kubesphere.io" + own,
		"DELETE " + gateways + "/g":                             `delete gateways.gateway.kubesphere.io "g"`,
		"GET " + gateways + "/g/pods":                           `get gateways.gateway.kubesphere.io "g"`,
		"GET " + gateways + "/g/pods/p/log":                     `get gateways.gateway.kubesphere.io "g"`,
		"GET " + gateways + "/g/logs":                           `get gateways.gateway.kubesphere.io "g"`,
		"POST " + gateways + "/g/upgrade":                       `create gateways.gateway.kubesphere.io "g"`,
		"PUT " + gateways + "/g/pods":                           `update gateways/pods.gateway.kubesphere.io "g"`,
		"PUT " + gateways + "/g/status":                         `update gateways/status.gateway.kubesphere.io "g"`,
		"GET " + gateways + "/g/upgrade":                        `get gateways/upgrade.gateway.kubesphere.io "g"`,
		"DELETE /apis" + gateways[6:]:                           "deletecollection gateways.gateway.kubesphere.io",
		"DELETE /kapis/gateway.kubesphere.io/v1alpha1/gateways": "deletecollection gateways.gateway.kubesphere.io",
		"DELETE /kapis/gateway.kubesphere.io/v1alpha2/namespaces/a/gateways":              "deletecollection gateways.gateway.kubesphere.io",
		"DELETE /kapis/gateway.kubesphere.io/v1alpha1/workspaces/w/namespaces/a/gateways": "deletecollection gateways.gateway.kubesphere.io",
		"PUT /kapis/resources.kubesphere.io/v1alpha3/namespaces/a/router":                 "update router.resources.kubesphere.io",
		"PUT /kapis/resources.kubesphere.io/v1alpha2/router":                              "update router.resources.kubesphere.io",
		"PUT /kapis/resources.kubesphere.io/v1alpha2/workspaces/w/namespaces/a/router":    "update router.resources.kubesphere.io",
		"DELETE /kapis/gateway.networking.k8s.io/v1alpha1/namespaces/a/gateways":          "deletecollection gateways.gateway.networking.k8s.io",
	} {
		method, path, _ := strings.Cut(asked, " ")
		var readings []*request.Info
		order := authz.Order{Authorizers: authz.Union{authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
			readings = append(readings, r)
			return authz.Decision{}, nil
		})}, Aliases: authz.Aliases{GroupOf: func(string) (schema.GroupResource, bool) { return schema.GroupResource{}, false }}}
		in := requesttest.Info(t, method, path)
		if d, err := order.Authorize(t.Context(), bob, in); err != nil || d.Allowed() || len(readings) != 1 {
			t.Fatalf("%s: %+v, %v, %d readings", asked, d, err, len(readings))
		}
		if got := readings[0]; got.Asked() != want || got.Namespace != in.Namespace || got.Scope != in.Scope {
			t.Errorf("%s is decided as %s in %q, want %s", asked, got.Asked(), got.Namespace, want)
		}
	}
}
