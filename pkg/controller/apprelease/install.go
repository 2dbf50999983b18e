package apprelease

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/status"
)

var (
	// retries is when an operation that may succeed later is repeated: after each of these times once more.
	retries = []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 150 * time.Second, 5 * time.Minute}
	// retriesForbidden are those after a right was missing: one that was given just now counts a moment later.
	retriesForbidden = retries[:2]
)

// hashPrefix begins the hashes of this controller, which those of earlier installations don't.
const hashPrefix = "k1-"

// wanted is what a release asks for, and what it takes.
type wanted struct {
	id        string
	release   *v2.ApplicationRelease
	version   *v2.ApplicationVersion
	namespace string
	author    *author
	values    []byte
	// inventory is nil where nothing of the release has been installed yet.
	inventory *release.Inventory
}

// operationID identifies what a release asks for.
func operationID(rel *v2.ApplicationRelease) string {
	var values string
	if rel.Spec.Values != nil {
		values = string(rel.Spec.Values.Raw)
	}
	text, err := json.Marshal([]any{
		rel.UID, rel.Spec.AppID, rel.Spec.AppVersionID, rel.Spec.AppType, values, rel.Annotations[v2.AnnotationUser],
		rel.Annotations[v2.AnnotationRetry], rel.Labels[v2.LabelApp], rel.Labels[v2.LabelCluster], rel.Labels[v2.LabelWorkspace],
		rel.Labels[v2.LabelNamespace],
	})
	if err != nil { // texts have a JSON text
		panic(fmt.Sprintf("encode an operation: %v", err))
	}
	sum := sha256.Sum256(text)
	return hashPrefix + hex.EncodeToString(sum[:16])
}

// isAdopted reports whether an earlier installation has installed a release.
func isAdopted(s *v2.ApplicationReleaseStatus) bool {
	return s.SpecHash != "" && !strings.HasPrefix(s.SpecHash, hashPrefix)
}

// install installs or upgrades what a release asks for, unless that has been done.
func (r *Reconciler) install(ctx context.Context, w *writer) (reconcile.Result, error) {
	rel, s := w.release, &w.release.Status
	id := operationID(rel)
	if isAdopted(s) && isInstalled(s.State) {
		if err := r.adopt(ctx, rel); err != nil {
			return reconcile.Result{}, err
		}
		s.SpecHash = id
	}
	if s.SpecHash == id {
		return r.observe(ctx, rel)
	}
	want, err := r.find(ctx, rel, id)
	if err == nil {
		state, done := v2.ReleaseCreating, v2.ReleaseCreated
		if want.inventory != nil && len(want.inventory.Objects) > 0 {
			state, done = v2.ReleaseUpgrading, v2.ReleaseUpgraded
		}
		r.enter(s, state, "")
		if err := w.write(ctx); err != nil {
			return reconcile.Result{}, err
		}
		if err = r.operate(ctx, want); err == nil {
			r.failures.Forget(rel.Name)
			s.SpecHash = id
			r.enter(s, done, "")
			r.event(rel, corev1.EventTypeNormal, "Applied", "the version "+want.version.Name+" was applied as "+want.author.user)
			return reconcile.Result{RequeueAfter: readyEvery}, nil
		}
	}
	if ctx.Err() != nil { // the program stops: the next one does it again
		return reconcile.Result{}, ctx.Err()
	}
	return r.refused(ctx, rel, id, err), nil
}

func isInstalled(state string) bool {
	return state == v2.ReleaseActive || state == v2.ReleaseCreated || state == v2.ReleaseUpgraded
}

