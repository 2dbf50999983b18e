package fleetsync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
	"kapis.dev/ks-apiserver/pkg/status"
)

// apply applies changes in their order.
func (m *Member) apply(ctx context.Context, in *Changes) (*Outcome, error) {
	if in.Hub == "" {
		return nil, status.BadRequestf("the changes do not say of which hub they are")
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	out := &Outcome{}
	for i := range in.Changes {
		c := &in.Changes[i]
		k, ok := kindOf(c.Kind)
		switch {
		case !ok:
			out.pend(c.Ref, errOtherKind)
		case c.Object == nil:
			m.delete(ctx, k, *c, in.Hub, out.pend)
		default:
			if err := m.put(ctx, k, c, in); err != nil {
				out.pend(c.Ref, err)
			}
		}
	}
	return out, nil
}

var (
	errOther     = errors.New("this cluster has one of that name of its own: rename or delete it here")
	errOtherKind = errors.New("this version keeps no objects of that kind for a hub")
)

// put creates or updates an object, which is one of in.
func (m *Member) put(ctx context.Context, k schema.GroupVersionResource, c *Change, in *Changes) error {
	hub := in.Hub
	next := &unstructured.Unstructured{}
	if err := json.Unmarshal(c.Object, &next.Object); err != nil {
		return fmt.Errorf("read the object: %w", err)
	}
	if next.GetName() != c.Name {
		return errors.New("the object has another name")
	}
	set := func(o *unstructured.Unstructured) {
		labels, annotations := o.GetLabels(), o.GetAnnotations()
		if labels == nil {
			labels = map[string]string{}
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		labels[LabelFleet], annotations[annotationHash] = hub, stored(c.Kind, c.Hash)
		o.SetLabels(labels)
		o.SetAnnotations(annotations)
	}
	set(next)
	if why, err := m.refusal(ctx, k, next, in); err != nil {
		return err
	} else if why != nil {
		return m.refuse(ctx, k, c, hub, next, why)
	}
	objects := m.Objects.Resource(k)
	_, err := objects.Create(ctx, next, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	now, err := objects.Get(ctx, c.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	switch of := now.GetLabels()[LabelFleet]; {
	case of == hub && isAnother(now, next):
		return m.replace(ctx, k, c, hub, next)
	case of == hub:
	case sameGrant(now, next):
		if keeps, err := m.keeps(ctx, now, next, hub); of != "" || !keeps {
			return err // as the cluster's own already is
		}
	case of != "":
		return fmt.Errorf("another hub keeps it here, whose kube-system has the UID %.64s: this cluster leaves that fleet first", of)
	default:
		return errOther
	}
	// What this cluster's own controllers wrote stays: finalizers, their labels and annotations, the status.
	next.SetResourceVersion(now.GetResourceVersion())
	next.SetUID(now.GetUID())
	next.SetFinalizers(now.GetFinalizers())
	next.SetOwnerReferences(now.GetOwnerReferences())
	next.SetLabels(merged(now.GetLabels(), next.GetLabels()))
	next.SetAnnotations(merged(now.GetAnnotations(), next.GetAnnotations()))
	if s, ok := now.Object["status"]; ok {
		next.Object["status"] = s
	}
	_, err = objects.Update(ctx, next, metav1.UpdateOptions{})
	return err
}

// isAnother reports whether the hub's object is another one than that which this cluster has of the name: the hub's was deleted and made
// anew before this cluster was told.
func isAnother(now, next *unstructured.Unstructured) bool {
	of := iamv1beta1.AnnotationFleetUID
	former, uid := now.GetAnnotations()[of], next.GetAnnotations()[of]
	return former != "" && uid != "" && former != uid
}

var errFormer = errors.New("the hub has another one of that name than before: the former is deleted here first, with what it has here")

// replace deletes an object whose name the hub has given to another one, and then creates that: what this cluster has for the former one,
// bindings of a user, or namespaces of a workspace, must not be the other's.
func (m *Member) replace(ctx context.Context, k schema.GroupVersionResource, c *Change, hub string, next *unstructured.Unstructured) error {
	var failed error
	m.delete(ctx, k, Change{Ref: c.Ref}, hub, func(_ Ref, err error) { failed = err })
	if failed != nil {
		return failed
	}
	_, err := m.Objects.Resource(k).Create(ctx, next, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // its finalizers are being worked on
		return errFormer
	}
	return err
}

func merged(now, next map[string]string) map[string]string {
	if now == nil {
		return next
	}
	for k, v := range next {
		now[k] = v
	}
	return now
}

// keeps reports whether a role or a binding is of the same workspace as the hub's, and the hub keeps that workspace here: then the hub
// keeps it, too, so that it goes when the hub's does.
func (m *Member) keeps(ctx context.Context, now, next *unstructured.Unstructured, hub string) (bool, error) {
	name := next.GetLabels()[tenantv1beta1.LabelWorkspace]
	if name == "" || now.GetLabels()[tenantv1beta1.LabelWorkspace] != name {
		return false, nil
	}
	return m.isOfHub(ctx, kinds[0], name, hub)
}

// sameGrant reports whether two roles or bindings give the same to the same.
func sameGrant(a, b *unstructured.Unstructured) bool {
	found := false
	for _, field := range []string{"rules", "roleRef", "subjects"} {
		one, has := a.Object[field]
		other, too := b.Object[field]
		if has != too || has && !exchange.EqualJSON(one, other) {
			return false
		}
		found = found || has
	}
	return found
}

// delete deletes an object that the hub keeps here, and nothing else.
func (m *Member) delete(ctx context.Context, k schema.GroupVersionResource, c Change, hub string, pend func(Ref, error)) {
	objects := m.Objects.Resource(k)
	now, err := objects.Get(ctx, c.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (now.GetLabels()[LabelFleet] != hub || now.GetDeletionTimestamp() != nil) {
		return
	}
	if err == nil && k.Resource == "workspaces" {
		now, err = m.propagate(ctx, now, c.Propagation)
	}
	if err == nil {
		uid, version := now.GetUID(), now.GetResourceVersion()
		err = objects.Delete(ctx, c.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		pend(c.Ref, err)
	}
}

// propagate writes into a workspace what becomes of its namespaces when it is deleted: they stay, unless the hub says otherwise (F28).
func (m *Member) propagate(ctx context.Context, w *unstructured.Unstructured, propagation string) (*unstructured.Unstructured, error) {
	if propagation == "" {
		propagation = string(metav1.DeletePropagationOrphan)
	}
	annotations := w.GetAnnotations()
	if annotations[tenantv1beta1.AnnotationDeletionPropagation] == propagation {
		return w, nil
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[tenantv1beta1.AnnotationDeletionPropagation] = propagation
	w.SetAnnotations(annotations)
	return m.Objects.Resource(kinds[0]).Update(ctx, w, metav1.UpdateOptions{})
}
