package admission

import (
	"context"
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

var (
	workspacesKind = tenantv1beta1.SchemeGroupVersion.WithResource("workspaces")
	allKinds       = schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}
)

// checkCreation refuses to create a workspace, or the template of one, with a name that is in use: by the workspace, by its template, or
// by the label of other objects. Creation over something that exists is to update it and to delete it, so that both rights are needed
// (S65). Namespaces of a workspace that is gone would belong to the new one: that takes the rights that moving them takes (S69). So would
// its repositories, applications and releases in the store: whoever may change any workspace makes it.
func checkCreation(ctx context.Context, rights WriterRights, kind schema.GroupVersionResource, name string) error {
	other, what := workspacesKind, "workspace"
	if kind == workspacesKind {
		other, what = templatesKind, "template of a workspace"
	}
	there, err := rights.Exists(ctx, other, name)
	if err != nil {
		return err
	}
	if name == tenantv1beta1.SystemWorkspace {
		if ok, err := rights.May(ctx, "*", allKinds); err != nil || !ok {
			return deniedOf(kind, name, err, "the workspace of the system is made by those who may do everything")
		}
		return nil
	}
	var left Leftovers
	if !there {
		if left, err = rights.Leftovers(ctx, name); err != nil {
			return err
		}
	}
	for _, verb := range []string{"update", "delete"} {
		if there {
			if ok, err := rights.MayIn(ctx, verb, templatesKind, name); err != nil || !ok {
				return deniedOf(kind, name, err, "there is a %s of this name: who may update and delete the template of that workspace makes this,"+
					" others take another name", what)
			}
		}
		if left.Namespaces {
			if ok, err := rights.MayInNamespaces(ctx, verb, name); err != nil || !ok {
				return deniedOf(kind, name, err, "there are namespaces with the label %s of a workspace of this name: who may update and delete"+
					" them makes it, others take another name", tenantv1beta1.LabelWorkspace)
			}
		}
		if left.InStore != "" {
			if ok, err := rights.MayIn(ctx, verb, templatesKind, name); err != nil || !ok {
				return deniedOf(kind, name, err, "there are %s of the application store with the label %s of a workspace of this name: take another"+
					" name, or ask an administrator of the platform, who makes the workspace, or deletes them", left.InStore,
					tenantv1beta1.LabelWorkspace)
			}
		}
		if left.Bindings {
			if ok, err := rights.MayIn(ctx, verb, templatesKind, name); err != nil || !ok {
				return deniedOf(kind, name, err, "there are bindings of a workspace of this name: take another name, or, if the workspace was"+
					" deleted, try again a minute after that")
			}
		}
	}
	return nil
}

// checkEnd refuses to change when a workspace or its template is deleted, and what is deleted with it, without the right to delete it:
// the garbage collector and the controllers act on these fields for any writer (S65). before is empty for a creation.
func checkEnd(ctx context.Context, rights WriterRights, kind schema.GroupVersionResource, name string, before,
	after *metav1.ObjectMeta) error {
	what := ""
	switch {
	case len(after.OwnerReferences) > 0 && !equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences):
		what = "metadata.ownerReferences"
	case !equality.Semantic.DeepEqual(before.Finalizers, after.Finalizers):
		what = "metadata.finalizers"
	}
	if what != "" {
		if ok, err := rights.May(ctx, "delete", kind); err != nil || !ok {
			return deniedOf(kind, name, err, "%s say when it goes: they are set by those who may delete any of the %s", what, kind.Resource)
		}
	}
	const propagation = tenantv1beta1.AnnotationDeletionPropagation
	if now := after.Annotations[propagation]; now == "" || now == before.Annotations[propagation] ||
		now == string(metav1.DeletePropagationOrphan) {
		return nil
	}
	if ok, err := rights.MayIn(ctx, "delete", templatesKind, name); err != nil || !ok {
		return deniedOf(kind, name, err, "the annotation %s says that namespaces go with it: it is set by those who may delete it", propagation)
	}
	return nil
}

// existing checks the Workspace itself: its manager, its owners, and its end.
func (q *escalationCheck) existing() error {
	if q.Verb == "delete" {
		return nil
	}
	if err := q.workspace(); err != nil {
		return err
	}
	var before, after metav1.PartialObjectMetadata
	if err := decodeInto(q.Object, &after); err != nil {
		return q.refuse("the object can't be read: " + err.Error())
	}
	rights := held{q}
	if q.updates() {
		if err := decodeInto(q.Old, &before); err != nil {
			return q.refuse("the object as it is can't be read: " + err.Error())
		}
	} else if err := checkCreation(q.ctx, rights, workspacesKind, q.Name); err != nil {
		return err
	}
	const uid = tenantv1beta1.AnnotationTemplateUID
	if before.Annotations[uid] != after.Annotations[uid] {
		if ok, err := rights.May(q.ctx, "delete", workspacesKind); err != nil || !ok {
			return deniedOf(workspacesKind, q.Name, err,
				"the annotation %s says which template decides over it: it is set by those who may delete any of the workspaces", uid)
		}
	}
	if !maps.Equal(before.Labels, after.Labels) {
		if ok, err := rights.May(q.ctx, "delete", workspacesKind); err != nil || !ok {
			return deniedOf(workspacesKind, q.Name, err,
				"metadata.labels choose the roles that it gets: they are set by those who may delete any of the workspaces")
		}
	}
	return checkEnd(q.ctx, rights, workspacesKind, q.Name, &before.ObjectMeta, &after.ObjectMeta)
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
	at, admin := managerRole(q.Name)
	if _, found := q.guard.Holdings.MissingOf(q.By, at, admin); !q.updates() && !found && !q.isSystem(at) {
		return nil
	}
	return q.mayManage(q.Name, q.GVR.Resource)
}

// managerRole returns the role of a workspace's manager, and where it counts.
func managerRole(workspace string) (authz.BindingScope, authz.RoleRef) {
	return authz.BindingScope{Scope: request.Workspace, Workspace: workspace},
		authz.RoleRef{Scope: request.Workspace, Name: workspace + "-admin"}
}

// mayManage returns nil if the writer may give a workspace to a manager: one who may write all objects of a kind that names the manager
// may, except in that of the system.
func (q *escalationCheck) mayManage(workspace string, kinds ...string) error {
	at, admin := managerRole(workspace)
	for _, kind := range kinds {
		manage := []rbacv1.PolicyRule{{Verbs: []string{"create", "update", "delete"}, APIGroups: []string{tenantv1beta1.GroupName},
			Resources: []string{kind}}}
		if !q.isSystem(at) && len(q.guard.Holdings.Missing(q.By, authz.BindingScope{}, manage)) == 0 {
			return nil
		}
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
