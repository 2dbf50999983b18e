package authz_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

func scoped(t *testing.T, u user.Info, method, target string, header ...string) authz.Decision {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	info, err := request.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	d, err := authz.Union{authz.Func(authz.RestrictAPIKeys), authz.Paths(authz.DefaultPaths()), authz.AlwaysAllow()}.Authorize(t.Context(), u, info)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func with(scopes ...string) user.Info {
	return &user.DefaultInfo{Name: "bob", Groups: []string{user.AllAuthenticated}, Extra: map[string][]string{authz.ExtraScope: scopes}}
}

// U36: an API key with the scope "read" reads, and does nothing else, on any route.
func TestAKeyForReadingReadsOnly(t *testing.T) {
	const kapis, iam = "/kapis/resources.kubesphere.io/v1alpha3", "/kapis/iam.kubesphere.io/v1beta1"
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket"}
	for _, c := range []struct {
		method, target string
		header         []string
		reads          bool
	}{
		{http.MethodGet, "/api/v1/pods", nil, true},
		{http.MethodHead, "/api/v1/namespaces/a/pods/p", nil, true},
		{http.MethodGet, "/api/v1/pods?watch=true", upgrade, true},
		{http.MethodGet, "/api/v1/watch/pods", upgrade, true},
		{http.MethodGet, "/apis/apps/v1/namespaces/a/deployments/d/scale", nil, true},
		{http.MethodGet, "/api/v1/namespaces/a/pods/p/log?follow=true", nil, true},
		{http.MethodGet, "/clusters/host/api/v1/pods", nil, true},
		{http.MethodGet, kapis + "/pods?view=live", upgrade, true},
		{http.MethodGet, "/kapis/apps/v1/workspaces/w/deployments", nil, true},
		{http.MethodGet, "/version", nil, true},
		{http.MethodHead, "/openapi/v3", nil, true},
		{http.MethodGet, "/apis", nil, true},
		{http.MethodPost, iam + "/subjectaccessreviews", nil, true},

		{http.MethodPost, "/api/v1/namespaces/a/pods", nil, false},
		{http.MethodPut, "/api/v1/namespaces/a/pods/p", nil, false},
		{http.MethodPatch, kapis + "/namespaces/a/pods/p", nil, false},
		{http.MethodDelete, "/clusters/host/apis/apps/v1/namespaces/a/deployments/d", nil, false},
		{http.MethodDelete, "/api/v1/namespaces/a/pods", nil, false},
		{http.MethodPost, "/kapis/operations.kubesphere.io/v1alpha2/namespaces/a/jobs/j?action=rerun", nil, false},
		{http.MethodGet, "/api/v1/namespaces/a/pods/p/exec?command=sh", nil, false},
		{http.MethodGet, "/api/v1/namespaces/a/pods/p/exec?command=sh", upgrade, false},
		{http.MethodPost, "/api/v1/namespaces/a/pods/p/exec?command=sh", upgrade, false},
		{http.MethodGet, "/api/v1/namespaces/a/pods/p/attach", nil, false},
		{http.MethodGet, "/api/v1/namespaces/a/pods/p/portforward", upgrade, false},
		{http.MethodGet, "/api/v1/namespaces/a/pods/p/proxy/x", nil, false},
		{http.MethodGet, "/api/v1/namespaces/a/services/s/proxy", nil, false},
		{http.MethodGet, "/api/v1/proxy/namespaces/a/services/s", nil, false},
		{http.MethodGet, "/api/v1/nodes/n/proxy/run", nil, false},
		{http.MethodGet, "/clusters/host/api/v1/nodes/n/proxy/metrics", nil, false},
		{http.MethodGet, "/proxy/extension/x", nil, false},
		{http.MethodGet, "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/v/console", upgrade, false},
		{http.MethodGet, "/version", upgrade, false},
		{http.MethodPost, "/api/v1/namespaces/a/serviceaccounts/s/token", nil, false},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", nil, false},
		{http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", nil, false},
		{http.MethodPost, "/apis/iam.kubesphere.io/v1beta1/subjectaccessreviews", nil, false},
		{http.MethodPost, iam + "/subjectaccessreviews/alice", nil, false},
		{http.MethodPost, iam + "/users/bob/apikeys", nil, false},
		{http.MethodPost, "/oauth/token", nil, false},
		{http.MethodPost, "/static/images", nil, false},
		{http.MethodOptions, "/version", nil, false},
	} {
		key := scoped(t, with(authz.ScopeRead), c.method, c.target, c.header...)
		if key.Allowed() != c.reads || key.Denied() == c.reads || !c.reads && !strings.Contains(key.Reason, "for reading only") {
			t.Errorf("%s %s %v: %+v", c.method, c.target, c.header, key)
		}
		for _, u := range []user.Info{with("write"), with("read", "write"), with("Read"), with(""), with()} {
			if d := scoped(t, u, c.method, c.target, c.header...); d.Allowed() || !d.Denied() || !strings.Contains(d.Reason, "unknown") {
				t.Errorf("%s %s with %q: %+v", c.method, c.target, u.GetExtra(), d)
			}
		}
		free := &user.DefaultInfo{Name: "bob", Groups: []string{user.AllAuthenticated}}
		if d := scoped(t, free, c.method, c.target, c.header...); !d.Allowed() {
			t.Errorf("%s %s without a scope: %+v", c.method, c.target, d)
		}
	}
}

func TestAScopeGivesNothing(t *testing.T) {
	none := authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
		return authz.Decision{Reason: "no role"}, nil
	})
	d, err := authz.Union{authz.Func(authz.RestrictAPIKeys), none}.Authorize(t.Context(), with(authz.ScopeRead),
		&request.Info{Verb: "list", Resource: "pods", IsResource: true})
	if err != nil || d.Allowed() || d.Reason != "no role" {
		t.Errorf("%+v %v", d, err)
	}
}

