package defaults

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// noteName is the Secret that has the objects which were made, of those that are made once. Users who manage clusters may write ConfigMaps,
// and no Secrets.
const noteName = "ks-controller-manager-defaults"

// administrators is the role that every installation has had from its first start.
const administrators = "platform-admin"

// isMadeOnce reports whether an object says who has a role. Made a second time, it would give the role to the user who has the name by
// then, and undo what administrators have changed.
func isMadeOnce(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "GlobalRoleBinding", "ClusterRoleBinding", "Workspace":
		return true
	}
	return false
}

// namesUser reports whether an object that is made once gives a role to a name that a User may have, which none of Kubernetes' own is.
func namesUser(o *unstructured.Unstructured) bool {
	if manager, _, _ := unstructured.NestedString(o.Object, "spec", "manager"); manager != "" {
		return true
	}
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	for _, s := range subjects {
		of, _ := s.(map[string]any)
		if name, _ := of["name"].(string); of["kind"] == rbacv1.UserKind && !strings.HasPrefix(name, "system:") {
			return true
		}
	}
	return false
}

func noted(o *unstructured.Unstructured) string { return o.GetKind() + "." + o.GetName() }

// note returns the Secret, and creates it if there is none. An installation that has roles without it is one of an earlier version: what
// names a user there, and is missing, was deleted, and is not made again. One that has the Secret without roles was uninstalled: what names
// no user is made again.
func (r *Runnable) note(ctx context.Context, objects []*unstructured.Unstructured) (*corev1.Secret, error) {
	err := r.Live.Get(ctx, client.ObjectKey{Name: administrators}, &iamv1beta1.GlobalRole{})
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("see whether there are roles: %w", err)
	}
	isNew := err != nil
	note := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: noteName}}
	err = r.Live.Get(ctx, client.ObjectKeyFromObject(note), note)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read which bindings were made: %w", err)
	}
	if note.Data == nil {
		note.Data = map[string][]byte{}
	}
	for _, o := range objects {
		switch byName := namesUser(o); {
		case !isMadeOnce(o):
		case isNew && !byName:
			delete(note.Data, noted(o))
		case !isNew && byName && err != nil:
			note.Data[noted(o)] = []byte("left")
		}
	}
	if err != nil {
		if err := r.Client.Create(ctx, note); err != nil {
			return nil, fmt.Errorf("note which bindings were made: %w", err)
		}
	}
	return note, nil
}

// makeOnce creates an object, unless it is there or was made before, and notes it.
func (r *Runnable) makeOnce(ctx context.Context, note *corev1.Secret, o *unstructured.Unstructured) error {
	key := noted(o)
	if _, ok := note.Data[key]; ok {
		return nil
	}
	if err := r.Client.Create(ctx, o, client.FieldOwner(owner)); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if note.Data == nil { // nothing was in what was created
		note.Data = map[string][]byte{}
	}
	note.Data[key] = []byte("made")
	return r.Client.Update(ctx, note)
}
