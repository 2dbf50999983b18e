package fleet

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/apiserver/fleetlist"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/tenant"
)

// Grants returns the rights that a user holds. rbac.Index is one.
type Grants interface {
	Held(u user.Info, at authz.BindingScope) []authz.Grant
}

// entry is who may enter a member: who is bound there, who holds a role on the platform that not everybody holds, who is bound in a
// workspace that is placed there, and everybody where the cluster is public.
type entry struct {
	members  *cluster.Members
	held     Grants
	bound    tenant.Memberships
	clusters *tenant.Clusters
}

// isEverybodys reports whether a grant is one that everybody has, who has logged in or not.
func isEverybodys(g authz.Grant) bool {
	return g.Subject.Kind == rbacv1.GroupKind && (g.Subject.Name == user.AllAuthenticated || g.Subject.Name == user.AllUnauthenticated)
}

// reason returns why a user may enter a cluster, "" if they may not.
func (e entry) reason(ctx context.Context, u user.Info, name string) (string, error) {
	m := e.members.ByName(name)
	if u == nil || m == nil {
		return "", nil
	}
	for _, g := range e.held.Held(u, authz.BindingScope{Scope: request.Global}) {
		if !isEverybodys(g) {
			return "they hold the role " + g.Role.Name, nil
		}
	}
	switch {
	case m.Binds(u.GetName()):
		return "they are bound there", nil
	case authz.ClusterOf(u) != "": // nobody has bound it there, and it is nobody for whom it is public
		return "", nil
	case m.Labels[clusterv1alpha1.LabelVisibility] == clusterv1alpha1.VisibilityPublic:
		return "it is public", nil
	}
	in, _ := e.bound.Memberships(u)
	if in == nil {
		return "", nil
	}
	templates, err := e.clusters.Store.Snapshot(ctx, tenantv1beta1.SchemeGroupVersion.WithResource("workspacetemplates"))
	if err != nil {
		return "", err
	}
	for _, workspace := range in.Workspaces {
		t, found := templates.Get("", workspace)
		if !found {
			continue
		}
		placed, err := e.clusters.Placed(ctx, t.JSON.String())
		if err != nil {
			return "", err
		}
		if slices.Contains(placed, name) {
			return "a workspace of theirs is placed there", nil
		}
	}
	return "", nil
}

// Entering returns the authorizer that decides, for requests to members, who may enter the member; all other requests are left to next.
func (h *Hub) Entering(next authz.Authorizer) authz.Authorizer {
	if h == nil {
		return next
	}
	return entering{h, next}
}

// MayList returns a function that reports whether a user may know which clusters there are.
func (*Hub) MayList(may authz.Authorizer) func(context.Context, user.Info) bool {
	return func(ctx context.Context, u user.Info) bool {
		d, err := may.Authorize(ctx, u, &request.Info{Verb: "list", IsResource: true, APIPrefix: "kapis", APIGroup: ClustersKind.Group,
			APIVersion: ClustersKind.Version, Resource: ClustersKind.Resource, Scope: request.Cluster,
			Path: "/kapis/" + ClustersKind.GroupVersion().String() + "/" + ClustersKind.Resource})
		return err == nil && d.Allowed()
	}
}

// entering decides who may enter a member.
type entering struct {
	hub  *Hub
	next authz.Authorizer
}

// Authorize implements authz.Authorizer. It decides who enters a cluster; what they may do there is decided there, by its own roles.
func (e entering) Authorize(ctx context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
	lists := fleetlist.Owns(r)
	if !lists && (r == nil || r.Cluster == "" || e.hub.Members.ByName(r.Cluster) == nil) {
		return e.next.Authorize(ctx, u, r)
	}
	if d, err := authz.RestrictAPIKeys(ctx, u, r); err != nil || d.Denied() {
		return d, err
	}
	if lists {
		if u == nil || !slices.Contains(u.GetGroups(), user.AllAuthenticated) {
			return authz.Decision{}, nil
		}
		return authz.Allow("asks clusters, each of which decides what they may see there", ""), nil
	}
	why, err := e.hub.enter.reason(ctx, u, r.Cluster)
	if err == nil && why == "" {
		err = e.hub.Known() // what allows it may not have been read yet
	}
	if err != nil || why == "" {
		return authz.Decision{}, err
	}
	return authz.Allow("enters the cluster, which decides what they may do there: "+why, ""), nil
}
