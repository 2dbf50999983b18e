package iam

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/admission"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// Rights tell who is bound to what, and what a caller lacks of what a role grants. rbac.Index is one.
type Rights interface {
	Held(u user.Info, at authz.Place) []authz.Grant
	Missing(u user.Info, at authz.Place, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule
	MissingOf(u user.Info, at authz.Place, role authz.RoleRef) (missing []rbacv1.PolicyRule, found bool)
	// Memberships has the namespaces in which somebody is bound.
	Memberships(u user.Info) (p *authz.Part, cluster bool)
	WorkspaceOf(namespace string) string
}

// Guard refuses writes that would grant more than their writer holds. admission.Guard is one.
type Guard interface {
	Check(ctx context.Context, w *admission.Write) error
	// Unnamed refuses to let somebody become a user whom bindings of Kubernetes' own name.
	Unnamed(ctx context.Context, by user.Info, name string, groups []string) error
}

// Caches have the objects of kinds. store.Store is one.
type Caches interface {
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*store.Snapshot, error)
	SnapshotAt(ctx context.Context, gvr schema.GroupVersionResource, version string) (*store.Snapshot, error)
	SnapshotWithout(ctx context.Context, gvr schema.GroupVersionResource, namespace, name, uid string) (*store.Snapshot, error)
}

// level is one scope: how its roles, their bindings and the members that these make are called.
type level struct {
	scope request.Scope
	// roles and bindings are plurals, role is the kind of a role.
	roles, bindings, role string
	// members is the resource of the routes; empty on the platform, where every user is one.
	members string
	// at is what stands before it in a path.
	at string
	// param asks a list for one role, and place for the place; annotation tells the role in an answer.
	param, place, annotation string
}

// The levels. A place of theirs is an authz.Place.
var (
	platform = level{
		scope: request.Global, roles: "globalroles", bindings: "globalrolebindings", role: iamv1beta1.KindGlobalRole,
		param: "globalrole", annotation: iamv1beta1.AnnotationGlobalRole,
	}
	inCluster = level{
		scope: request.Cluster, roles: "clusterroles", bindings: "clusterrolebindings", role: iamv1beta1.KindClusterRole,
		members: "clustermembers", param: "clusterrole", place: "cluster", annotation: iamv1beta1.AnnotationClusterRole,
	}
	inWorkspace = level{
		scope: request.Workspace, roles: "workspaceroles", bindings: "workspacerolebindings", role: iamv1beta1.KindWorkspaceRole,
		members: "workspacemembers", at: "/workspaces/{workspace}",
		param: "workspacerole", place: "workspace", annotation: iamv1beta1.AnnotationWorkspaceRole,
	}
	inNamespace = level{
		scope: request.Namespace, roles: "roles", bindings: "rolebindings", role: iamv1beta1.KindRole,
		members: "namespacemembers", at: "/namespaces/{namespace}",
		param: "role", place: "namespace", annotation: iamv1beta1.AnnotationRole,
	}
)

func resourceOf(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: plural}
}

// pathOf is where kube-apiserver has the objects of a kind of the level that are in a namespace, if the level has one.
func pathOf(plural, namespace string) string {
	path := "/apis/" + Group + "/" + Version
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + plural
}

// value is what the parameter of the place is for a place.
func (l *level) value(at authz.Place) string {
	switch l.scope {
	case request.Workspace:
		return at.Workspace
	case request.Namespace:
		return at.Namespace
	}
	return "true"
}

// placeOf returns the place that the path of a request names, after holding that this very path was authorized for the verb, and that there
// is such a place.
func (h *V1beta1) placeOf(r *restful.Request, l *level, verb, name string) (authz.Place, error) {
	at, err := namedPlace(r, l, verb, name, "")
	if err != nil {
		return at, err
	}
	return at, h.exists(r.Request.Context(), at)
}

