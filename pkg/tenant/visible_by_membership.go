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

const (
	iamGroup       = "iam.kubesphere.io"
	resourcesGroup = "resources.kubesphere.io"
)

// The resources of the group whose lists show every user their own.
const (
	clusters           = "clusters"
	namespaces         = "namespaces"
	workspaces         = "workspaces"
	workspaceTemplates = "workspacetemplates"
	metrics            = "metrics"
	// Assignments move namespaces into a workspace. The right to create namespaces there is the right to do so.
	Assignments = "namespaceassignments"
)

// Memberships returns where users are bound. rbac.Index is one.
type Memberships interface {
	// Memberships returns the workspaces and the namespaces in which u, or one of u's groups, is bound to any role, sorted, nil for none;
	// and whether u is bound in the cluster.
	Memberships(u user.Info) (in *authz.PartialList, cluster bool)
}

// Members lets users see what they are members of, where no role allows it. See the package's comment.
type Members struct {
	// Rights decides by roles alone which callers may invite. See ReducedQuery.
	Rights authz.Authorizer
	Bound  Memberships
	Fleet  *Clusters
}

var _ authz.Members = (*Members)(nil)

// Readings implements authz.Members: a right to a kind itself is a right to the routes that show it to members.
func (m *Members) Readings(u user.Info, r *request.Info) []*request.Info {
	switch {
	case !isOurs(r) && !isFleet(r) || !isPerson(u):
	case isFleet(r), r.OfCluster() && r.Resource == clusters:
		return []*request.Info{r.As(clustersKind.GroupResource())}
	case r.Resource == Assignments && r.Verb == "create" && r.Workspace != "" && r.Namespace == "":
		return []*request.Info{r.As(schema.GroupResource{Group: Group, Resource: namespaces})}
	case isWorkspaceNamespaces(r): // or those of all workspaces: the handler returns those of the workspace alone
		all := *r
		all.Workspace, all.Scope, all.Path = "", request.Cluster, "/kapis/"+Group+"/"+r.APIVersion+"/"+namespaces
		return []*request.Info{r.As(namespacesKind), &all, all.As(namespacesKind)}
	case r.OfCluster() && r.Resource == namespaces, isNamespace(r):
		return []*request.Info{r.As(namespacesKind)}
	}
	return nil
}

// Complete implements authz.Members.
func (m *Members) Complete(ctx context.Context, u user.Info, r *request.Info, d authz.Decision) (authz.Decision, error) {
	switch {
	case isEmptyForAll(r) && isPerson(u):
		return authz.Allow("the answer is the same to everyone: an empty list", ""), nil
	case !isKapis(r) || !isPerson(u):
	case isPeople(r): // every user sees themselves
		return authz.AllowPartial(authz.NewOwnPartialList(nil, nil, []string{u.GetName()}), d.Reason), nil
	case isFleet(r), isOurs(r) && r.OfCluster() && r.Resource == clusters:
		names, err := m.clusters(ctx, u)
		if err != nil {
			return authz.Decision{}, err
		}
		return authz.AllowPartial(authz.NewOwnPartialList(nil, nil, names), d.Reason), nil
	case isDetail(r):
		return m.detail(ctx, u, r, d)
	case !isOurs(r):
	case isAuditing(r): // the route shows each user their own
		return authz.Allow("every user sees their own audit events", ""), nil
	case isWorkspaceNamespaces(r):
		return m.namespaces(u, d), nil
	case r.OfCluster():
		return m.list(u, r, d), nil
	case r.Workspace != "" && r.Namespace == "":
		return m.within(u, r, d), nil
	case isNamespace(r):
		if in, _ := m.Bound.Memberships(u); has(namespacesOf(in), r.Name) {
			return authz.Allow("bound in the namespace "+strconv.Quote(r.Name), ""), nil
		}
	}
	return d, nil
}

// isOurs reports whether r is a request of this package's API group.
func isOurs(r *request.Info) bool { return isKapis(r) && r.APIGroup == Group }

func isKapis(r *request.Info) bool {
	return r != nil && r.IsResource && r.APIPrefix == "kapis" && r.Subresource == ""
}

func isList(r *request.Info) bool { return r.Name == "" && (r.Verb == "list" || r.Verb == "watch") }

// isPeople reports whether r is for the list of users.
func isPeople(r *request.Info) bool {
	return isKapis(r) && r.APIGroup == iamGroup && r.Resource == "users" && r.OfCluster()
}

// What older clients list in workspaces, and no workspace has any more.
const (
	FederatedNamespaces = "federatednamespaces"
	DevOps              = "devops"
)

// isEmptyForAll reports whether r is for a list that is empty for every caller: pages of older clients need an answer to it.
func isEmptyForAll(r *request.Info) bool {
	if r == nil || !r.IsResource || r.APIPrefix != "kapis" || r.APIGroup != Group || r.APIVersion != "v1alpha2" || r.Namespace != "" {
		return false
	}
	switch {
	case r.Resource == "workspacemembers":
		return r.Workspace != "" && r.Name != "" && r.Verb == "get" && r.Subresource == DevOps
	case r.Verb != "list" || r.Name != "" || r.Subresource != "":
		return false
	}
	return r.Resource == FederatedNamespaces || r.Resource == DevOps && r.Workspace != ""
}

