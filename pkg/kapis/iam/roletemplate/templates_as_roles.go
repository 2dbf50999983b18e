package roletemplate

import (
	"context"
	"encoding/json"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

// OlderRole is a template in the form of a role, which it was for older clients.
type OlderRole struct {
	metav1.TypeMeta
	Metadata json.RawMessage `json:"metadata"`
	Rules    json.RawMessage `json:"rules"`
}

// MountOlder adds the routes by which older clients ask for the templates of a user's roles. They answer with a bare array.
func (h *Handler) MountOlder(ws *restful.WebService) {
	h.mountOlder(ws, iamv1beta1.ScopeGlobal, "/users/{user}/"+binding.Platform.RoleResource, "listOlderUserGlobalRoles")
	for _, m := range []struct {
		scope string
		*binding.Scope
		members string
	}{
		{iamv1beta1.ScopeCluster, &binding.Cluster, binding.Cluster.MemberResource},
		{iamv1beta1.ScopeWorkspace, &binding.Workspace, binding.Workspace.MemberResource},
		{iamv1beta1.ScopeNamespace, &binding.Namespace, binding.Namespace.MemberResource},
		{iamv1beta1.ScopeNamespace, &binding.Namespace, authz.LegacyMembers},
	} {
		h.mountOlder(ws, m.scope, m.PathPrefix+"/"+m.members+"/{user}/"+m.RoleResource,
			"listOlder"+strings.ToUpper(m.members[:1])+m.members[1:]+"Roles")
	}
}

func (h *Handler) mountOlder(ws *restful.WebService, scope, path, operation string) {
	list := func(r *restful.Request) (any, error) {
		held, l, err := h.held(r, scope, r.PathParameter("workspace"), r.PathParameter("namespace"))
		if err != nil {
			return nil, err
		}
		modules, err := Modules(r.Request.Context(), h.Caches)
		if err != nil {
			return nil, err
		}
		out := make([]OlderRole, 0, len(held))
		for _, template := range held {
			out = append(out, AsRole(template, l, modules))
		}
		return wire.Private{Value: out}, nil
	}
	route := ws.GET(path).To(web.Handle(list)).Operation(operation).Param(ws.PathParameter("user", "name of the user")).
		Doc("The role templates whose rights a user has here, in the form of roles")
	for _, name := range []string{"workspace", "namespace"} {
		if strings.Contains(path, "{"+name+"}") {
			route.Param(ws.PathParameter(name, "name of the "+name))
		}
	}
	ws.Route(route)
}

// annotationModule is what older clients list a template under: the Category of today.
const annotationModule = "iam.kubesphere.io/module"

// Modules returns the display names of categories, by their names.
func Modules(ctx context.Context, caches Caches) (map[string]string, error) {
	out := map[string]string{}
	snap, err := caches.Snapshot(ctx, wire.Resource("categories"))
	if apierrors.IsNotFound(err) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		out[ref.Name] = snap.Record(ref).JSON.GetText("spec", "displayName", "en")
		return true
	})
	return out, nil
}

// AsRole returns a template in the form of a role at a scope. modules are those of Modules.
func AsRole(template string, l *binding.Scope, modules map[string]string) OlderRole {
	group := schema.GroupVersion{Group: wire.Group, Version: wire.OlderVersion}
	if l.RoleKind == iamv1beta1.KindClusterRole || l.RoleKind == iamv1beta1.KindRole {
		group = rbacv1.SchemeGroupVersion // older releases had no kinds of their own for these
	}
	rules := rawjson.Get(template, "spec", "rules")
	if len(rules) == 0 || rules == "null" {
		rules = "[]"
	}
	return OlderRole{
		TypeMeta: metav1.TypeMeta{APIVersion: group.String(), Kind: l.RoleKind},
		Metadata: olderMetadata(template, modules), Rules: json.RawMessage(rules),
	}
}

// olderMetadata returns the metadata of a template with the label and the annotations by which older clients know and show it.
func olderMetadata(template string, modules map[string]string) json.RawMessage {
	raw := json.RawMessage(rawjson.Get(template, "metadata"))
	var metadata map[string]any
	if err := json.Unmarshal(raw, &metadata); err != nil {
		return raw // no object has such metadata
	}
	member := func(name string) map[string]any {
		if m, ok := metadata[name].(map[string]any); ok {
			return m
		}
		m := map[string]any{}
		metadata[name] = m
		return m
	}
	labels, annotations := member("labels"), member("annotations")
	labels[iamv1beta1.LabelRoleTemplate] = "true"
	category, _ := labels[iamv1beta1.LabelCategory].(string)
	for key, value := range map[string]string{
		tenantv1beta1.AnnotationAliasName: rawjson.GetText(template, "spec", "displayName", "en"), annotationModule: modules[category],
	} {
		if _, set := annotations[key]; !set && value != "" {
			annotations[key] = value
		}
	}
	out, err := json.Marshal(metadata)
	if err != nil {
		return raw
	}
	return out
}
