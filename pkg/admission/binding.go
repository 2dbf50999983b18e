package admission

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// systemPrefix begins the names of users and groups that Kubernetes itself gives.
const systemPrefix = "system:"

// binding checks a binding by the rights that the role gives to its new subjects.
func (q *escalationCheck) binding(scope request.Scope) error {
	if scope == request.Global && q.updates() {
		q.mayEndAdministrator()
	}
	at := q.now.scopeOf(scope, q.Namespace)
	same := q.updates() && at == q.old.scopeOf(scope, q.Namespace) && q.now.RoleRef == q.old.RoleRef
	had := map[rbacv1.Subject]bool{}
	if same {
		for _, s := range q.old.Subjects {
			had[s] = true
		}
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
	}
	return q.mayGive(at, role, system)
}

// workspace checks who becomes the manager of an existing workspace, which gives them its role <workspace>-admin. A new workspace gives
// nothing away: the user who may create one chooses its manager. A workspace that has that role is not new, whichever of its objects is
// written; that of the system never is.
func (q *escalationCheck) workspace() error {
	if err := q.owners(); err != nil {
		return err
	}
	manager := q.now.manager()
	if manager == "" || manager == q.old.manager() {
		return nil
	}
	at := authz.BindingScope{Scope: request.Workspace, Workspace: q.Name}
	admin := authz.RoleRef{Scope: request.Workspace, Name: q.Name + "-admin"}
	if q.isSystem(at) {
		return q.mayGive(at, admin, false)
	}
	if _, found := q.guard.Holdings.MissingOf(q.By, at, admin); !q.updates() && !found {
		return nil
	}
	manage := []rbacv1.PolicyRule{{
		Verbs: []string{"create", "update", "delete"}, APIGroups: []string{tenantv1beta1.GroupName}, Resources: []string{q.GVR.Resource},
	}}
	if len(q.guard.Holdings.Missing(q.By, authz.BindingScope{}, manage)) == 0 {
		return nil
	}
	return q.mayGive(at, admin, false)
}

// owners checks the owners of an existing workspace, or of its template: kube-apiserver's garbage collector deletes an object that has
// lost its owners, even if the writer may not.
func (q *escalationCheck) owners() error {
	if !q.updates() || equality.Semantic.DeepEqual(q.now.Metadata.Owners, q.old.Metadata.Owners) {
		return nil
	}
	if ok, err := (held{q}).May(q.ctx, "delete", q.GVR); err != nil || ok {
		return err
	}
	return q.refuse("metadata.ownerReferences say when it goes: they are set by those who may delete any of the " + q.GVR.Resource)
}

// serviceAccount checks the role of its namespace that an annotation names.
func (q *escalationCheck) serviceAccount() error {
	role := q.now.Metadata.Annotations[iamv1beta1.AnnotationRole]
	if role == "" || role == q.old.Metadata.Annotations[iamv1beta1.AnnotationRole] {
		return nil
	}
	at := authz.BindingScope{Scope: request.Namespace, Namespace: q.Namespace}
	return q.mayGive(at, authz.RoleRef{Scope: request.Namespace, Namespace: q.Namespace, Name: role}, false)
}
