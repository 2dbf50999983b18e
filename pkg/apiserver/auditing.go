package apiserver

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/filter"
)

// auditLog is where audit events go, and the policy that says which; nil where the audit is off.
type auditLog struct {
	policy *audit.Policy
	file   *audit.File
}

// makeAudit opens the backend of the audit, if it is on.
func (p *components) makeAudit(ctx context.Context) (err error) {
	c := &p.cfg.Auditing
	if !c.Records() {
		if c.Enable {
			klog.InfoS("auditing.enable is true, and nothing is recorded: events are not sent to webhooks; set auditing.logOptions.path to a" +
				" file, or to - for standard output")
		}
		return nil
	}
	a := &auditLog{}
	if c.PolicyFile != "" {
		a.policy, err = audit.OpenPolicy(c.PolicyFile)
	} else {
		a.policy, err = audit.NewPolicy(c.AuditLevel)
	}
	if err != nil {
		return err
	}
	metrics, err := audit.NewMetrics(p.metrics)
	if err != nil {
		return err
	}
	o := c.LogOptions
	if a.file, err = audit.NewFile(audit.FileOptions{
		Path: o.Path, MaxSize: o.MaxSize, MaxBackups: o.MaxBackups, MaxAge: o.MaxAge, Metrics: metrics, Now: time.Now,
	}); err != nil {
		return err
	}
	p.audit = a
	p.running.Go(func() { a.policy.Run(ctx) })
	p.running.Go(func() { a.file.Run(ctx) })
	return nil
}

// auditing returns the filter that records requests.
func (p *components) auditing() filter.Auditing {
	if p.audit == nil {
		return filter.Auditing{}
	}
	return filter.Auditing{
		Sink: p.audit.file, Policy: p.audit.policy, Source: p.accounts.sourceOf, WorkspaceOf: p.rbac.WorkspaceOf, Aliases: p.aliases(),
		Now: time.Now,
	}
}

func (a *auditLog) fault() error { return errors.Join(a.policy.Fault(), a.file.Fault()) }
