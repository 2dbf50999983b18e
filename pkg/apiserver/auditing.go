package apiserver

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/audit/ring"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/filter"
)

// auditLog is where audit events go, and the policy that says which; nil where the audit is off.
type auditLog struct {
	policy   *audit.Policy
	backends []auditBackend
	recent   *ring.Ring // nil for none
}

// auditBackend is a file or a webhook, and its mode.
type auditBackend struct {
	auditWriter
	mode string
}

type auditWriter interface {
	audit.Sink
	Submit(*audit.Event) audit.Submitted
	Run(context.Context)
	Fault() error
}

// auditWait is how long a request waits until its event is written, in the modes blocking and blocking-strict.
const auditWait = 5 * time.Second

// makeAudit opens the backend of the audit, if it is on.
func (p *components) makeAudit(ctx context.Context) (err error) {
	c := &p.cfg.Auditing
	if !c.Records() {
		if c.Enable {
			klog.InfoS("auditing.enable is true, and nothing is recorded: events are not sent to Elasticsearch; set" +
				" auditing.logOptions.path to a file, or to - for standard output, or auditing.webhookOptions.webhookUrl")
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
	if o := c.LogOptions; o.Path != "" {
		file, err := audit.NewFile(audit.FileOptions{
			Path: o.Path, MaxSize: o.MaxSize, MaxBackups: o.MaxBackups, MaxAge: o.MaxAge, Metrics: metrics, Now: time.Now,
		})
		if err != nil {
			return err
		}
		a.backends = append(a.backends, auditBackend{file, o.Mode})
	}
	if o, release := c.Webhook(); o.WebhookURL != "" {
		webhook, err := audit.NewWebhook(audit.WebhookOptions{
			URL: o.WebhookURL, Shape: auditShape(o.Format, release), CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile,
			TokenFile: o.TokenFile, SkipVerify: o.InsecureSkipVerify, Senders: o.EventSendersNum, Batch: c.EventBatchSize,
			Interval: time.Duration(c.EventBatchInterval), Awaited: o.Mode != config.AuditBatch, Metrics: metrics, Now: time.Now,
		})
		if err != nil {
			return err
		}
		a.backends = append(a.backends, auditBackend{webhook, o.Mode})
	}
	if c.Recent > 0 {
		a.recent = ring.New(int(c.Recent), time.Now())
	}
	p.audit = a
	p.running.Go(func() { a.policy.Run(ctx) })
	for _, b := range a.backends {
		p.running.Go(func() { b.Run(ctx) })
	}
	return nil
}

func auditShape(format string, release int) audit.Shape {
	switch {
	case format == config.AuditFormatKubernetes:
		return audit.ShapeKubernetes
	case release == 3:
		return audit.ShapeKubeSphere3
	}
	return audit.ShapeKubeSphere4
}

// auditing returns the filter that records requests.
func (p *components) auditing() filter.Auditing {
	if p.audit == nil {
		return filter.Auditing{}
	}
	f := filter.Auditing{
		Sink: p.audit, Policy: p.audit.policy, Source: p.accounts.sourceOf, WorkspaceOf: p.rbac.WorkspaceOf, RealOf: p.aliases().Of,
		GroupsOf: p.groups.Of, Now: time.Now,
	}
	waits, strict := p.audit.waits()
	if f.Strict = strict; waits {
		f.Commit = p.audit.Commit
	}
	return f
}

// waits reports whether requests wait for their events, and whether nothing is done without one.
func (a *auditLog) waits() (waits, strict bool) {
	for _, b := range a.backends {
		waits, strict = waits || b.mode != config.AuditBatch, strict || b.mode == config.AuditBlockingStrict
	}
	return waits, strict
}

// Record hands e to all backends.
func (a *auditLog) Record(e *audit.Event) {
	for _, b := range a.backends {
		b.Record(e)
	}
	if a.recent != nil {
		a.recent.Record(e)
	}
}

// Commit hands e to all backends, and waits for those of the modes blocking and blocking-strict. It returns an error if one of the latter
// has not written it: in mode blocking an event may be late.
func (a *auditLog) Commit(ctx context.Context, e *audit.Event) error {
	ctx, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	awaited := make([]audit.Submitted, len(a.backends))
	for n, b := range a.backends {
		if b.mode == config.AuditBatch {
			b.Record(e)
		} else {
			awaited[n] = b.Submit(e)
		}
	}
	if a.recent != nil {
		a.recent.Record(e)
	}
	var errs []error
	for n, b := range a.backends {
		if b.mode == config.AuditBatch {
			continue
		}
		if err := awaited[n].Wait(ctx); b.mode == config.AuditBlockingStrict {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (a *auditLog) fault() error {
	err := a.policy.Fault()
	for _, b := range a.backends {
		err = errors.Join(err, b.Fault())
	}
	return err
}
