package apprelease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// reader is whom records are read as where no user is known: they are read with the connection's own credential, and it has no rights.
var reader = &author{user: "kapis:application-release"}

// isEarlier reports whether an earlier installation may have installed a release of which nothing is noted yet: its state says so, or in a
// member, the hub, whose release has that state. Nobody else writes either. Once something was tried, that nothing was there is known.
func isEarlier(r *Reconciler, rel *v2.ApplicationRelease) bool {
	return release.IsAdopted(&rel.Status) || r.Sent != nil && release.IsSent(rel) && rel.Status.SpecHash == "" &&
		rel.Annotations[v2.AnnotationAdopt] != ""
}

// notAdopted begins the message of a release whose adoption fails.
const notAdopted = "what an earlier installation has installed is not known yet: "

// adopt notes what an earlier installation has installed of a release, if that is not noted yet, and takes for done what was done. Where it
// had not ended, or somebody has saved the release since, the operation follows, on what is noted.
func (r *Reconciler) adopt(ctx context.Context, rel *v2.ApplicationRelease, id string) error {
	s := &rel.Status
	if !isEarlier(r, rel) {
		return nil
	}
	found, err := noteEarlier(ctx, r, rel)
	switch {
	case isUnprocessable(err) && !release.IsSent(rel): // find says it again
		return nil
	case err != nil:
		return err
	case !release.IsAdopted(s): // of a member
		if found != nil && rel.Annotations[v2.AnnotationUser] == release.Nobody {
			r.enter(s, v2.ReleaseCreated, "")
			s.SpecHash = id
		}
	case release.IsUntouched(rel) && s.State != v2.ReleaseCreating && s.State != v2.ReleaseUpgrading:
		s.SpecHash = id
		if strings.HasPrefix(s.Message, notAdopted) {
			r.enter(s, s.State, "")
		}
	}
	return nil
}

// noteEarlier returns the inventory of a release that an earlier installation has installed, and notes it if it is new; nil where nothing
// is installed.
func noteEarlier(ctx context.Context, r *Reconciler, rel *v2.ApplicationRelease) (*release.Inventory, error) {
	found, err := r.inventory(ctx, rel)
	name := rel.Labels[v2.LabelNamespace]
	if err != nil || found != nil || name == "" {
		return found, err
	}
	namespace := &corev1.Namespace{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // nil is none
		}
		return nil, fmt.Errorf("read the namespace %s: %w", name, err)
	}
	if release.IsSent(rel) && namespace.Labels[v2.LabelWorkspace] != rel.Labels[v2.LabelWorkspace] { // a hub takes nothing of others
		return nil, release.Invalidf("the namespace %.63q is not one of the workspace %.63q", name, rel.Labels[v2.LabelWorkspace])
	}
	found = &release.Inventory{Type: rel.Spec.AppType, Namespace: name, NamespaceUID: namespace.UID}
	if isOfDocuments(rel) {
		found.Earlier = true
		found.Objects, err = documentsOf(r, rel)
	} else {
		found.Type = v2.TypeHelm
		var record *helm.Result
		if record, err = r.record(ctx, rel, reader); err != nil || record == nil {
			return nil, err
		}
		found.RecordDigest, found.BaseDigest = record.Release.RecordDigest, record.Release.BaseDigest
		found.Objects, err = r.objectsOf(rel, record.Objects)
	}
	if err != nil {
		return nil, err
	}
	found.Objects = found.Objects[:min(len(found.Objects), release.MaxObjects)]
	return found, r.note(ctx, rel, found)
}

func isOfDocuments(rel *v2.ApplicationRelease) bool {
	return rel.Spec.AppType != "" && rel.Spec.AppType != v2.TypeHelm
}

// documentsOf returns the objects that an earlier installation has applied of a release of YAML documents: those of its values, in its
// namespace. Values that can't be read name none.
func documentsOf(r *Reconciler, rel *v2.ApplicationRelease) ([]release.Object, error) {
	values, err := release.Values(rel.Spec.Values)
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	documents, err := release.Manifest(values)
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	var of []helm.Object
	for _, u := range documents {
		if n := u.GetNamespace(); n == "" || n == rel.Labels[v2.LabelNamespace] {
			of = append(of, helm.Object{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName()})
		}
	}
	objects, err := r.objectsOf(rel, of)
	return slices.DeleteFunc(objects, func(o release.Object) bool { return o.Namespace == "" }), err
}

// isOwn reports whether an object is a release's, by its label. An earlier installation set none on YAML documents: theirs are named where
// a release leaves them, so that whoever knows that they are its can label them.
func isOwn(now *unstructured.Unstructured, rel *v2.ApplicationRelease) bool {
	return now.GetLabels()[v2.LabelRelease] == rel.Name
}

func isUnprocessable(err error) bool {
	var said apierrors.APIStatus
	return errors.As(err, &said) && said.Status().Code == http.StatusUnprocessableEntity
}
