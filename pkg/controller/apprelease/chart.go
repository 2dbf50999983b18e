package apprelease

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	next := &release.Inventory{Type: v2.TypeHelm, Namespace: want.namespace}
	if want.inventory != nil {
		*next = *want.inventory
	}
	if before != nil {
		if err := r.owns(want.inventory, rel, before); err != nil {
			return err
		}
		request.ManifestDigest = before.Release.ManifestDigest
	}
	next.Operation = want.id
	if err := r.note(ctx, rel, next); err != nil {
		return err
	}
	request.ID, request.Chart, request.Values = want.id, chart, want.values
	result, failure := r.Helm.Run(ctx, request, nil)
	if ctx.Err() != nil { // the operation stays noted as one that has begun
		return ctx.Err()
	}
	if result != nil && result.Release != nil {
		after, err := r.record(ctx, rel, want.author)
		if err != nil {
			return errors.Join(failure, err)
		}
		if after != nil {
			objects, err := r.objectsOf(rel, after.Objects)
			if err != nil {
				return errors.Join(failure, err)
			}
			next.ManifestDigest, next.Objects = after.Release.ManifestDigest, objects[:min(len(objects), release.MaxObjects)]
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

// owns returns nil where the record of a Helm release is this release's. Who may write Secrets in a namespace may write records there:
// where a record is not the one that was noted, it must not say anything of what is outside of the namespace, since the author's rights
// are used for what it says.
func (r *Reconciler) owns(i *release.Inventory, rel *v2.ApplicationRelease, record *helm.Result) error {
	if i == nil {
		return status.Errorf(http.StatusConflict, "the namespace %s has a Helm release %q already: choose another name",
			rel.Labels[v2.LabelNamespace], rel.Name)
	}
	if record.Release.ManifestDigest == i.ManifestDigest || i.Operation != "" {
		return nil
	}
	objects, err := r.objectsOf(rel, record.Objects)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.Namespace != rel.Labels[v2.LabelNamespace] {
			return release.Invalidf("the record of the Helm release %q was changed by somebody else, and has %s, "+
				"which is outside of its namespace: remove that from the release with Helm first", rel.Name, o)
		}
	}
	return nil
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

// adopt notes what an earlier installation has installed.
func (r *Reconciler) adopt(ctx context.Context, rel *v2.ApplicationRelease) error {
	known, err := r.inventory(ctx, rel)
	if err != nil || known != nil || rel.Spec.AppType != "" && rel.Spec.AppType != v2.TypeHelm {
		return err
	}
	found, err := r.record(ctx, rel, reader)
	if err != nil || found == nil {
		return err
	}
	objects, err := r.objectsOf(rel, found.Objects)
	if err != nil {
		return err
	}
	return r.note(ctx, rel, &release.Inventory{Type: v2.TypeHelm, Namespace: rel.Labels[v2.LabelNamespace],
		ManifestDigest: found.Release.ManifestDigest, Objects: objects[:min(len(objects), release.MaxObjects)]})
}

// reader is whom records are read as where no user is known: they are read with the connection's own credential, and it has no rights.
var reader = &author{user: "kapis:application-release"}
