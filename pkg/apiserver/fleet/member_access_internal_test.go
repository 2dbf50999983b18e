package fleet

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/hub"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/tenant"
)

// grants are the global roles of users, and places the workspaces that they are bound in.
type (
	grants map[string][]authz.Grant
	places map[string][]string
)

func (g grants) Held(u user.Info, at authz.BindingScope) []authz.Grant {
	if at.Scope != request.Global {
		return nil
	}
	everybody := authz.Grant{Role: authz.RoleRef{Name: "authenticated"}, Subject: rbacv1.Subject{Kind: "Group", Name: "system:authenticated"}}
	return append([]authz.Grant{everybody}, g[u.GetName()]...)
}

func (p places) Memberships(u user.Info) (*authz.PartialList, bool) {
	return authz.NewPartialList(nil, p[u.GetName()]), true
}

// F14: who enters a member, and why; a role that everybody holds, or one on the hub itself, opens none.
func TestWhoEntersAMember(t *testing.T) {
	caches := kapistest.NewAccounts(t, map[string][]any{"/apis/tenant.kubesphere.io/v1beta1/workspacetemplates": {
		`{"metadata":{"name":"here","uid":"1","resourceVersion":"5"},"spec":{"placement":{"clusters":[{"name":"m1"}]}}}`,
		`{"metadata":{"name":"there","uid":"2","resourceVersion":"5"},"spec":{"placement":{"clusters":[{"name":"m2"}]}}}`}})
	members := &cluster.Members{Host: "host", Now: time.Now}
	for _, raw := range []string{`{"metadata":{"name":"m1","uid":"u1"},"spec":{"enable":true}}`,
		`{"metadata":{"name":"open","uid":"u2","labels":{"cluster.kubesphere.io/visibility":"public"}},"spec":{"enable":true}}`} {
		name := "m1"
		if strings.Contains(raw, "open") {
			name = "open"
		}
		members.Set(&store.Object{Name: name, Raw: []byte(raw)})
	}
	members.ByName("m1").SetBound([]string{"local"})
	h := &Hub{Hub: &hub.Hub{Members: members}, enter: entry{members,
		grants{"boss": {{Role: authz.RoleRef{Name: "platform-admin"}, Subject: rbacv1.Subject{Kind: "User", Name: "boss"}}},
			"team": {{Role: authz.RoleRef{Name: "viewer"}, Subject: rbacv1.Subject{Kind: "Group", Name: "devs"}}}},
		places{"tenant": {"here", "gone"}, "neighbour": {"there"}}, &tenant.Clusters{Store: caches, Host: "host"}}}
	next := authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
		return authz.Allow("next", ""), nil
	})
	// F5: a replica that has just been started refuses nobody, and says of no cluster that it does not exist, before it knows that.
	for name, allowed := range map[string]bool{"boss": true, "nobody": false} {
		d, err := h.Entering(next).Authorize(t.Context(), &user.DefaultInfo{Name: name}, &request.Info{Cluster: "m1"})
		if d.Allowed() != allowed || apierrors.IsServiceUnavailable(err) == allowed {
			t.Errorf("%s before all is known: %+v, %v", name, d, err)
		}
	}
	if has, err := h.Has("m1"); !has || err != nil {
		t.Errorf("a member that is known: %v, %v", has, err)
	}
	if has, err := h.Has("other"); has || !apierrors.IsServiceUnavailable(err) {
		t.Errorf("one that may not be known yet: %v, %v", has, err)
	}
	h.Fed(nil, nil)
	if has, err := h.Has("other"); has || err != nil {
		t.Errorf("one that there is not: %v, %v", has, err)
	}
	for _, x := range []struct{ name, cluster, want string }{
		{"boss", "m1", "platform-admin"}, {"team", "m1", "viewer"}, {"local", "m1", "bound there"}, {"tenant", "m1", "placed there"},
		{"neighbour", "m1", ""}, {"nobody", "m1", ""}, {"nobody", "open", "public"}, {"local", "open", "public"}, {"nobody", "host", "next"}, {"nobody", "", "next"},
	} {
		d, err := h.Entering(next).Authorize(t.Context(), &user.DefaultInfo{Name: x.name}, &request.Info{Cluster: x.cluster})
		if err != nil || d.Allowed() != (x.want != "") || !strings.Contains(d.Reason, x.want) {
			t.Errorf("%s at %q: %+v, %v, want %q", x.name, x.cluster, d, err, x.want)
		}
	}
	if d, err := h.Entering(next).Authorize(t.Context(), nil, &request.Info{Cluster: "m1"}); err != nil || d.Allowed() {
		t.Errorf("nobody at all: %+v, %v", d, err)
	}
	// F47: the user in the kubeconfig of a Cluster enters that cluster alone, and only where an administrator has bound it.
	of := &user.DefaultInfo{Name: "kubeconfig:open", Groups: []string{user.AllAuthenticated}, Extra: map[string][]string{authz.ExtraScope: {"cluster:open"}}}
	may := func(u user.Info, cluster string) bool {
		d, err := h.Entering(next).Authorize(t.Context(), u, &request.Info{Cluster: cluster})
		return err == nil && d.Allowed()
	}
	if may(of, "open") {
		t.Error("the user in a kubeconfig enters without a binding, where everybody may")
	}
	members.ByName("open").SetBound([]string{"kubeconfig:open"})
	members.ByName("m1").SetBound([]string{"kubeconfig:open"})
	if !may(of, "open") || may(of, "m1") {
		t.Errorf("bound in both, it enters its own: %v, the other one: %v", may(of, "open"), may(of, "m1"))
	}
	lists := &request.Info{Path: "/fleet/kapis/resources.kubesphere.io/v1alpha3/pods"}
	if d, err := h.Entering(next).Authorize(t.Context(), of, lists); err != nil || d.Allowed() {
		t.Errorf("it asks all clusters: %+v, %v", d, err)
	}
}

// F4: other replicas reach one at the address that it listens at, or where it listens everywhere at the one that it reaches kube-apiserver from.
func TestAReplicaKnowsWhereItIsReached(t *testing.T) {
	for name, x := range map[string]struct {
		listen    net.Addr
		apiserver string
		want      string
	}{
		"Loopback":   {&net.TCPAddr{IP: net.ParseIP("127.0.0.1"), Port: 9090}, "https://127.0.0.1:6443", "127.0.0.1:9090"},
		"Everywhere": {&net.TCPAddr{IP: net.IPv6zero, Port: 9090}, "https://127.0.0.1:6443", "127.0.0.1:9090"},
		"NoPort":     {&net.TCPAddr{IP: net.IPv4zero, Port: 9443}, "https://127.0.0.1", "127.0.0.1:9443"},
		"IPv6":       {&net.TCPAddr{IP: net.ParseIP("fd00::1"), Port: 9090}, "https://127.0.0.1", "[fd00::1]:9090"},
		"NoAddress":  {&net.UnixAddr{Name: "x"}, "https://127.0.0.1", ""},
		"NoServer":   {&net.TCPAddr{IP: net.IPv4zero, Port: 9090}, "::", ""},
	} {
		if got := peerAddress(t.Context(), x.listen, x.apiserver); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}
