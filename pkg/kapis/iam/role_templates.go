package iam

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	restful "github.com/emicklei/go-restful/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// everything is what a role grants that has no bounds.
var everything = []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}

// roleTemplates answers with the templates whose rights a user has at a place, which tell pages what to show him: those that make up his roles
// there, his groups' too, and those all of whose rules he holds there by roles of a wider place. Who holds everything has all templates of the scope.
func (h *V1beta1) roleTemplates(r *restful.Request) (any, error) {
	u, err := h.user(r, "roletemplates")
	if err != nil {
		return nil, err
	}
	scope := r.QueryParameter("scope")
	l, at, err := placeAsked(scope, r.QueryParameter("workspace"), r.QueryParameter("namespace"))
	if err != nil {
		return nil, err
	}
	ctx := r.Request.Context()
	who := groupsOf(u)
	if by := request.UserFrom(ctx); isSelf(r, u) {
		who = by // with the groups that his login brought
	}
	snap, err := h.Caches.Snapshot(ctx, resourceOf("roletemplates"))
	if err != nil {
		return nil, err
	}
	all := len(h.Rights.Missing(who, at, everything)) == 0
	var named map[string]bool
	if !all {
		if named, err = h.templatesOf(ctx, l, who, at); err != nil {
			return nil, err
		}
	}
	out := []json.RawMessage{}
	snap.ByName(store.All()).Walk(0, false, func(ref *store.Ref) bool {
		t := snap.Record(ref)
		if of, _ := t.Labels.Get(iamv1beta1.LabelScope); of != scope {
			return true
		}
		if all || named[t.Name] || h.holds(who, at, t.JSON.String()) {
			out = append(out, json.RawMessage(t.JSON.String()))
		}
		return true
	})
	return listOf(out), nil
}

// placeAsked reads which place a request asks about.
func placeAsked(scope, workspace, namespace string) (*level, authz.Place, error) {
	switch scope {
	case iamv1beta1.ScopeGlobal:
		return &platform, authz.Place{}, nil
	case iamv1beta1.ScopeCluster:
		return &inCluster, authz.Place{Scope: request.Cluster}, nil
	case iamv1beta1.ScopeWorkspace:
		if workspace == "" {
			return nil, authz.Place{}, apierrors.NewBadRequest("the parameter workspace is missing: scope=workspace asks about one")
		}
		return &inWorkspace, authz.Place{Scope: request.Workspace, Workspace: workspace}, nil
	case iamv1beta1.ScopeNamespace:
		if namespace == "" {
			return nil, authz.Place{}, apierrors.NewBadRequest("the parameter namespace is missing: scope=namespace asks about one")
		}
		return &inNamespace, authz.Place{Scope: request.Namespace, Namespace: namespace}, nil
	}
	return nil, authz.Place{}, apierrors.NewBadRequest(fmt.Sprintf("the parameter scope is %.100q: expected global, workspace, cluster or namespace", scope))
}

// templatesOf returns the names of the templates that make up the roles which are bound at the very place.
func (h *V1beta1) templatesOf(ctx context.Context, l *level, who user.Info, at authz.Place) (map[string]bool, error) {
	roles, err := h.Caches.Snapshot(ctx, resourceOf(l.roles))
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
			continue // it grants what is one's own: that is no part of the place
		}
		if of, labelled := role.Labels.Get(tenantv1beta1.LabelWorkspace); labelled && of != at.Workspace {
			continue // a role of another workspace grants nothing here
		}
		for e := rawjson.Array(rawjson.Get(role.JSON.String(), "aggregationRoleTemplates", "templateNames")); e.Next(); {
			named[rawjson.Text(e.Value)] = true
		}
	}
	return named, nil
}

// holds tells whether somebody holds all that a template grants. One that grants nothing says nothing of who holds it.
func (h *V1beta1) holds(who user.Info, at authz.Place, template string) bool {
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

// globalRoles lists the roles that a user has on the platform, as older clients ask for them.
func (h *V1beta1) globalRoles(r *restful.Request) (any, error) {
	u, err := h.user(r, "globalroles")
	if err != nil {
		return nil, err
	}
	roles, err := h.Caches.Snapshot(r.Request.Context(), resourceOf(platform.roles))
	if err != nil {
		return nil, err
	}
	return listOf(rolesOf(roles, h.Rights.Held(withOwnGroups(u), authz.Place{}), authz.Place{})), nil
}

// withOwnGroups is a user with the groups that are his own: what everybody has who is logged in is not told.
func withOwnGroups(u *iam.User) user.Info {
	return &user.DefaultInfo{Name: u.Name, Groups: u.Groups}
}

// rolesOf returns the roles that are granted at a place, each once.
func rolesOf(roles *store.Snapshot, grants []authz.Grant, at authz.Place) []json.RawMessage {
	out, seen := []json.RawMessage{}, []authz.RoleRef{}
	for _, g := range grants {
		role, ok := roles.Get(g.Role.Namespace, g.Role.Name)
		if !ok || slices.Contains(seen, g.Role) {
			continue
		}
		if of, labelled := role.Labels.Get(tenantv1beta1.LabelWorkspace); at.Scope == request.Workspace && labelled && of != at.Workspace {
			continue // a role of another workspace grants nothing here
		}
		seen = append(seen, g.Role)
		out = append(out, json.RawMessage(role.JSON.String()))
	}
	return out
}
