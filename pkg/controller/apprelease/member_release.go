package apprelease

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
)

// cluster returns the member that a release is in; nil for none.
func (r *Reconciler) cluster(ctx context.Context, rel *v2.ApplicationRelease) (*clusterv1alpha1.Cluster, error) {
	c := &clusterv1alpha1.Cluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: rel.Labels[v2.LabelCluster]}, c)
	if _, host := c.Labels[clusterv1alpha1.LabelHostCluster]; apierrors.IsNotFound(err) || host {
		return nil, nil //nolint:nilnil // nil is none
	}
	if err != nil {
		return nil, fmt.Errorf("read the cluster of the release %s: %w", rel.Name, err)
	}
	return c, nil
}

// follow notes of a release in a member what can be known without it: that it is waited for, that there is no such cluster, or that nothing
// could install it there. Everything else is noted by ks-apiserver, which has the links to members (package cluster/releasesync).
func (r *Reconciler) follow(ctx context.Context, rel *v2.ApplicationRelease) error {
	s := &rel.Status
	c, err := r.cluster(ctx, rel)
	if err != nil {
		return err
	}
	name := rel.Labels[v2.LabelCluster]
	switch waits := waitsForCluster(c); {
	case c == nil:
		r.enter(s, v2.ReleaseClusterDeleted, fmt.Sprintf("the fleet has no cluster %.63q", name))
	case c.Annotations[clusterv1alpha1.AnnotationLite] == "true":
		r.enter(s, v2.ReleaseFailed, "501 Not Implemented: "+release.NoPrograms(name))
	case release.IsDone(rel) && s.State != v2.ReleaseClusterDeleted:
	case waits != "":
		state := v2.ReleaseCreating
		if s.SpecHash != "" {
			state = v2.ReleaseUpgrading
		}
		r.enter(s, state, waits)
	case s.State == "" || s.State == v2.ReleaseClusterDeleted:
		r.enter(s, v2.ReleaseCreating, "")
	}
	return nil
}

// waitsForCluster returns why a member is not asked now; "" where it is, and where there is none.
func waitsForCluster(c *clusterv1alpha1.Cluster) string {
	if c == nil {
		return ""
	}
	why := c.WhyNotReady()
	if why == "" {
		return ""
	}
	return fmt.Sprintf("waits for the cluster %s, which is told once it answers: %s", c.Name, why)
}

// removeElsewhere lets a release in a member go that nobody can remove there: the cluster has left the fleet, nothing of ours runs in it,
// or a person says so. Otherwise ks-apiserver does, once the member has removed it, however long that takes: nothing else remembers it.
func (r *Reconciler) removeElsewhere(ctx context.Context, w *writer) error {
	rel, s := w.Object, &w.Object.Status
	if !controllerutil.ContainsFinalizer(rel, v2.FinalizerRelease) {
		return nil
	}
	c, err := r.cluster(ctx, rel)
	if err != nil {
		return err
	}
	_, force := rel.Annotations[v2.AnnotationForceDelete]
	if lost := c == nil || c.Annotations[clusterv1alpha1.AnnotationLite] == "true"; lost || force {
		if !lost {
			r.event(rel, corev1.EventTypeWarning, "Kept", "left in the cluster "+c.Name+", if it is there: "+v2.AnnotationForceDelete)
		}
		controllerutil.RemoveFinalizer(rel, v2.FinalizerRelease)
		return w.WriteFinalizers(ctx)
	}
	if waits := waitsForCluster(c); waits != "" {
		r.enter(s, v2.ReleaseDeleting, waits+". The annotation "+v2.AnnotationForceDelete+" lets it go, and leaves what is there")
	} else if s.State != v2.ReleaseDeleting {
		r.enter(s, v2.ReleaseDeleting, "")
	}
	return w.WriteStatus(ctx)
}
