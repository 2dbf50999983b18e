package apprelease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/status"
)

// retriesForbidden is when an operation is repeated that lacked a right: one that was given just now counts a moment later.
var retriesForbidden = retry.Operation[:2]

// wanted is what a release asks for, and what it takes.
type wanted struct {
	id      string
	release *v2.ApplicationRelease
	version *v2.ApplicationVersion
	// sent is the package that a hub has brought, nil where the version says which it is.
	sent      *release.Sent
	namespace *corev1.Namespace
	author    *author
	values    []byte
	// inventory is nil where nothing of the release has been installed yet.
	inventory *release.Inventory
	// remade says that the namespace is another one than that of the inventory.
	remade bool
}

// install installs or upgrades what a release asks for, unless that has been done.
func (r *Reconciler) install(ctx context.Context, w *writer) (reconcile.Result, error) {
	rel, s := w.Object, &w.Object.Status
	id := release.OperationID(rel)
	if err := r.adopt(ctx, rel, id); err != nil {
		if s.SpecHash != id { // else the message says why it failed
			r.enter(s, cmp.Or(s.State, v2.ReleaseCreating), notAdopted+err.Error())
		}
		return reconcile.Result{}, err
	}
	if s.SpecHash == id {
		if s.Message == waits { // what it waited for was taken back
			r.enter(s, s.State, "")
		}
		return r.observe(ctx, rel)
	}
	if wait := r.failures.Wait(rel.Name, id, r.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	done, ok := r.turn(rel, isOfDocuments(rel)) // find refuses another type than the version's
	if !ok {
		return r.waitForTurn(rel), nil
	}
	defer done()
	want, err := r.find(ctx, rel, id)
	if err == nil {
		state, then := v2.ReleaseCreating, v2.ReleaseCreated
		if want.inventory != nil && !want.remade && len(want.inventory.Objects) > 0 {
			state, then = v2.ReleaseUpgrading, v2.ReleaseUpgraded
		}
		r.enter(s, state, "")
		if err := w.WriteStatus(ctx); err != nil {
			return reconcile.Result{}, err
		}
		if err = r.operate(ctx, want); err == nil {
			r.failures.Forget(rel.Name)
			s.SpecHash = id
			r.enter(s, then, "")
			r.event(rel, corev1.EventTypeNormal, "Applied", "the version "+want.version.Name+" was applied as "+want.author.user)
			return reconcile.Result{RequeueAfter: readyEvery}, nil
		}
	}
	if ctx.Err() != nil { // the program stops: the next one does it again
		return reconcile.Result{}, ctx.Err()
	}
	return r.refused(ctx, rel, id, err), nil
}

// refused notes why an operation was not done, and returns when it is tried again: a few times if it may succeed then, and otherwise when
// the release asks for something else.
func (r *Reconciler) refused(ctx context.Context, rel *v2.ApplicationRelease, id string, err error) reconcile.Result {
	s, reason, message, after := &rel.Status, "Failed", err.Error(), retry.Operation
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
	again := r.failures.Again(rel.Name, id, after, r.Now())
	if again == 0 {
		s.SpecHash = id
	}
	return reconcile.Result{RequeueAfter: again}
}

// find finds what a release asks for, and checks it.
func (r *Reconciler) find(ctx context.Context, rel *v2.ApplicationRelease, id string) (*wanted, error) {
	if err := release.Check(rel); err != nil {
		return nil, err
	}
	want := &wanted{id: id, release: rel, version: &v2.ApplicationVersion{}, namespace: &corev1.Namespace{}}
	name, workspace := rel.Labels[v2.LabelNamespace], rel.Labels[v2.LabelWorkspace]
	err := r.Live.Get(ctx, client.ObjectKey{Name: name}, want.namespace) // the cache may have one that was deleted
	if apierrors.IsNotFound(err) || err == nil && want.namespace.Labels[v2.LabelWorkspace] != workspace {
		return nil, release.Invalidf("the workspace %.63q has no namespace %.63q", workspace, name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the namespace %s: %w", name, err)
	}
	if err := r.findVersion(ctx, want); err != nil {
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
	switch i := want.inventory; {
	case i == nil || isIn(i, want.namespace):
	case i.Namespace != name:
		return nil, release.Invalidf("the release is in the namespace %s, and stays there", i.Namespace)
	case want.sent == nil:
		return nil, release.Invalidf("the namespace %s that the release was installed in is gone, and this is another one: delete the release",
			name)
	default: // a backup may have brought back what was in the former one, which the objects' labels and Helm's record show
		want.remade = true
	}
	return want, nil
}

// present returns an object of the cluster: the cache's if that will do, and otherwise kube-apiserver's. What people have made or changed
// just before a release is not in the cache yet, and a release that is refused is not tried again.
func present[T any, P interface {
	*T
	client.Object
}](ctx context.Context, r *Reconciler, name string, willDo func(P) bool) (P, error) {
	key, is := client.ObjectKey{Name: name}, P(new(T))
	if err := r.Client.Get(ctx, key, is); err == nil && willDo(is) || client.IgnoreNotFound(err) != nil {
		return is, err
	}
	is = P(new(T))
	return is, r.Live.Get(ctx, key, is)
}

// findVersion finds the version of a release: the store's, or what the hub has sent of it.
func (r *Reconciler) findVersion(ctx context.Context, want *wanted) (err error) {
	rel := want.release
	switch {
	case release.IsSent(rel):
		if want.sent, err = release.SentOf(rel); err != nil {
			return err
		}
		want.version = want.sent.Version(rel)
	case r.Sent != nil:
		return release.Invalidf("this cluster is a member of a fleet: its releases are made on the hub")
	default:
		want.version, err = present(ctx, r, rel.Spec.AppVersionID,
			func(v *v2.ApplicationVersion) bool { return release.CheckVersion(rel, v) == nil })
		if apierrors.IsNotFound(err) { // it may be made a moment later
			return status.Errorf(http.StatusNotFound, "there is no version %.253q", rel.Spec.AppVersionID)
		}
		if err != nil {
			return fmt.Errorf("read the version %s: %w", rel.Spec.AppVersionID, err)
		}
	}
	return release.CheckVersion(rel, want.version)
}

// load reads the package of what is wanted.
func (r *Reconciler) load(ctx context.Context, want *wanted) ([]byte, error) {
	if want.sent == nil {
		return r.Packages.Load(ctx, want.version)
	}
	if r.Sent == nil {
		return nil, release.Invalidf("the release is a hub's, and this cluster is a member of no fleet")
	}
	return r.Sent.Load(ctx, want.sent)
}

// operate applies what is wanted.
func (r *Reconciler) operate(ctx context.Context, want *wanted) error {
	raw, err := r.load(ctx, want)
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