// namedPlace is placeOf for what is beneath a member too, and where it does not matter whether there is such a place.
func namedPlace(r *restful.Request, l *level, verb, name, subresource string) (authz.Place, error) {
	at := authz.Place{Scope: l.scope, Workspace: r.PathParameter("workspace"), Namespace: r.PathParameter("namespace")}
	info := request.InfoFrom(r.Request.Context())
	if !isHere(info) || info.Resource != l.members && (l.scope != request.Namespace || info.Resource != authz.OlderMembers) ||
		info.Name != name || info.Subresource != subresource || info.Workspace != at.Workspace || info.Namespace != at.Namespace {
		return at, nothingHere()
	}
	if info.Verb != verb {
		return at, apierrors.NewMethodNotSupported(schema.GroupResource{Group: Group, Resource: info.Resource}, info.Verb)
	}
	return at, nil
}

// isHere tells whether a request is for this group, in one of the versions that are served.
func isHere(i *request.Info) bool {
	return i != nil && i.IsResource && !i.IsKubernetes && i.APIGroup == Group && (i.APIVersion == Version || i.APIVersion == OlderVersion)
}

func nothingHere() error {
	return status(http.StatusNotFound, metav1.StatusReasonNotFound, "there is no resource at this path", 0)
}

// exists tells that there is no such place. A workspace is there as soon as its template is.
func (h *V1beta1) exists(ctx context.Context, at authz.Place) error {
	var gvrs []schema.GroupVersionResource
	name := at.Namespace
	switch at.Scope {
	case request.Workspace:
		name = at.Workspace
		tenant := tenantv1beta1.SchemeGroupVersion
		gvrs = []schema.GroupVersionResource{tenant.WithResource("workspaces"), tenant.WithResource("workspacetemplates")}
	case request.Namespace:
		gvrs = []schema.GroupVersionResource{{Version: "v1", Resource: "namespaces"}}
	default:
		return nil
	}
	for _, gvr := range gvrs {
		snap, err := h.Caches.Snapshot(ctx, gvr)
		if err != nil {
			return err
		}
		if _, ok := snap.Get("", name); ok {
			return nil
		}
	}
	return apierrors.NewNotFound(gvrs[0].GroupResource(), name)
}

// role returns the object of a role of a place. A role of another workspace is not there.
func (h *V1beta1) role(ctx context.Context, l *level, at authz.Place, name string) (*store.Record, error) {
	snap, err := h.Caches.Snapshot(ctx, resourceOf(l.roles))
	if err != nil {
		return nil, err
	}
	r, ok := snap.Get(at.Namespace, name)
	if ok && l.scope == request.Workspace {
		of, labelled := r.Labels.Get(tenantv1beta1.LabelWorkspace)
		ok = !labelled || of == at.Workspace
	}
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: Group, Resource: l.roles}, name)
	}
	return r, nil
}

// himself is a user without his groups: what is bound to him by his own name.
func himself(name string) user.Info { return &user.DefaultInfo{Name: name} }

// roleAt returns the role that answers show a user with: of several, the one that was asked for, or that of the first binding by name.
func (h *V1beta1) roleAt(name string, at authz.Place, asked string) string {
	role := ""
	for _, g := range h.Rights.Held(himself(name), at) {
		if g.Role.Name == asked {
			return asked
		}
		if role == "" {
			role = g.Role.Name
		}
	}
	return role
}

// binding is the object that gives a role to one user.
func (l *level) binding(at authz.Place, name, username, role string) ([]byte, error) {
	labels := map[string]string{}
	for key, value := range map[string]string{
		iamv1beta1.LabelUserReference: username, iamv1beta1.LabelRoleReference: role, tenantv1beta1.LabelWorkspace: at.Workspace,
	} {
		if value != "" && isLabelValue(value) {
			labels[key] = value
		}
	}
	metadata := map[string]any{"name": name, "labels": labels}
	if at.Namespace != "" {
		metadata["namespace"] = at.Namespace
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": Group + "/" + Version, "kind": l.role + "Binding", "metadata": metadata,
		"subjects": []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: username}},
		"roleRef":  rbacv1.RoleRef{APIGroup: Group, Kind: l.role, Name: role},
	})
	if err != nil {
		return nil, fmt.Errorf("make a binding of %s: %w", l.role, err)
	}
	return raw, nil
}
