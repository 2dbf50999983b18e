// Package roletemplate lists the role templates whose rights a user has, by which consoles choose what to show.
package roletemplate

import (
	"context"
	"encoding/json"

	restful "github.com/emicklei/go-restful/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/target"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

// everything are the rules of an unrestricted role.
var everything = []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}

// Rights returns what a user is bound to, and which of some rules they lack. rbac.Index is one.
type Rights interface {
	Held(u user.Info, at authz.BindingScope) []authz.Grant
	Missing(u user.Info, at authz.BindingScope, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule
}

// Caches returns roles and their templates. store.Store is one.
type Caches interface {
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error)
}

// Handler lists the role templates whose rights a user has, by which consoles choose what to show.
type Handler struct {
	Target *target.Users
	Rights Rights
	Caches Caches
}

// Mount adds the route of both versions.
func (h *Handler) Mount(ws *restful.WebService, older string) {
	ws.Route(ws.GET("/users/{user}/roletemplates").To(web.Handle(h.roleTemplates)).Operation("list" + older + "UserRoleTemplates").
		Doc("The role templates whose rights a user has at a scope: what pages show the user").
		Param(ws.QueryParameter("scope", "global, workspace, cluster or namespace")).
		Param(ws.QueryParameter("workspace", "the workspace, where scope is workspace")).
		Param(ws.QueryParameter("namespace", "the namespace, where scope is namespace")).
		Param(ws.PathParameter("user", "name of the user")))
}

// roleTemplates answers with the templates of the user's roles at a scope.
func (h *Handler) roleTemplates(r *restful.Request) (any, error) {
	held, _, err := h.held(r, r.QueryParameter("scope"), r.QueryParameter("workspace"), r.QueryParameter("namespace"))
	if err != nil {
		return nil, err
	}
	out := make([]json.RawMessage, 0, len(held))
	for _, t := range held {
		out = append(out, json.RawMessage(t))
	}
	return wire.ListOf(out), nil
}

// held returns the templates of the user's roles at a scope, and those all of whose rules the user holds there by roles of wider scopes. A
// user who holds everything has all templates of the scope.
func (h *Handler) held(r *restful.Request, scope, workspace, namespace string) ([]string, *binding.Scope, error) {
	u, err := h.Target.Named(r)
	if err != nil {
		return nil, nil, err
	}
	l, at, err := requestedScope(scope, workspace, namespace)
	if err != nil {
		return nil, nil, err
	}
	ctx := r.Request.Context()
	who := target.LoggedIn(u)
	if by := request.UserFrom(ctx); target.IsSelf(r, u) {
		who = by // with the groups of the login
	}
	snap, err := h.Caches.Snapshot(ctx, wire.Resource("roletemplates"))
	if err != nil {
		return nil, nil, err
	}
	all := len(h.Rights.Missing(who, at, everything)) == 0
	var named map[string]bool
	if !all {
		if named, err = h.templatesOf(ctx, l, who, at); err != nil {
			return nil, nil, err
		}
	}
	var out []string
	snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		t := snap.Record(ref)
		if of, _ := t.Labels.Get(iamv1beta1.LabelScope); of != scope {
			return true
		}
		if template := t.JSON.String(); all || named[t.Name] || h.holds(who, at, template) {
			out = append(out, template)
		}
		return true
	})
	return out, l, nil
}

// requestedScope returns the scope that the parameters name.
func requestedScope(scope, workspace, namespace string) (*binding.Scope, authz.BindingScope, error) {
	switch scope {
	case iamv1beta1.ScopeGlobal:
		return &binding.Platform, authz.BindingScope{}, nil
	case iamv1beta1.ScopeCluster:
		return &binding.Cluster, authz.BindingScope{Scope: request.Cluster}, nil
	case iamv1beta1.ScopeWorkspace:
		if workspace == "" {
			return nil, authz.BindingScope{}, apierrors.NewBadRequest("the parameter workspace is missing: scope=workspace asks about one")
		}
		return &binding.Workspace, authz.BindingScope{Scope: request.Workspace, Workspace: workspace}, nil
	case iamv1beta1.ScopeNamespace:
		if namespace == "" {
			return nil, authz.BindingScope{}, apierrors.NewBadRequest("the parameter namespace is missing: scope=namespace asks about one")
		}
		return &binding.Namespace, authz.BindingScope{Scope: request.Namespace, Namespace: namespace}, nil
	}
	return nil, authz.BindingScope{}, status.BadRequestf("the parameter scope is %.100q: expected global, workspace,"+
		" cluster or namespace", scope)
}

// templatesOf returns the names of the templates of the roles that are bound at this very scope.
func (h *Handler) templatesOf(ctx context.Context, l *binding.Scope, who user.Info, at authz.BindingScope) (map[string]bool, error) {
	roles, err := h.Caches.Snapshot(ctx, wire.Resource(l.RoleResource))
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, g := range h.Rights.Held(who, at) {
		role, ok := roles.Get(g.Role.Namespace, g.Role.Name)
		if !ok {
			continue
		}
		if _, conditional := role.Annotations.Get(iamv1beta1.AnnotationCELCondition); conditional {
			continue // it grants what is the user's own, not what is in the scope
		}
		if of, labelled := role.Labels.Get(tenantv1beta1.LabelWorkspace); labelled && of != at.Workspace {
			continue // a role of another workspace grants nothing here
		}
		for e := rawjson.Array(role.JSON.Get("aggregationRoleTemplates", "templateNames")); e.Next(); {
			named[rawjson.Text(e.Value)] = true
		}
	}
	return named, nil
}

// holds reports whether a user holds all rules of a template. Without rules it says nothing about the user, and is not held.
func (h *Handler) holds(who user.Info, at authz.BindingScope, template string) bool {
	text := rawjson.Get(template, "spec", "rules")
	if len(text) < len(`[{}]`) {
		return false
	}
	var rules []rbacv1.PolicyRule
	if err := json.Unmarshal([]byte(text), &rules); err != nil || len(rules) == 0 {
		return false
	}
	return len(h.Rights.Missing(who, at, rules)) == 0
}
