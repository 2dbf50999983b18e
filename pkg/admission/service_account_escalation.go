package admission

import (
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// serviceAccount checks the role of its namespace that an annotation names.
func (q *escalationCheck) serviceAccount() error {
	role := q.now.Metadata.Annotations[iamv1beta1.AnnotationRole]
	if role == "" || role == q.old.Metadata.Annotations[iamv1beta1.AnnotationRole] {
		return nil
	}
	at := authz.BindingScope{Scope: request.Namespace, Namespace: q.Namespace}
	return q.mayGive(at, authz.RoleRef{Scope: request.Namespace, Namespace: q.Namespace, Name: role}, false)
}
