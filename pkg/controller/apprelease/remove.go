package apprelease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// removals is when a removal that failed is repeated. The last ones run no hooks, and the one after them leaves what is there.
var removals = []time.Duration{5 * time.Second, 15 * time.Second, 30 * time.Second, 30 * time.Second}

// hooksUntil is how many removals of a release run the hooks of its chart.
const hooksUntil = 2

// removal is one attempt to remove what a release installed.
type removal struct {
	release   *v2.ApplicationRelease
	inventory *release.Inventory
	// as is the author, or somebody without rights where there is none any more, which hooks says.
	as    *author
	hooks bool
	// leave says that nothing is removed but Helm's records.
	leave bool
}

// remove removes what a release installed, and then lets it go.
func (r *Reconciler) remove(ctx context.Context, w *writer) (reconcile.Result, error) {
	rel, s := w.Object, &w.Object.Status
	if !controllerutil.ContainsFinalizer(rel, v2.FinalizerRelease) {
		return reconcile.Result{}, nil
	}
	const id = "remove"
	if s.State != v2.ReleaseDeleting {
		r.enter(s, v2.ReleaseDeleting, "")
		if err := w.WriteStatus(ctx); err != nil {
			return reconcile.Result{}, err
		}
	}
	if wait := r.failures.Wait(rel.Name, id, r.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	quick := false
	if isOfDocuments(rel) { // else each time that it asks for its turn, kube-apiserver would be asked
		i, err := r.inventory(ctx, rel) // uninstall says what is wrong with it
		quick = err == nil && i != nil && i.Type != v2.TypeHelm
	}
	done, ok := r.turn(rel, quick)
	if !ok {
		result := r.waitForTurn(rel)
		return result, w.WriteStatus(ctx)
	}
	defer done()
	attempt := r.failures.Add(rel.Name, id)
	kept, err := r.uninstall(ctx, rel, attempt)
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	if err != nil {
		klog.ErrorS(err, "remove an application", "release", rel.Name, "attempt", attempt)
		r.enter(s, v2.ReleaseDeleting, "it is not removed yet: "+err.Error())
		again := removals[min(attempt, len(removals)-1)]
		r.failures.Pause(rel.Name, r.Now().Add(again))
		if err := w.WriteStatus(ctx); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: again}, nil
	}
	if len(kept) > 0 {
		r.event(rel, corev1.EventTypeWarning, "Kept", "left in the cluster: "+strings.Join(kept, "; "))
	}
	m, err := (&release.Inventory{}).ConfigMap(rel)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.Client.Delete(ctx, m); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("remove the inventory of the release %s: %w", rel.Name, err)
	}
	r.failures.Forget(rel.Name)
	controllerutil.RemoveFinalizer(rel, v2.FinalizerRelease)
	return reconcile.Result{}, w.WriteFinalizers(ctx)
}

