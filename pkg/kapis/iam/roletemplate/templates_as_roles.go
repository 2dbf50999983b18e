package roletemplate

import (
	"encoding/json"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/web"
)

// olderRole is a template in the form of a role, which it was for older clients.
type olderRole struct {
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
		out := make([]olderRole, 0, len(held))
		for _, template := range held {
			out = append(out, asRole(template, l))
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

// asRole returns a template in the form of a role at a scope.
func asRole(template string, l *binding.Scope) olderRole {
	group := schema.GroupVersion{Group: wire.Group, Version: wire.OlderVersion}
	if l.RoleKind == iamv1beta1.KindClusterRole || l.RoleKind == iamv1beta1.KindRole {
		group = rbacv1.SchemeGroupVersion // older releases had no kinds of their own for these
	}
	rules := rawjson.Get(template, "spec", "rules")
	if len(rules) == 0 || rules == "null" {
		rules = "[]"
	}
	return olderRole{
		TypeMeta: metav1.TypeMeta{APIVersion: group.String(), Kind: l.RoleKind},
		Metadata: json.RawMessage(rawjson.Get(template, "metadata")), Rules: json.RawMessage(rules),
	}
}
