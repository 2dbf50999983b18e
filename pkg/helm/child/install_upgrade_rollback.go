package child

import (
	"context"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"

	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/helm/record"
)

// install installs a release by client-side apply, which charts were written for. Where an installation was killed, its record is
// replaced and its objects are taken over: they have this release's annotations.
func (o *operation) install(ctx context.Context, c *chartv2.Chart, values map[string]any, replace bool) error {
	o.rendered = false
	a := action.NewInstall(o.config)
	a.ReleaseName, a.Namespace, a.Replace = o.Request.Name, o.Request.Namespace, replace
	a.ServerSideApply, a.SkipCRDs, a.SkipSchemaValidation = false, true, true
	a.WaitStrategy, a.Timeout, a.DisableHooks = kube.HookOnlyStrategy, o.hookTimeout(), o.Request.SkipHooks
	a.Description, a.PostRenderer = record.Description(o.Request.ID), o.renderer(ctx)
	_, err := a.RunWithContext(ctx, c, values)
	return o.rendering(err)
}

// upgrade upgrades a release in the way in which it was applied before.
func (o *operation) upgrade(ctx context.Context, c *chartv2.Chart, values map[string]any, last *release.Release) error {
	o.rendered = false
	a := action.NewUpgrade(o.config)
	a.Namespace, a.MaxHistory = o.Request.Namespace, o.HistoryMax
	a.ServerSideApply, a.ForceConflicts = "auto", serverSide(last)
	a.ResetValues, a.SkipCRDs, a.SkipSchemaValidation = true, true, true
	a.WaitStrategy, a.Timeout, a.DisableHooks = kube.HookOnlyStrategy, o.hookTimeout(), o.Request.SkipHooks
	a.Description, a.PostRenderer = record.Description(o.Request.ID), o.renderer(ctx)
	_, err := a.RunWithContext(ctx, o.Request.Name, c, values)
	return o.rendering(err)
}

func serverSide(r *release.Release) bool {
	return r.ApplyMethod == string(release.ApplyMethodServerSideApply)
}

// rendering gives an error of the templates its reason: that of an error before the post-renderer is called, unless it is one of the
// cluster.
func (o *operation) rendering(err error) error {
	if err == nil || o.rendered {
		return err
	}
	if e := explain(err); e.Reason != helm.ReasonFailed || e.Transient {
		return err
	}
	return refused(helm.ReasonRender, err)
}

// rollback applies a former revision.
func (o *operation) rollback() (*helm.Result, error) {
	all, err := record.History(o.config.Releases, o.Request.Name)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, refused(helm.ReasonNotFound, record.ErrNone)
	}
	if err := record.EndPending(o.config.Releases, all); err != nil {
		return nil, err
	}
	to := record.LastDeployed(all, all[len(all)-1].Version)
	if o.Request.Revision != 0 {
		to = nil
		for _, r := range all {
			if r.Version == o.Request.Revision {
				to = r
			}
		}
	}
	if to == nil {
		return o.newest(all), fault(helm.ReasonNotFound, "the release %s has no such revision to go back to", o.Request.Name)
	}
	o.lines.phase(helm.PhaseRollingBack)
	failure := o.rollbackTo(to)
	if all, err = record.History(o.config.Releases, o.Request.Name); err != nil {
		return nil, err
	}
	return o.newest(all), failure
}

func (o *operation) rollbackTo(to *release.Release) error {
	a := action.NewRollback(o.config)
	a.Version, a.MaxHistory = to.Version, o.HistoryMax
	a.ServerSideApply, a.ForceConflicts = "auto", serverSide(to)
	a.WaitStrategy, a.Timeout, a.DisableHooks = kube.HookOnlyStrategy, o.hookTimeout(), o.Request.SkipHooks
	return a.Run(o.Request.Name)
}
