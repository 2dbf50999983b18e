package apprelease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/status"
)

// request returns an operation on the Helm release of a release, as a user.
func (r *Reconciler) request(rel *v2.ApplicationRelease, as *author, operation helm.Operation) (helm.Request, error) {
	connection, err := helm.ConnectionOf(r.Config, as.user, as.groups)
	return helm.Request{
		Operation: operation, Name: rel.Name, Namespace: rel.Labels[v2.LabelNamespace], Cluster: connection,
		Labels: map[string]string{v2.LabelRelease: rel.Name},
	}, err
}

// record returns what the record of the Helm release says; nil where there is none.
func (r *Reconciler) record(ctx context.Context, rel *v2.ApplicationRelease, as *author) (*helm.Result, error) {
	request, err := r.request(rel, as, helm.Status)
	if err != nil {
		return nil, err
	}
	result, err := r.Helm.Run(ctx, request, nil)
	if of := (*helm.Error)(nil); errors.As(err, &of) && of.Reason == helm.ReasonNotFound {
		return nil, nil //nolint:nilnil // nil is none
	}
	return result, err
}

// applyChart installs or upgrades the Helm release.
func (r *Reconciler) applyChart(ctx context.Context, want *wanted, chart []byte) error {
	rel := want.release
	request, err := r.request(rel, want.author, helm.Apply)
	if err != nil {
		return err
	}
	before, err := r.record(ctx, rel, want.author)
	if err != nil {
		return err
	}
	next := &release.Inventory{Type: v2.TypeHelm, Namespace: want.namespace.Name}
	if want.inventory != nil {
		*next = *want.inventory
	}
	next.NamespaceUID = want.namespace.UID
	request.ID, request.Chart, request.Values = want.id, chart, want.values
	request.HoldTo(nil)
	ours := true // what is there already is of this release's own operations
	if before != nil {
		if ours, err = r.owns(want, before); err != nil {
			return err
		}
		request.HoldTo(before.Release)
	}
	if !ours {
		// The record may say that this operation is done, and what a failed one goes back to: neither is believed.
		request.ID, request.KeepFailed = "", true
	}
	next.Operation = want.id
	if err := r.note(ctx, rel, next); err != nil {
		return err
	}
	result, failure := r.Helm.Run(ctx, request, nil)
	if ctx.Err() != nil { // the operation stays noted as one that has begun
		return ctx.Err()
	}
	var former *helm.Release
	if before != nil {
		former = before.Release
	}
	if result != nil && result.Release.IsAfter(former) { // else the newest one may be somebody else's word still
		after := helm.After(result.Release, ours)
		next.RecordDigest, next.BaseDigest = after.RecordDigest, after.BaseDigest
		if err := r.noteObjects(ctx, want, next, result, failure); err != nil {
			return errors.Join(failure, err)
		}
	}
	next.Operation = ""
	if err := r.note(ctx, rel, next); err != nil {
		return errors.Join(failure, err)
	}
	if result != nil && result.RolledBack {
		return fmt.Errorf("%w. The former revision runs again", failure)
	}
	return failure
}

// without returns those of some objects that are not among others.
func without(of, others []release.Object) []release.Object {
	type identity struct{ group, resource, namespace, name string }
	identify := func(o release.Object) identity { return identity{o.Group, o.Resource, o.Namespace, o.Name} }
	known := map[identity]bool{}
	for _, o := range others {
		known[identify(o)] = true
	}
	return slices.DeleteFunc(slices.Clone(of), func(o release.Object) bool { return known[identify(o)] })
}

