package tenant_test

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
)

// If an authorizer denies the route or the kind itself, no membership allows it, nor a partial list.
func TestNoMembershipAllowsWhatIsForbidden(t *testing.T) {
	w := sample(t)
	for name, forbidden := range map[string]func(*request.Info) bool{
		"TheRoute":      func(r *request.Info) bool { return r.APIGroup != "" && r.APIGroup != "cluster.kubesphere.io" },
		"TheKindItself": func(r *request.Info) bool { return r.APIGroup == "" || r.APIGroup == "cluster.kubesphere.io" },
	} {
		a := w.authorizer(newFleet(t))
		next := a.Authorizers[0]
		a.Authorizers[0] = authz.Func(func(ctx context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
			if forbidden(r) {
				return authz.Deny("never"), nil
			}
			return next.Authorize(ctx, u, r)
		})
		for _, path := range []string{at + "/namespaces", at + "/clusters", at + "/workspaces/a/namespaces", at + "/workspaces/a/namespaces/a1"} {
			r := requesttest.Info(t, "GET", path)
			if d, err := a.Authorize(t.Context(), person("project"), r); err != nil || !d.Denied() || d.Allowed() || d.PartialList() != nil {
				t.Errorf("%s %s: %+v, %v", name, path, d, err)
			}
		}
	}
}
