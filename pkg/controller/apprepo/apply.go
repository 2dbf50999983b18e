package apprepo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// apply writes the applications and versions that are missing, or other ones.
func (r *Reconciler) apply(ctx context.Context, repo *applicationv2.Repo, w *wants) (outcome, error) {
	out := outcome{bad: w.bad, apps: len(w.apps), versions: len(w.versions)}
	taken := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(w.apps)) {
		one, is := w.apps[name], &applicationv2.Application{}
		is.Name = name
		same := func() bool { return is.Annotations[applicationv2.AnnotationOriginalName] == one.chart }
		changed, others, err := r.write(ctx, repo, is, same, func() { one.onto(is, repo) })
		if err != nil {
			return out, err
		}
		if others {
			out.bad = append(out.bad, fmt.Sprintf("%s: there is an Application %s, which is not of this repository", one.chart, name))
			continue
		}
		before := is.DeepCopy()
		if is.Status.State == "" {
			is.Status.State = applicationv2.StateActive
		}
		if changed || is.Status.UpdateTime == nil {
			is.Status.UpdateTime = &metav1.Time{Time: r.now()}
		}
		if err := r.writeStatus(ctx, is, before, is.Status, before.Status); err != nil {
			return out, err
		}
		taken[name], out.changed = true, out.changed || changed
	}
	for _, name := range slices.Sorted(maps.Keys(w.versions)) {
		one, is := w.versions[name], &applicationv2.ApplicationVersion{}
		if !taken[one.app] {
			continue // it is another one's application
		}
		is.Name = name
		same := func() bool {
			return is.Labels[applicationv2.LabelApp] == one.app && is.Spec.VersionName == one.version
		}
		changed, others, err := r.write(ctx, repo, is, same, func() { one.onto(is, repo) })
		if err != nil {
			return out, err
		}
		if others {
			out.bad = append(out.bad, fmt.Sprintf("%s %s: there is an ApplicationVersion %s, which is another one", w.apps[one.app].chart,
				one.version, name))
			continue
		}
		before := is.DeepCopy()
		if is.Status.State == "" { // one that somebody has suspended stays so
			is.Status.State, is.Status.Updated = applicationv2.StateActive, &metav1.Time{Time: r.now()}
		}
		if err := r.writeStatus(ctx, is, before, is.Status, before.Status); err != nil {
			return out, err
		}
		out.changed = out.changed || changed
	}
	return out, nil
}

// write creates or changes an object, unless it is not of this Repo or not the same: nobody else's object becomes this Repo's for its name,
// which is made of several texts.
func (r *Reconciler) write(ctx context.Context, repo *applicationv2.Repo, is client.Object, same func() bool,
	onto func()) (changed, others bool, err error) {
	name := is.GetName()
	err = r.client.Get(ctx, client.ObjectKeyFromObject(is), is)
	if apierrors.IsNotFound(err) {
		onto()
		if err := r.client.Create(ctx, is); err != nil {
			return false, false, fmt.Errorf("create %s: %w", name, err)
		}
		return true, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("read %s: %w", name, err)
	}
	if !isOf(is, repo) || !same() {
		return false, true, nil
	}
	before, ok := is.DeepCopyObject().(client.Object)
	if !ok {
		return false, false, fmt.Errorf("copy %s", name)
	}
	onto()
	if equality.Semantic.DeepEqual(before, is) {
		return false, false, nil
	}
	if err := r.client.Patch(ctx, is, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, false, fmt.Errorf("change %s: %w", name, err)
	}
	return true, false, nil
}

// isOf reports whether an object is of a Repo, and not of another one that had its name: that may have been another workspace's, whose
// releases use what it left. A Repo that moves to another workspace takes along what it has.
func isOf(o client.Object, repo *applicationv2.Repo) bool {
	if o.GetLabels()[applicationv2.LabelRepo] != repo.Name {
		return false
	}
	return workspaceOf(o) == workspaceOf(repo) || o.GetAnnotations()[applicationv2.AnnotationRepoUID] == string(repo.UID) ||
		slices.ContainsFunc(o.GetOwnerReferences(), func(of metav1.OwnerReference) bool { return of.Kind == "Repo" && of.UID == repo.UID })
}

// workspaceOf returns the workspace that an object is of.
func workspaceOf(o client.Object) string {
	return cmp.Or(o.GetLabels()[tenantv1beta1.LabelWorkspace], tenantv1beta1.SystemWorkspace)
}

// writeStatus writes the status of an object where it is another one than before.
func (r *Reconciler) writeStatus(ctx context.Context, is, before client.Object, now, was any) error {
	if equality.Semantic.DeepEqual(now, was) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, is, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("change the status of %s: %w", is.GetName(), err)
	}
	return nil
}

// ours sets the labels of what is from a Repo. An earlier installation made such objects the Repo's own for the garbage collector, which
// would remove them while releases use them.
func ours(o *metav1.ObjectMeta, repo *applicationv2.Repo) {
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels[applicationv2.LabelRepo], o.Labels[applicationv2.LabelType] = repo.Name, applicationv2.TypeHelm
	if workspace := repo.Labels[tenantv1beta1.LabelWorkspace]; workspace != "" {
		o.Labels[tenantv1beta1.LabelWorkspace] = workspace
	} else {
		delete(o.Labels, tenantv1beta1.LabelWorkspace)
	}
	annotate(o, applicationv2.AnnotationRepoUID, string(repo.UID))
	o.OwnerReferences = slices.DeleteFunc(o.OwnerReferences, func(of metav1.OwnerReference) bool {
		return of.Kind == "Repo" && strings.HasPrefix(of.APIVersion, applicationv2.GroupName+"/")
	})
}

// onto writes what an index says into an object. Where people have put it stays.
func (one *app) onto(a *applicationv2.Application, repo *applicationv2.Repo) {
	ours(&a.ObjectMeta, repo)
	if a.Labels[applicationv2.LabelCategory] == "" {
		a.Labels[applicationv2.LabelCategory] = applicationv2.CategoryUncategorized
	}
	names := make([]string, 0, len(one.about.Maintainers))
	for _, m := range one.about.Maintainers {
		names = append(names, m.Name)
	}
	for key, value := range map[string]string{
		applicationv2.AnnotationOriginalName:  one.chart,
		applicationv2.AnnotationLatestVersion: one.latest,
		applicationv2.AnnotationMaintainer:    strings.Join(names, ","),
		tenantv1beta1.AnnotationDescription:   one.about.Description,
	} {
		annotate(&a.ObjectMeta, key, value)
	}
	s := &a.Spec
	s.AppType, s.AppHome, s.Icon, s.Abstraction = applicationv2.TypeHelm, one.about.Home, one.about.Icon, one.about.Description
}

func annotate(o *metav1.ObjectMeta, key, value string) {
	if value == "" {
		delete(o.Annotations, key)
		return
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[key] = value
}

func (one *version) onto(v *applicationv2.ApplicationVersion, repo *applicationv2.Repo) {
	ours(&v.ObjectMeta, repo)
	v.Labels[applicationv2.LabelApp] = one.app
	s := &v.Spec
	s.VersionName, s.AppType, s.AppHome, s.Icon = one.version, applicationv2.TypeHelm, one.about.Home, one.about.Icon
	s.PullURL, s.Digest = one.url, one.digest
	s.Maintainer = nil
	for _, m := range one.about.Maintainers {
		s.Maintainer = append(s.Maintainer, applicationv2.Maintainer(m))
	}
	if one.created != nil && !one.created.Equal(s.Created) {
		s.Created = one.created
	}
}