// F47: the scope of a cluster covers what is asked of that member, and nothing of this server or of another member; nothing else reads as one.
func TestACredentialOfAClusterIsForThatClusterOnly(t *testing.T) {
	edge := with(authz.ScopeCluster + "edge")
	for _, c := range []struct {
		method, target string
		covered        bool
	}{
		{http.MethodGet, "/clusters/edge/api/v1/pods", true},
		{http.MethodPost, "/clusters/edge/api/v1/namespaces/a/pods/p/exec?command=x", true},
		{http.MethodDelete, "/kapis/clusters/edge/tenant.kubesphere.io/v1beta1/workspaces/w", true},
		{http.MethodGet, "/clusters/edge/version", true},

		{http.MethodGet, "/api/v1/pods", false},
		{http.MethodGet, "/version", false},
		{http.MethodGet, "/healthz", false},
		{http.MethodGet, "/oauth/userinfo", false},
		{http.MethodGet, "/clusters/edge2/api/v1/pods", false},
		{http.MethodGet, "/clusters/host/api/v1/pods", false},
		{http.MethodGet, "/fleet/kapis/resources.kubesphere.io/v1alpha3/pods?clusters=edge", false},
		{http.MethodPost, "/kapis/iam.kubesphere.io/v1beta1/subjectaccessreviews", false},
		{http.MethodGet, "/kapis/resources.kubesphere.io/v1alpha2/users/kubeconfig:edge/kubeconfig", false},
		{http.MethodGet, "/api/v1/namespaces/clusters/services/edge", false},
	} {
		if d := scoped(t, edge, c.method, c.target); d.Allowed() != c.covered || d.Denied() == c.covered {
			t.Errorf("%s %s: %+v", c.method, c.target, d)
		}
	}
	for _, scopes := range [][]string{{"cluster:"}, {"cluster"}, {"Cluster:edge"}, {"cluster:edge", "read"}, {"read", "cluster:edge"},
		{"cluster:edge", "cluster:edge"}, {"cluster:EDGE"}, {"cluster:edge "}, {}} {
		if d := scoped(t, with(scopes...), http.MethodGet, "/clusters/edge/api/v1/pods"); !d.Denied() {
			t.Errorf("%q: %+v", scopes, d)
		}
	}
	if name := authz.ClusterOf(with(authz.ScopeRead)); name != "" {
		t.Errorf("a key for reading is of the cluster %q", name)
	}
}
