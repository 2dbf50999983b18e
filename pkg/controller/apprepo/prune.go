package apprepo

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
)

// pruning is what was removed, and what stays only because releases use it.
type pruning struct {
	changed bool
	orphans map[string]bool
}

// prune removes what a Repo has no more; nil wants nothing of it. What releases use stays, and what people have uploaded is of no Repo.
func (r *Reconciler) prune(ctx context.Context, repo string, w *wants) (pruning, error) {
	return r.remove(ctx, repo, func(app, version string) bool {
		return w == nil || !w.unclear[app] && (version == "" && w.apps[app] == nil || version != "" && w.versions[version] == nil)
	})
}

// pruneOrphans removes what stayed because releases used it, and do no more.
func (r *Reconciler) pruneOrphans(ctx context.Context, repo string, orphans map[string]bool) error {
	left, err := r.remove(ctx, repo, func(app, version string) bool {
		return version == "" && orphans[app] || version != "" && orphans[version]
	})
	if err != nil {
		return err
	}
	r.reads.Edit(repo, func(is *read) { is.orphans = left.orphans })
	return nil
}

// used are the applications and versions that releases use, by their names.
type used map[string]bool

// inUse returns the versions that releases use, read without the cache.
func (r *Reconciler) inUse(ctx context.Context) (used, error) {
	all := &applicationv2.ApplicationReleaseList{}
	if err := r.live.List(ctx, all); err != nil {
		return nil, fmt.Errorf("list ApplicationReleases: %w", err)
	}
	out := used{}
	for i := range all.Items {
		is := &all.Items[i]
		for _, name := range []string{is.Spec.AppID, is.Spec.AppVersionID, is.Labels[applicationv2.LabelApp],
			is.Labels[applicationv2.LabelVersion]} {
			out[name] = true
		}
	}
	return out, nil
}

// remove removes the applications and versions of a Repo that unwanted reports: an application with its name alone, a version with both.
func (r *Reconciler) remove(ctx context.Context, repo string, unwanted func(app, version string) bool) (pruning, error) {
	out := pruning{orphans: map[string]bool{}}
	if repo == "" || repo == applicationv2.RepoUpload {
		return out, nil
	}
	of := client.MatchingLabels{applicationv2.LabelRepo: repo}
	versions, apps := &applicationv2.ApplicationVersionList{}, &applicationv2.ApplicationList{}
	if err := r.client.List(ctx, versions, of); err != nil {
		return out, fmt.Errorf("list ApplicationVersions: %w", err)
	}
	if err := r.client.List(ctx, apps, of); err != nil {
		return out, fmt.Errorf("list Applications: %w", err)
	}
	var going []client.Object
	left := map[string]bool{} // applications that have versions which stay
	for i := range versions.Items {
		v := &versions.Items[i]
		switch app := v.Labels[applicationv2.LabelApp]; {
		case !v.DeletionTimestamp.IsZero():
		case unwanted(app, v.Name):
			going = append(going, v)
		default:
			left[app] = true
		}
	}
	for i := range apps.Items {
		if a := &apps.Items[i]; a.DeletionTimestamp.IsZero() && unwanted(a.Name, "") {
			going = append(going, a)
		}
	}
	if len(going) == 0 {
		return out, nil
	}
	use, err := r.inUse(ctx)
	if err != nil {
		return out, err
	}
	for _, o := range going { // versions come first
		v, isVersion := o.(*applicationv2.ApplicationVersion)
		if use[o.GetName()] || !isVersion && left[o.GetName()] {
			out.orphans[o.GetName()] = true
			if isVersion {
				left[v.Labels[applicationv2.LabelApp]] = true
			}
			continue
		}
		uid, seen := o.GetUID(), o.GetResourceVersion()
		err := r.client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &seen})
		if err != nil && !apierrors.IsNotFound(err) {
			return out, fmt.Errorf("delete %s: %w", o.GetName(), err)
		}
		out.changed = true
	}
	return out, nil
}
