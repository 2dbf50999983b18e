package installplan

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/controller/installer"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// records are what is known of the Helm releases of plans.
type records struct{ *Reconciler }

func (r records) kept() extensionrelease.Records {
	return extensionrelease.Records{Client: r.Client, Live: r.Live, Mapper: r.Mapper}
}

// name names the note of the release of a plan; the agent in the hub's own cluster has its own.
func (r records) name(plan *v1alpha1.InstallPlan) string {
	if r.onHub {
		return "extension-agent-" + string(plan.UID)
	}
	return "extension-release-" + string(plan.UID)
}

// adopt notes, once after the start, the records of a release that was installed before records were noted.
func (r records) adopt(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	if uid, _ := r.adopted.Load(plan.Name); uid == plan.UID || !isInstalled(&plan.Status.InstallationStatus) {
		return nil
	}
	namespace := plan.Status.TargetNamespace
	err := r.kept().Adopt(ctx, r.name(plan), namespace, func() (*helm.Result, error) {
		request, err := r.helmRequest(plan.Name, namespace)
		if err != nil {
			return nil, err
		}
		request.Operation = helm.Status
		return r.Helm.Run(ctx, *request, (&record{}).note)
	})
	if err == nil {
		r.adopted.Store(plan.Name, plan.UID)
	}
	return err
}

// stays returns why nothing is done with what is wanted where something was installed, or may have been, in another namespace: Helm would
// install it once more, and what is there would be nobody's.
func (r records) stays(ctx context.Context, want *wanted) error {
	s := &want.plan.Status.InstallationStatus
	if s.TargetNamespace == "" || s.TargetNamespace == want.namespace {
		return nil
	}
	known, err := r.kept().Noted(ctx, r.name(want.plan), s.TargetNamespace)
	if err != nil || !isInstalled(s) && len(known.Objects) == 0 && known.RecordDigest == "" {
		return err
	}
	return waits(v1alpha1.ConditionInitialized, "NamespaceChanged", "version %s is for the namespace %s, and the release is in %s, where it "+
		"stays: name a version for that, or delete the plan, which removes what is installed, and make it again",
		want.version.Spec.Version, want.namespace, s.TargetNamespace)
}

// removeNoted removes what was noted of a release whose record is gone, as it is with its namespace: webhooks, roles and bindings of the
// cluster would stay, and nothing else knows them. Definitions of kinds stay, and so does what is not the release's by now. It returns what
// stays since it says so.
func (r records) removeNoted(ctx context.Context, plan *v1alpha1.InstallPlan) (kept []string, err error) {
	known, err := r.kept().Noted(ctx, r.name(plan), plan.Status.TargetNamespace)
	if err != nil {
		return nil, err
	}
	own, err := r.kept().Removable(ctx, known.Own())
	if err != nil || len(own) == 0 {
		return nil, err
	}
	err = r.installers().While(ctx, plan.Name, permission.ForRemoval(own), func() error {
		kept, err = r.removeOwn(ctx, plan.Name, plan.Status.TargetNamespace, own)
		return err
	})
	return kept, err
}

// removeOwn removes those of some objects that are a release's, as the installer, which has the rights for it.
func (r records) removeOwn(ctx context.Context, extension, namespace string, objects []permission.Object) ([]string, error) {
	if len(objects) == 0 {
		return nil, nil
	}
	as, err := r.As(installer.User(extension))
	if err != nil {
		return nil, err
	}
	return r.kept().Remove(ctx, as, r.release(extension), namespace, objects)
}

// removeLeft removes what attempts that failed have made, once one has succeeded that does not have it: Helm knows no record of them then.
// It reports whether all of it is gone.
func (r records) removeLeft(ctx context.Context, want *wanted, o *operation, result *helm.Result) bool {
	has, hooks, _, err := extensionrelease.Objects(r.Mapper, want.namespace, result.Objects)
	if err == nil {
		_, err = r.removeOwn(ctx, want.plan.Name, want.namespace, extensionrelease.Without(o.left, slices.Concat(has, hooks)))
	}
	if err != nil && ctx.Err() == nil {
		r.event(want.plan, corev1.EventTypeWarning, "Left", "the next upgrade tries again to remove what one before has left: "+err.Error())
	}
	return err == nil
}

// ended notes what an operation has left, if one of the records is its own: the newest one may be somebody else's word still.
func (r records) ended(ctx context.Context, want *wanted, o *operation, result *helm.Result, failed error) error {
	if ctx.Err() != nil || result == nil || !result.Release.IsAfter(o.rendered.Release) {
		return nil //nolint:nilerr // what failed is told by who calls
	}
	return r.kept().End(ctx, r.name(want.plan), o.note, result, o.believed, failed == nil && o.tidied || result.RolledBack)
}

// left returns what was noted of a release and its newest record does not have: what attempts made that failed, of which Helm has no record
// any more.
func (r records) left(ctx context.Context, known *extensionrelease.Note, found *helm.Result) ([]permission.Object, error) {
	has, hooks, _, err := extensionrelease.Objects(r.Mapper, known.Namespace, found.Objects)
	if err != nil {
		return nil, err
	}
	return r.kept().Removable(ctx, extensionrelease.Without(known.Own(), slices.Concat(has, hooks)))
}
