package audit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	apiserveraudit "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
)

// policyPoll is how often a policy file is read again.
const policyPoll = 5 * time.Second

// unrecorded are the paths of which nothing is recorded without a policy file: probes, metrics, public keys and files of pages.
var unrecorded = []string{"/healthz*", "/livez*", "/readyz*", "/metrics", "/oauth/keys", "/oauth/static/*", "/static/*", "/favicon.ico"}

// Policy says which requests are recorded, by a file of kind Policy of audit.k8s.io/v1 as kube-apiserver reads one
// (https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/#audit-policy), or by one level for all.
type Policy struct {
	file    string
	current atomic.Pointer[rules]
	fault   atomic.Pointer[error]
	text    []byte // of the file, as last read; used by one goroutine
}

// rules are those of a policy.
type rules struct {
	apiserveraudit.PolicyRuleEvaluator
	bodies bool // one of them asks for bodies
}

// NewPolicy returns the policy without a file: level, None or Metadata and above, for all requests but probes, metrics, public keys and
// files of pages.
func NewPolicy(level string) (*Policy, error) {
	l := auditinternal.Level(level)
	switch l {
	case auditinternal.LevelNone, auditinternal.LevelMetadata, auditinternal.LevelRequest, auditinternal.LevelRequestResponse:
	default:
		return nil, fmt.Errorf("the audit level %q is not None, Metadata, Request or RequestResponse", level)
	}
	p := &Policy{}
	p.use(&auditinternal.Policy{Rules: []auditinternal.PolicyRule{
		{Level: auditinternal.LevelNone, NonResourceURLs: unrecorded, Verbs: []string{"get", "head", "options"}},
		{Level: l},
	}})
	return p, nil
}

// OpenPolicy reads a policy file. Run reads it again when it changes.
func OpenPolicy(file string) (*Policy, error) {
	p := &Policy{file: file}
	if err := p.load(); err != nil {
		return nil, err
	}
	return p, nil
}

// Evaluate returns the level at which a request is recorded, None for not at all, and the stages that are left out.
func (p *Policy) Evaluate(a authorizer.Attributes) (auditv1.Level, []auditinternal.Stage) {
	c := p.current.Load().EvaluatePolicyRule(a)
	return auditv1.Level(c.Level), c.OmitStages
}

// Bodies reports whether there are requests of which bodies are recorded: at level Request or RequestResponse.
func (p *Policy) Bodies() bool { return p.current.Load().bodies }

// Run reads the policy file again when it changes, until ctx ends. A file that can't be used leaves the former policy as it is; Fault
// returns why.
func (p *Policy) Run(ctx context.Context) {
	if p.file == "" {
		return
	}
	t := time.NewTicker(policyPoll)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			p.Reload()
		}
	}
}

// Reload reads the policy file again.
func (p *Policy) Reload() {
	err := p.load()
	if err == nil {
		p.fault.Store(nil)
		return
	}
	if old := p.fault.Swap(&err); old == nil || (*old).Error() != err.Error() {
		klog.ErrorS(err, "The audit policy could not be read again; the former one stays in use")
	}
}

// Fault returns why the policy file, as it is now, is not in use; nil if it is.
func (p *Policy) Fault() error {
	if err := p.fault.Load(); err != nil {
		return *err
	}
	return nil
}

func (p *Policy) load() error {
	text, err := os.ReadFile(p.file)
	if err != nil {
		return fmt.Errorf("read the audit policy (auditing.policyFile): %w", err)
	}
	if p.text != nil && bytes.Equal(text, p.text) {
		return nil
	}
	parsed, err := policy.LoadPolicyFromBytes(text)
	if err != nil {
		return fmt.Errorf("read the audit policy (auditing.policyFile) %s: %w", p.file, err)
	}
	p.use(parsed)
	p.text = text
	return nil
}

func (p *Policy) use(parsed *auditinternal.Policy) {
	p.current.Store(&rules{policy.NewPolicyRuleEvaluator(parsed), bodies(parsed)})
}

// bodies reports whether a policy asks for bodies.
func bodies(parsed *auditinternal.Policy) bool {
	return slices.ContainsFunc(parsed.Rules, func(r auditinternal.PolicyRule) bool {
		return r.Level == auditinternal.LevelRequest || r.Level == auditinternal.LevelRequestResponse
	})
}