// uninstall removes what a release installed, and returns what is left of it.
func (r *Reconciler) uninstall(ctx context.Context, rel *v2.ApplicationRelease, attempt int) (kept []string, err error) {
	u := &removal{release: rel.DeepCopy(), hooks: attempt < hooksUntil, leave: attempt >= len(removals)}
	if u.inventory, err = r.inventory(ctx, rel); err == nil && u.inventory == nil && isEarlier(r, rel) {
		u.inventory, err = noteEarlier(ctx, r, rel)
		// What can't be known, however often it is tried, holds a removal as little as one that is not valid.
		if of := (*helm.Error)(nil); isUnprocessable(err) || errors.As(err, &of) && (of.Reason == helm.ReasonInvalid || u.leave) {
			return []string{"what an earlier installation has installed: " + err.Error()}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	if u.as, err = r.author(ctx, rel); isForbidden(err) {
		u.as, u.hooks = reader, false
	} else if err != nil {
		return nil, err
	}
	i := u.inventory
	if i != nil { // whatever the labels say by now
		gone, another, err := r.isGone(ctx, i)
		if err != nil {
			return nil, err
		}
		if another { // a backup may have brought back what was in it
			kept = append(kept, "what there is of it in the namespace "+i.Namespace+", which was made again")
		}
		if gone { // with what was in it, and Helm's records
			for _, o := range i.Objects {
				if o.Namespace != i.Namespace {
					kept = append(kept, o.String())
				}
			}
			return kept, nil
		}
		metav1.SetMetaDataLabel(&u.release.ObjectMeta, v2.LabelNamespace, i.Namespace)
	}
	switch {
	case i != nil && i.Type != v2.TypeHelm:
		return r.removeObjects(ctx, u)
	case i != nil:
		return r.removeChart(ctx, u)
	}
	return nil, nil // nothing was installed
}

// removeChart removes a Helm release.
func (r *Reconciler) removeChart(ctx context.Context, u *removal) (kept []string, err error) {
	rel := u.release
	found, err := r.record(ctx, rel, u.as)
	// One that can't be read, however often it is tried, holds a removal as little as one that is not valid.
	if of := (*helm.Error)(nil); err != nil && (!errors.As(err, &of) || of.Reason != helm.ReasonInvalid && (of.Transient || !u.leave)) {
		return nil, err
	}
	if err != nil || found == nil {
		return r.removeNoted(ctx, u)
	}
	objects, err := r.objectsOf(rel, found.Objects)
	if err != nil {
		return nil, err
	}
	ours := noted(u.inventory).Knows(found.Release)
	run := func(as *author) error {
		request, err := r.request(rel, as, helm.Uninstall)
		if err != nil {
			return err
		}
		// Hooks of a record that somebody else has written are not run.
		request.SkipHooks, request.Orphan = !u.hooks || !ours, u.leave
		request.HoldTo(found.Release)
		result, err := r.Helm.Run(ctx, request, nil)
		if result != nil {
			kept = result.Kept
		}
		return err
	}
	if u.leave {
		for _, o := range objects[:min(len(objects), release.MaxObjects)] {
			kept = append(kept, o.String())
		}
		named := kept
		err := run(u.as)
		if of := (*helm.Error)(nil); errors.As(err, &of) && !of.Transient {
			named, err = append(named, "Helm's records of it (Secrets of the type helm.sh/release.v1): "+of.Message), nil
		}
		return named, err
	}
	if !ours { // rights are lent for what the platform knows to be the release's
		objects = u.inventory.Objects
		outside, err := r.outside(rel, found)
		if err != nil {
			return nil, err
		}
		if outside != nil { // nobody's rights are used there for what somebody else has written
			u.as = reader
		}
	}
	err = r.withRights(ctx, u, objects, run)
	return kept, err
}

// removeNoted removes what was noted of a Helm release, in its namespace, where it has no record, or somebody else's.
func (r *Reconciler) removeNoted(ctx context.Context, u *removal) (kept []string, err error) {
	noted := *u.inventory
	noted.Objects = slices.DeleteFunc(slices.Clone(noted.Objects), func(o release.Object) bool { return o.Namespace != noted.Namespace })
	u.inventory, u.as = &noted, reader
	return r.removeObjects(ctx, u)
}

// removeObjects removes the objects of a release of YAML documents.
func (r *Reconciler) removeObjects(ctx context.Context, u *removal) (kept []string, err error) {
	if u.inventory.Earlier && len(u.inventory.Objects) == 0 {
		return []string{"what an earlier installation has applied: the values of the release name no objects"}, nil
	}
	if u.leave {
		for _, o := range u.inventory.Objects {
			kept = append(kept, o.String())
		}
		return kept, nil
	}
	err = r.withRights(ctx, u, u.inventory.Objects, func(as *author) error {
		objects, err := r.As(as.user, as.groups)
		if err != nil {
			return err
		}
		var failed []error
		for _, o := range u.inventory.Objects {
			removed, err := removeObject(ctx, objects, u.release, o)
			if err != nil {
				failed = append(failed, err)
			} else if !removed && u.inventory.Earlier {
				kept = append(kept, o.String())
			}
		}
		return errors.Join(failed...)
	})
	return kept, err
}

// helmPolicy is an annotation of Helm's, for objects that stay when their release goes.
const helmPolicy = "helm.sh/resource-policy"

// removeObject removes an object, if it is the release's, and does not say that it stays. removed is false for one that is another's.
func removeObject(ctx context.Context, as dynamic.Interface, rel *v2.ApplicationRelease, o release.Object) (removed bool, err error) {
	from := as.Resource(resourceOf(o)).Namespace(o.Namespace)
	now, err := from.Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return true, nil
	case err != nil:
		return false, about("read", o, err)
	case !isOwn(now, rel):
		return false, nil
	case now.GetAnnotations()[helmPolicy] == "keep":
		return true, nil
	}
	uid, background := now.GetUID(), metav1.DeletePropagationBackground
	err = from.Delete(ctx, o.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, about("remove", o, err)
	}
	return true, nil
}
