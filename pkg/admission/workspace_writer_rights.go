package admission

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// WriterRights are further rights of the writer of a WorkspaceTemplate.
type WriterRights interface {
	// MayIn reports whether the writer may do a verb on the object of a kind that has the name of a workspace, on the platform or in that
	// workspace.
	MayIn(ctx context.Context, verb string, gvr schema.GroupVersionResource, workspace string) (bool, error)
	// MayInNamespaces reports whether the writer may do a verb on all namespaces of a workspace, in the cluster or in that workspace.
	MayInNamespaces(ctx context.Context, verb, workspace string) (bool, error)
	// Exists reports whether there is a workspace, or a template of one, of a name.
	Exists(ctx context.Context, gvr schema.GroupVersionResource, name string) (bool, error)
	// Leftovers returns what has the label of a workspace that is not there.
	Leftovers(ctx context.Context, workspace string) (Leftovers, error)
	// May reports whether the writer may do a verb on all objects of a kind, on the platform.
	May(ctx context.Context, verb string, gvr schema.GroupVersionResource) (bool, error)
	// Administers reports whether the writer may do everything in a cluster.
	Administers(ctx context.Context, cluster string) (bool, error)
	// IsPublic reports whether every workspace may be placed in a cluster.
	IsPublic(ctx context.Context, cluster string) (bool, error)
}

// Leftovers are what has the label of a workspace that is not there: a new workspace of that name would have it.
type Leftovers struct {
	Namespaces, Bindings bool
	// InStore is the plural of a kind of the application store of which an object has it, "" for none.
	InStore string
}

// held are the WriterRights by what the writer holds.
type held struct{ *escalationCheck }

// MayIn implements WriterRights.
func (h held) MayIn(ctx context.Context, verb string, gvr schema.GroupVersionResource, workspace string) (bool, error) {
	at := authz.BindingScope{Scope: request.Workspace, Workspace: workspace}
	rule := []rbacv1.PolicyRule{{
		Verbs: []string{verb}, APIGroups: []string{gvr.Group}, Resources: []string{gvr.Resource}, ResourceNames: []string{workspace},
	}}
	return h.holds(ctx, at, rule, verb, gvr, workspace)
}

// MayInNamespaces implements WriterRights. Roles of a workspace name its namespaces in either group.
func (h held) MayInNamespaces(ctx context.Context, verb, workspace string) (bool, error) {
	at := authz.BindingScope{Scope: request.Workspace, Workspace: workspace}
	for _, gvr := range []schema.GroupVersionResource{{Version: "v1", Resource: "namespaces"},
		tenantv1beta1.SchemeGroupVersion.WithResource("namespaces")} {
		rule := []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{gvr.Group}, Resources: []string{gvr.Resource}}}
		if ok, err := h.holds(ctx, at, rule, verb, gvr, ""); err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

// Exists implements WriterRights.
func (h held) Exists(_ context.Context, gvr schema.GroupVersionResource, name string) (bool, error) {
	if h.guard.Known == nil {
		return false, errors.New("see whether there is a workspace of the name: workspaces are not known here")
	}
	return h.guard.Known.refs.Exists(gvr.Resource, name), nil
}

// Leftovers implements WriterRights.
func (h held) Leftovers(ctx context.Context, workspace string) (left Leftovers, err error) {
	left.Namespaces, left.Bindings = h.guard.Holdings.Leftovers(workspace)
	if h.guard.InStore != nil {
		left.InStore, err = h.guard.InStore(ctx, workspace)
	}
	return left, err
}

// May implements WriterRights.
func (h held) May(ctx context.Context, verb string, gvr schema.GroupVersionResource) (bool, error) {
	rule := []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{gvr.Group}, Resources: []string{gvr.Resource}}}
	return h.holds(ctx, authz.BindingScope{}, rule, verb, gvr, "")
}

// Administers implements WriterRights. Bindings in other clusters are not known here.
func (h held) Administers(ctx context.Context, cluster string) (bool, error) {
	if h.guard.Host == "" || cluster != h.guard.Host {
		return false, nil
	}
	all := []string{"*"}
	rule := []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}}
	return h.holds(ctx, authz.BindingScope{Scope: request.Cluster}, rule, "*",
		schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}, "")
}

// IsPublic implements WriterRights.
func (h held) IsPublic(_ context.Context, cluster string) (bool, error) {
	if h.guard.Known == nil {
		return false, errors.New("see whether a cluster is public: clusters are not known here")
	}
	return h.guard.Known.isPublic(cluster), nil
}

// holds reports whether the writer holds a rule at a scope, or, for a writer who is no user of ours, whether kube-apiserver allows it.
func (h held) holds(ctx context.Context, at authz.BindingScope, rule []rbacv1.PolicyRule, verb string, gvr schema.GroupVersionResource,
	name string) (bool, error) {
	if len(h.guard.Holdings.Missing(h.By, at, rule)) == 0 {
		return true, nil
	}
	if h.guard.Native == nil {
		return false, nil
	}
	ok, err := h.guard.Native(ctx, h.By, verb, gvr, "", name)
	if err != nil {
		return false, fmt.Errorf("ask kube-apiserver whether %s may %s %s: %w", h.By.GetName(), verb, gvr.Resource, err)
	}
	return ok, nil
}
