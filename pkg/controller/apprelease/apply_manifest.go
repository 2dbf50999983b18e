package apprelease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/status"
)

// fieldManager is the manager of the fields that releases of YAML documents set.
const fieldManager = "application-release"

// applyManifest applies YAML documents, and removes what former ones had and these have not. Objects are in the release's namespace,
// whatever the documents say, and of kinds of namespaces alone.
func (r *Reconciler) applyManifest(ctx context.Context, want *wanted, file []byte) error {
	rel := want.release
	documents, err := release.Manifest(file)
	if err != nil {
		return fmt.Errorf("the package of the version %s: %w", want.version.Name, err)
	}
	if len(want.values) > 0 {
		own, err := release.Manifest(want.values)
		if err == nil {
			err = release.SameKinds(documents, own)
		}
		if err != nil {
			return fmt.Errorf("spec.values: %w", err)
		}
		documents = own
	}
	in := want.namespace
	next := &release.Inventory{Type: release.Type(want.version), Namespace: in.Name, NamespaceUID: in.UID}
	for _, u := range documents {
		o, err := r.namespaced(want, u)
		if err != nil {
			return err
		}
		if len(without([]release.Object{o}, next.Objects)) == 0 {
			return release.Invalidf("the YAML has %s twice", o)
		}
		next.Objects = append(next.Objects, o)
	}
	objects, err := r.As(want.author.user, want.author.groups)
	if err != nil {
		return err
	}
	// What may be there is noted before it is. An object of another version of its kind is the same one.
	var former []release.Object
	if want.inventory != nil {
		former = without(want.inventory.Objects, next.Objects)
	}
	if len(former)+len(next.Objects) > release.MaxObjects {
		return release.Invalidf("the release would have more than %d objects: remove former ones first", release.MaxObjects)
	}
	both := *next
	both.Operation, both.Objects = want.id, slices.Concat(next.Objects, former)
	both.Earlier = want.inventory != nil && want.inventory.Earlier
	if err := r.note(ctx, rel, &both); err != nil {
		return err
	}
	for i, u := range documents {
		if err := apply(ctx, objects, rel, next.Objects[i], u); err != nil {
			return err
		}
	}
	for _, o := range former {
		if _, err := removeObject(ctx, objects, rel, o); err != nil {
			return err
		}
	}
	return r.note(ctx, rel, next)
}

// namespaced puts an object into the release's namespace, and marks it as the release's.
func (r *Reconciler) namespaced(want *wanted, u *unstructured.Unstructured) (release.Object, error) {
	gvk := u.GroupVersionKind()
	o := release.Object{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: want.namespace.Name, Name: u.GetName()}
	mapping, err := r.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return o, &helm.Error{Reason: "UnknownKind", Transient: true, Message: fmt.Sprintf("this cluster has no kind %s of %s", gvk.Kind,
			gvk.GroupVersion())}
	}
	if err != nil {
		return o, fmt.Errorf("look up the kind %s of %s: %w", gvk.Kind, gvk.GroupVersion(), err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return o, release.Invalidf(
			"%s %.253q is an object of the cluster: a release of YAML documents has objects of its namespace alone", gvk.Kind, o.Name)
	}
	o.Resource = mapping.Resource.Resource
	u.SetNamespace(want.namespace.Name)
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v2.LabelRelease] = want.release.Name
	u.SetLabels(labels)
	u.SetUID("")
	u.SetResourceVersion("")
	u.SetManagedFields(nil)
	u.SetOwnerReferences(nil)
	u.SetFinalizers(nil)
	delete(u.Object, "status")
	return o, nil
}

// apply applies an object, unless there is one that is another release's, or nobody's.
func apply(ctx context.Context, as dynamic.Interface, rel *v2.ApplicationRelease, o release.Object, u *unstructured.Unstructured) error {
	to := as.Resource(resourceOf(o)).Namespace(o.Namespace)
	now, err := to.Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case err == nil && !isOwn(now, rel):
		return status.Errorf(http.StatusConflict, "%s is there already, and not this release's: it has not the label %s=%s",
			o, v2.LabelRelease, rel.Name)
	case err != nil && !apierrors.IsNotFound(err):
		return about("read", o, err)
	}
	if _, err := to.Apply(ctx, o.Name, u, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return about("apply", o, err)
	}
	return nil
}

// about returns why something failed with an object. kube-apiserver's errors quote what is not valid of it, which may be a secret: of
// those, only the fields are named.
func about(what string, o release.Object, err error) error {
	e := &helm.Error{Reason: helm.ReasonFailed, Transient: true}
	var said apierrors.APIStatus
	switch {
	case helm.IsOverQuota(err): // of the numbers that it says, none is of the object's content
		e.Message = fmt.Sprintf("%s %s: %v", what, o, err)
		return e
	case apierrors.IsForbidden(err):
		e.Reason, e.Message = helm.ReasonForbidden, fmt.Sprintf("%s %s: %v", what, o, err)
		return e
	case !errors.As(err, &said):
		return fmt.Errorf("%s %s: %w", what, o, err)
	}
	s := said.Status()
	e.Transient = s.Code != http.StatusUnprocessableEntity && s.Code != http.StatusBadRequest
	e.Message = fmt.Sprintf("%s %s: kube-apiserver answers %d %s", what, o, s.Code, s.Reason)
	var fields []string
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			if c.Field != "" && !slices.Contains(fields, c.Field) {
				fields = append(fields, c.Field)
			}
		}
	}
	if len(fields) > 0 {
		e.Message += ", because of " + strings.Join(fields[:min(len(fields), 10)], ", ")
	}
	return e
}

func isForbidden(err error) bool {
	var of *helm.Error
	return errors.As(err, &of) && of.Reason == helm.ReasonForbidden
}