// isFleet reports whether r is for the list of clusters in resources.kubesphere.io.
func isFleet(r *request.Info) bool {
	return isKapis(r) && r.APIGroup == resourcesGroup && r.Resource == clusters && r.OfCluster()
}

// isDetail reports whether r is for a workspace or a cluster in resources.kubesphere.io.
func isDetail(r *request.Info) bool {
	return isKapis(r) && r.APIGroup == resourcesGroup && r.Verb == "get" && r.Name != "" && r.Namespace == "" &&
		(r.Resource == workspaces || r.Resource == clusters)
}

// isWorkspaceNamespaces reports whether r, for which isOurs is true, is for the list of the namespaces of a workspace.
func isWorkspaceNamespaces(r *request.Info) bool {
	return r.Resource == namespaces && r.Workspace != "" && r.Namespace == "" && isList(r)
}

// isAuditing reports whether r, for which isOurs is true, is for the newest audit events.
func isAuditing(r *request.Info) bool {
	return r.Verb == "get" && r.Resource == "auditing" && r.Name == "events" && r.Namespace == "" && r.Workspace == ""
}

// isNamespace reports whether r, for which isOurs is true, is for one namespace.
func isNamespace(r *request.Info) bool {
	return r.Verb == "get" && r.Resource == namespaces && r.Name == r.Namespace && (r.Namespace != "" || r.Workspace == "")
}

// isPerson reports whether u has the group that authentication adds, so that nothing is allowed to a user who was not authenticated
// (S10).
func isPerson(u user.Info) bool {
	return u != nil && u.GetName() != "" && u.GetName() != user.Anonymous && slices.Contains(u.GetGroups(), user.AllAuthenticated)
}

// list decides about a list of the cluster that roles do not allow as a whole.
func (m *Members) list(u user.Info, r *request.Info, d authz.Decision) authz.Decision {
	switch r.Resource {
	case namespaces:
		return m.namespaces(u, d)
	case workspaces, workspaceTemplates:
		in, _ := m.Bound.Memberships(u)
		return authz.AllowPartial(authz.NewOwnPartialList(nil, workspacesOf(in.Or(d.PartialList())), nil), d.Reason)
	case metrics:
		var none *authz.PartialList
		if r.Verb == "list" { // each count is authorized by itself
			none = authz.NewOwnPartialList(nil, nil, nil)
		}
		return authz.AllowPartial(none, d.Reason)
	}
	return d
}

// namespaces decides about a list of namespaces.
func (m *Members) namespaces(u user.Info, d authz.Decision) authz.Decision {
	in, _ := m.Bound.Memberships(u)
	return authz.AllowPartial(authz.NewOwnPartialList(namespacesOf(in.Or(d.PartialList())), nil, nil), d.Reason)
}

// clusters returns the names of the clusters that u sees.
func (m *Members) clusters(ctx context.Context, u user.Info) ([]string, error) {
	in, cluster := m.Bound.Memberships(u)
	return m.Fleet.seen(ctx, u, cluster || in != nil)
}

// Granted returns the names of the clusters in which u, or one of u's groups, has a role of the cluster: fewer than u may see, since a
// member of a workspace sees this server's cluster as well.
func (m *Members) Granted(ctx context.Context, u user.Info) ([]string, error) {
	_, cluster := m.Bound.Memberships(u)
	return m.Fleet.granted(ctx, u, cluster)
}

// within decides about a request for a workspace, or in it.
func (m *Members) within(u user.Info, r *request.Info, d authz.Decision) authz.Decision {
	switch {
	case (r.Resource == workspaces || r.Resource == workspaceTemplates) && r.Verb == "get" && r.Name == r.Workspace,
		(r.Resource == clusters || r.Resource == metrics) && r.Verb == "list" && r.Name == "":
		return m.inWorkspace(u, r.Workspace, d)
	}
	return d
}

// detail decides about an object that tenant.kubesphere.io would show the same user.
func (m *Members) detail(ctx context.Context, u user.Info, r *request.Info, d authz.Decision) (authz.Decision, error) {
	if r.Resource == workspaces {
		return m.inWorkspace(u, r.Name, d), nil
	}
	names, err := m.clusters(ctx, u)
	if err != nil {
		return authz.Decision{}, err
	}
	if slices.Contains(names, r.Name) {
		return authz.Allow("sees the cluster "+strconv.Quote(r.Name), ""), nil
	}
	return d, nil
}

// inWorkspace allows what members of a workspace may see.
func (m *Members) inWorkspace(u user.Info, workspace string, d authz.Decision) authz.Decision {
	if in, _ := m.Bound.Memberships(u); has(workspacesOf(in), workspace) {
		return authz.Allow("bound in the workspace "+strconv.Quote(workspace), "")
	}
	return d
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
