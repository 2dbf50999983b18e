package tenant

import (
	"context"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Group is the API group of workspaces.
const Group = "tenant.kubesphere.io"

// The resources of the group whose lists are everybody's own.
const (
	clusters           = "clusters"
	namespaces         = "namespaces"
	workspaces         = "workspaces"
	workspaceTemplates = "workspacetemplates"
	metrics            = "metrics"
	// Assignments take namespaces into a workspace. Whoever may create namespaces there may.
	Assignments = "namespaceassignments"
)

// Memberships tell where people are bound. rbac.Index is one.
type Memberships interface {
	// Memberships returns the workspaces and the namespaces in which u, or one of u's groups, is bound, whatever to, sorted, nil for none;
	// and whether u is bound in the cluster.
	Memberships(u user.Info) (in *authz.PartialList, cluster bool)
}

// Authorizer lets people see what they are members of, where roles do not say so. See the package's comment.
type Authorizer struct {
	// Next decides first: what it allows is allowed. It is asked again about the kind itself where a route stands for one of
	// another group.
	Next  authz.Authorizer
	Bound Memberships
	Fleet *Clusters
}

// Authorize implements authz.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
	d, err := a.Next.Authorize(ctx, u, r)
	if err != nil || d.Allowed() || d.Denied() || !isPerson(u) {
		return d, err
	}
	switch {
	case isPeople(r):
		return people(u, d), nil
	case isFleet(r):
		return a.clusters(ctx, u, r, d)
	case isDetail(r):
		return a.detail(ctx, u, r, d)
	case !isOurs(r):
	case r.Resource == Assignments && r.Verb == "create" && r.Workspace != "" && r.Namespace == "":
		return a.Next.Authorize(ctx, u, r.As(schema.GroupResource{Group: Group, Resource: namespaces}))
	case r.OfCluster():
		return a.list(ctx, u, r, d)
	case r.Workspace != "" && r.Namespace == "":
		return a.within(ctx, u, r, d)
	case r.Verb == "get" && r.Resource == namespaces && r.Name == r.Namespace:
		return a.namespace(ctx, u, r, d)
	}
	return d, nil
}

// isOurs tells the requests that this package may have to say something about.
func isOurs(r *request.Info) bool { return isKapis(r) && r.APIGroup == Group }

func isKapis(r *request.Info) bool {
	return r != nil && r.IsResource && r.APIPrefix == "kapis" && r.Subresource == ""
}

// isPerson asks for the group that authentication gives, so that nothing is let through for somebody of whom nothing is known (S10).
func isPerson(u user.Info) bool {
	return u != nil && u.GetName() != "" && u.GetName() != user.Anonymous && slices.Contains(u.GetGroups(), user.AllAuthenticated)
}

// list decides about a list of the cluster that roles do not open as a whole.
func (a *Authorizer) list(ctx context.Context, u user.Info, r *request.Info, d authz.Decision) (authz.Decision, error) {
	switch r.Resource {
	case namespaces:
		return a.namespaces(ctx, u, r, d)
	case workspaces, workspaceTemplates:
		in, _ := a.Bound.Memberships(u)
		return authz.AllowPartial(authz.NewOwnPartialList(nil, workspacesOf(in.Or(d.PartialList())), nil), d.Reason), nil
	case clusters:
		return a.clusters(ctx, u, r, d)
	case metrics:
		var none *authz.PartialList
		if r.Verb == "list" { // each count asks for its own
			none = authz.NewOwnPartialList(nil, nil, nil)
		}
		return authz.AllowPartial(none, d.Reason), nil
	}
	return d, nil
}

// namespaces decides about the list of all namespaces: a right to the kind itself counts too.
func (a *Authorizer) namespaces(ctx context.Context, u user.Info, r *request.Info, d authz.Decision) (authz.Decision, error) {
	kind, err := a.Next.Authorize(ctx, u, r.As(schema.GroupResource{Resource: namespaces}))
	if err != nil || kind.Allowed() || kind.Denied() {
		return kind, err
	}
	in, _ := a.Bound.Memberships(u)
	list := in.Or(d.PartialList()).Or(kind.PartialList())
	return authz.AllowPartial(authz.NewOwnPartialList(namespacesOf(list), nil, nil), d.Reason), nil
}

// clusters decides about the list of clusters.
func (a *Authorizer) clusters(ctx context.Context, u user.Info, r *request.Info, d authz.Decision) (authz.Decision, error) {
	kind, err := a.Next.Authorize(ctx, u, r.As(clustersKind.GroupResource()))
	if err != nil || kind.Allowed() || kind.Denied() {
		return kind, err
	}
	in, cluster := a.Bound.Memberships(u)
	names, err := a.Fleet.seen(ctx, u, cluster || in != nil)
	if err != nil {
		return authz.Decision{}, err
	}
	return authz.AllowPartial(authz.NewOwnPartialList(nil, nil, names), d.Reason), nil
}

// within decides about what is asked of a workspace, or in it.
func (a *Authorizer) within(ctx context.Context, u user.Info, r *request.Info, d authz.Decision) (authz.Decision, error) {
	isList := r.Name == "" && (r.Verb == "list" || r.Verb == "watch")
	switch {
	case r.Resource == namespaces && isList:
		kind, err := a.Next.Authorize(ctx, u, r.As(schema.GroupResource{Resource: namespaces}))
		if err != nil || kind.Allowed() || kind.Denied() {
			return kind, err
		}
		all := *r
		all.Workspace, all.Scope, all.Path = "", request.Cluster, "/kapis/"+Group+"/"+r.APIVersion+"/"+namespaces
		return a.Authorize(ctx, u, &all) // what of all namespaces: the handler looks at those of the workspace alone
	case (r.Resource == workspaces || r.Resource == workspaceTemplates) && r.Verb == "get" && r.Name == r.Workspace,
		(r.Resource == clusters || r.Resource == metrics) && r.Verb == "list" && r.Name == "":
		in, _ := a.Bound.Memberships(u)
		if has(workspacesOf(in), r.Workspace) {
			return authz.Allow("bound in the workspace "+strconv.Quote(r.Workspace), ""), nil
		}
	}
	return d, nil
}

// namespace decides about one namespace.
func (a *Authorizer) namespace(ctx context.Context, u user.Info, r *request.Info, d authz.Decision) (authz.Decision, error) {
	kind, err := a.Next.Authorize(ctx, u, r.As(schema.GroupResource{Resource: namespaces}))
	if err != nil || kind.Allowed() || kind.Denied() {
		return kind, err
	}
	if in, _ := a.Bound.Memberships(u); has(namespacesOf(in), r.Name) {
		return authz.Allow("bound in the namespace "+strconv.Quote(r.Name), ""), nil
	}
	return d, nil
}

func workspacesOf(p *authz.PartialList) []string {
	if p == nil {
		return nil
	}
	return p.Workspaces
}

func namespacesOf(p *authz.PartialList) []string {
	if p == nil {
		return nil
	}
	return p.Namespaces
}

func has(sorted []string, name string) bool {
	_, ok := slices.BinarySearch(sorted, name)
	return ok && name != ""
}
