package child

import (
	"context"
	"errors"
	"fmt"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/helm/record"
)

// apply installs or upgrades.
func (o *operation) apply(ctx context.Context) (*helm.Result, error) {
	r, releases := &o.Request, o.config.Releases
	all, err := record.History(releases, r.Name)
	if err != nil {
		return nil, err
	}
	if !o.agrees(all) {
		return nil, o.changedRecord()
	}
	if now := record.View(all); now != nil && r.ID != "" && now.Status == string(rcommon.StatusDeployed) && now.ID == r.ID {
		result := o.newest(all)
		result.Unchanged = true
		return result, nil
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := o.applyDefinitions(ctx, len(all) > 0); err != nil {
		return nil, err
	}
	if err := record.EndPending(releases, all); err != nil {
		return nil, err
	}
	c, err := load(r.Chart)
	if err != nil {
		return nil, err
	}
	v, err := values(r)
	if err != nil {
		return nil, err
	}
	o.lines.message("apply the chart %s", chartOf(c))
	before := 0
	if n := len(all); n > 0 {
		before = all[n-1].Version
	}
	// A revision that has been deployed once is upgraded. Where none has, a killed installation begins again, with the hooks of one.
	if record.LastDeployed(all, before+1) == nil {
		err = o.install(ctx, c, v, len(all) > 0)
	} else {
		err = o.upgrade(ctx, c, v, all[len(all)-1])
	}
	return o.outcome(before, err)
}

// applyDefinitions applies the definitions of crds/, once it is known that nothing refuses the rest of the operation.
func (o *operation) applyDefinitions(ctx context.Context, isUpgrade bool) error {
	found, err := o.chartDefinitions()
	if err != nil || len(found) == 0 {
		return err
	}
	for _, u := range found {
		if err := o.definitions.check(ctx, u); err != nil {
			return err
		}
	}
	rel, err := o.renderOnly(ctx, found, isUpgrade)
	if err != nil {
		return err
	}
	if err := record.Fit(rel); err != nil {
		return err
	}
	o.lines.phase(helm.PhaseCRDs)
	if err := o.definitions.apply(ctx, found, o.Request.Labels); err != nil {
		return err
	}
	o.config.Capabilities = nil
	o.getter.forget()
	o.lines.phase(helm.PhaseRendering)
	return nil
}

// outcome returns the result of an installation or upgrade that began after a revision.
func (o *operation) outcome(before int, failure error) (*helm.Result, error) {
	all, err := record.History(o.config.Releases, o.Request.Name)
	if err != nil {
		return nil, errors.Join(failure, err)
	}
	if len(all) == 0 || all[len(all)-1].Version <= before { // nothing was written
		return o.newest(all), failure
	}
	newest := all[len(all)-1]
	to := record.LastDeployed(all, newest.Version)
	if failure == nil || o.Request.KeepFailed || to == nil {
		return o.newest(all), failure
	}
	o.lines.phase(helm.PhaseRollingBack)
	if err := o.rollbackTo(to); err != nil {
		all, _ = record.History(o.config.Releases, o.Request.Name)
		e := explain(failure)
		return o.newest(all), &helm.Error{Reason: e.Reason, Transient: e.Transient,
			Message: fmt.Sprintf("%v; and the rollback to revision %d failed: %v", failure, to.Version, err)}
	}
	if all, err = record.History(o.config.Releases, o.Request.Name); err != nil {
		return nil, errors.Join(failure, err)
	}
	result := o.newest(all)
	result.RolledBack = true
	return result, failure
}