// refused notes why an operation was not done, and returns when it is tried again: a few times if it may succeed then, and otherwise when
// the release asks for something else.
func (r *Reconciler) refused(ctx context.Context, rel *v2.ApplicationRelease, id string, err error) reconcile.Result {
	s, reason, message, after := &rel.Status, "Failed", err.Error(), retries
	var of *helm.Error
	var said apierrors.APIStatus
	switch {
	case errors.As(err, &of):
		reason = string(of.Reason)
		switch {
		case of.Reason == helm.ReasonForbidden:
			// Nobody becomes another user by waiting, but a right that was given just now counts a moment later.
			if after = retriesForbidden; !of.Transient {
				after = nil
			}
			message = fmt.Sprintf("403 Forbidden: %s. %s", message, r.onlyHere(ctx, rel))
		case !of.Transient:
			after = nil
		}
	case errors.As(err, &said):
		reason = string(said.Status().Reason)
		if code := said.Status().Code; code == http.StatusBadRequest || code == http.StatusUnprocessableEntity {
			after = nil
		}
		message = fmt.Sprintf("%d %s", said.Status().Code, message)
	}
	r.enter(s, v2.ReleaseFailed, message)
	r.event(rel, corev1.EventTypeWarning, reason, message)
	if before := r.failures.Add(rel.Name, id); before < len(after) {
		return reconcile.Result{RequeueAfter: after[before]}
	}
	r.failures.Forget(rel.Name)
	s.SpecHash = id
	return reconcile.Result{}
}

// find finds what a release asks for, and checks it.
func (r *Reconciler) find(ctx context.Context, rel *v2.ApplicationRelease, id string) (*wanted, error) {
	if err := release.Check(rel, r.Host); err != nil {
		return nil, err
	}
	want := &wanted{id: id, release: rel, version: &v2.ApplicationVersion{}, namespace: rel.Labels[v2.LabelNamespace]}
	namespace := &corev1.Namespace{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: want.namespace}, namespace)
	if apierrors.IsNotFound(err) || err == nil && namespace.Labels[v2.LabelWorkspace] != rel.Labels[v2.LabelWorkspace] {
		return nil, release.Invalidf("the workspace %.63q has no namespace %.63q", rel.Labels[v2.LabelWorkspace],
			want.namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("read the namespace %s: %w", want.namespace, err)
	}
	err = r.Client.Get(ctx, client.ObjectKey{Name: rel.Spec.AppVersionID}, want.version)
	if apierrors.IsNotFound(err) { // it may be made a moment later
		return nil, status.Errorf(http.StatusNotFound, "there is no version %.253q", rel.Spec.AppVersionID)
	}
	if err != nil {
		return nil, fmt.Errorf("read the version %s: %w", rel.Spec.AppVersionID, err)
	}
	if err := release.CheckVersion(rel, want.version); err != nil {
		return nil, err
	}
	if want.values, err = release.Values(rel.Spec.Values); err != nil {
		return nil, err
	}
	if want.author, err = r.author(ctx, rel); err != nil {
		return nil, err
	}
	if want.inventory, err = r.inventory(ctx, rel); err != nil {
		return nil, err
	}
	if i := want.inventory; i != nil && i.Namespace != want.namespace {
		return nil, release.Invalidf("the release is in the namespace %s, and stays there", i.Namespace)
	}
	return want, nil
}

// operate applies what is wanted.
func (r *Reconciler) operate(ctx context.Context, want *wanted) error {
	raw, err := r.Packages.Load(ctx, want.version)
	if err != nil {
		return fmt.Errorf("read the package of the version %s: %w", want.version.Name, err)
	}
	kind := release.Type(want.version)
	if i := want.inventory; i != nil && i.Type != kind {
		return release.Invalidf("the release was installed from a version of the type %s, and can't become one of %s",
			i.Type, kind)
	}
	if kind == v2.TypeHelm {
		return r.applyChart(ctx, want, raw)
	}
	return r.applyManifest(ctx, want, raw)
}

// inventory returns the inventory of a release; nil where there is none.
func (r *Reconciler) inventory(ctx context.Context, rel *v2.ApplicationRelease) (*release.Inventory, error) {
	m := &corev1.ConfigMap{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: release.InventoryNamespace, Name: release.InventoryName(rel.UID)}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // nil is none
	}
	if err != nil {
		return nil, fmt.Errorf("read the inventory of the release %s: %w", rel.Name, err)
	}
	return release.InventoryOf(m)
}

// note writes the inventory of a release.
func (r *Reconciler) note(ctx context.Context, rel *v2.ApplicationRelease, i *release.Inventory) error {
	m, err := i.ConfigMap(rel)
	if err != nil {
		return err
	}
	err = r.Client.Create(ctx, m)
	if apierrors.IsAlreadyExists(err) {
		err = r.Client.Update(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("write the inventory of the release %s: %w", rel.Name, err)
	}
	return nil
}
