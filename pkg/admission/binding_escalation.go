package admission

import (
	"cmp"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// binding checks a binding by the rights that the role gives to its new subjects.
func (q *escalationCheck) binding(scope request.Scope) error {
	if scope == request.Global && q.updates() {
		q.mayEndAdministrator()
	}
	at := q.now.scopeOf(scope, q.Namespace)
	same := q.updates() && at == q.old.scopeOf(scope, q.Namespace) && q.now.RoleRef == q.old.RoleRef
	had := map[rbacv1.Subject]bool{}
	for _, s := range q.old.Subjects {
		had[s] = same
	}
	subjects, system := 0, false
	for _, s := range q.now.Subjects {
		if had[s] {
			continue
		}
		subjects++
		if strings.HasPrefix(s.Name, iamv1beta1.SyntheticGroupPrefix) {
			return q.refuse(fmt.Sprintf("nobody can bind %.100q: names that begin with %s are this server's own", s.Name,
				iamv1beta1.SyntheticGroupPrefix))
		}
		if s.Kind == rbacv1.GroupKind {
			if err := q.checkGroupScope(s.Name, at); err != nil {
				return err
			}
		}
		system = system || s.Kind != rbacv1.ServiceAccountKind && strings.HasPrefix(s.Name, systemPrefix)
	}
	if subjects == 0 {
		return nil
	}
	role := authz.RoleRef{Scope: scope, Name: q.now.RoleRef.Name}
	if scope == request.Namespace {
		role.Namespace = q.Namespace
		// Its members are removed from the namespace, and would bind themselves again for as long as it takes.
		if w := q.guard.Holdings.WorkspaceOf(q.Namespace); q.guard.Known != nil && q.guard.Known.refs.IsEnding(w) {
			return q.refuse(fmt.Sprintf("the workspace %q, in which the namespace is, is being deleted: try again once it is gone", w))
		}
	}
	return cmp.Or(hubKeeps(q, at), q.mayGive(at, role, system))
}

// hubKeeps refuses what would count in a workspace that the hub of the fleet keeps here: who is removed from it there would keep it (S67).
func hubKeeps(q *escalationCheck, at authz.BindingScope) error {
	if q.guard.Known == nil || !q.guard.Known.refs.IsOfHub(at.Workspace) || q.By.GetName() == clusterv1alpha1.HubUser {
		return nil
	}
	return q.refuse(fmt.Sprintf("the hub of the fleet keeps the workspace %q here: its roles and members are written there", at.Workspace))
}