// noteObjects notes the objects of the record that an operation has left, and those that were noted before and may be there still. Helm
// knows no record of what attempts have made that failed: a rollback removes what its own attempt has made, and nothing of one before.
func (r *Reconciler) noteObjects(ctx context.Context, want *wanted, next *release.Inventory, result *helm.Result, failure error) error {
	objects, err := r.objectsOf(want.release, result.Objects)
	if err != nil {
		return err
	}
	all := slices.Clone(result.Objects)
	for i := range all {
		all[i].Hook = false // one that is a hook's now is not left
	}
	has, err := r.objectsOf(want.release, all)
	if err != nil {
		return err
	}
	rest := without(next.Objects, has)
	if failure == nil && len(rest) > 0 {
		as, err := r.As(want.author.user, want.author.groups)
		if err == nil {
			rest, err = removeLeft(ctx, as, want.release, rest)
		}
		if err != nil && ctx.Err() == nil {
			r.event(want.release, corev1.EventTypeWarning, "Left", "the next upgrade tries again to remove what one before has left: "+err.Error())
		}
	}
	objects = append(objects, rest...)
	next.Objects = objects[:min(len(objects), release.MaxObjects)]
	return nil
}

// removeLeft removes, after a success, noted objects that the record does not have, as the author. It returns those that stay noted:
// definitions of kinds, and with an error what is tried again after the next operation.
func removeLeft(ctx context.Context, as dynamic.Interface, rel *v2.ApplicationRelease, left []release.Object) ([]release.Object, error) {
	var failed []error
	left = slices.DeleteFunc(left, func(o release.Object) bool {
		if o.Group == apiextensionsv1.GroupName {
			return true
		}
		_, err := removeObject(ctx, as, rel, o)
		failed = append(failed, err)
		return err == nil
	})
	return left, errors.Join(failed...)
}

// noted returns what an inventory says of the records of the Helm release; nothing where there is none.
func noted(i *release.Inventory) helm.Noted {
	if i == nil {
		return helm.Noted{}
	}
	return helm.Noted{RecordDigest: i.RecordDigest, BaseDigest: i.BaseDigest}
}

// owns reports whether the record of a Helm release is this release's own. Who may write Secrets in a namespace may write records there:
// one that is not the one that was noted must not say anything of what is outside of the namespace, which is an error, since the author's
// rights are used for what it says.
func (r *Reconciler) owns(want *wanted, record *helm.Result) (bool, error) {
	rel, n := want.release, noted(want.inventory)
	if n.Knows(record.Release) {
		return true, nil
	}
	if want.inventory == nil {
		return false, status.Errorf(http.StatusConflict, "the namespace %s has a Helm release %q already: choose another name",
			rel.Labels[v2.LabelNamespace], rel.Name)
	}
	if want.remade {
		return false, status.Errorf(http.StatusConflict, "the namespace %s was made again, and has a Helm release %q that is not known: "+
			"a backup has brought it back, or it is somebody else's. Uninstall it with Helm first", rel.Labels[v2.LabelNamespace], rel.Name)
	}
	if n.HasBegun(record.Release) {
		return true, nil
	}
	outside, err := r.outside(rel, record)
	if err == nil && outside != nil {
		err = release.Invalidf("the record of the Helm release %q was changed by somebody else, and has %s, "+
			"which is outside of its namespace: remove that from the release with Helm first", rel.Name, outside)
	}
	return false, err
}

// outside returns an object of a record that is not in the release's namespace; nil for none.
func (r *Reconciler) outside(rel *v2.ApplicationRelease, record *helm.Result) (*release.Object, error) {
	objects, err := r.objectsOf(rel, slices.Concat(record.Objects, record.Recorded))
	if err != nil {
		return nil, err
	}
	for i := range objects {
		if objects[i].Namespace != rel.Labels[v2.LabelNamespace] {
			return &objects[i], nil
		}
	}
	return nil, nil //nolint:nilnil // nil is none
}

// objectsOf returns objects of a record, without those of hooks and those of kinds that the cluster does not have.
func (r *Reconciler) objectsOf(rel *v2.ApplicationRelease, of []helm.Object) (out []release.Object, err error) {
	for i := range of {
		o := &of[i]
		if o.Hook {
			continue
		}
		gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
		mapping, err := r.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look up the kind %s of %s: %w", o.Kind, o.APIVersion, err)
		}
		one := release.Object{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Resource: mapping.Resource.Resource, Name: o.Name}
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			if one.Namespace = o.Namespace; one.Namespace == "" {
				one.Namespace = rel.Labels[v2.LabelNamespace]
			}
		}
		out = append(out, one)
	}
	return out, nil
}
