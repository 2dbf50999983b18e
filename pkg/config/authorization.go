package config

import (
	"slices"
	"time"
)

// failure policies of the webhook, as kube-apiserver calls them.
const (
	FailureDeny      = "Deny"
	FailureNoOpinion = "NoOpinion"
)

// Authorization is the section authorization.
type Authorization struct {
	// Mode stands for Modes of one: RBAC, AlwaysAllow or AlwaysDeny; RBAC. The other two are for tests.
	Mode string `json:"mode"`
	// Modes are the authorizers, in the order in which they are asked: RBAC, Webhook, ABAC, AlwaysAllow, AlwaysDeny; the first that
	// allows or forbids decides. Empty stands for Mode alone.
	Modes []string `json:"modes,omitempty"`
	// Webhook is the service that the mode Webhook asks.
	Webhook AuthorizationWebhook `json:"webhook"`
	// ABAC are the policies of the mode ABAC.
	ABAC AuthorizationABAC `json:"abac"`
}

// AuthorizationABAC is a file of policies, as kube-apiserver reads one.
type AuthorizationABAC struct {
	// PolicyFile has one JSON object on each line, of abac.authorization.kubernetes.io/v1beta1; needed with the mode ABAC.
	PolicyFile string `json:"policyFile"`
}

// AuthorizationWebhook is a service that answers SubjectAccessReviews, as kube-apiserver asks one.
type AuthorizationWebhook struct {
	// KubeconfigFile says where the service is and how to log in there; needed with the mode Webhook.
	KubeconfigFile string `json:"kubeconfigFile"`
	// FailurePolicy is what no answer means: Deny forbids, NoOpinion asks the next mode; needed with the mode Webhook, as kube-apiserver
	// needs it.
	FailurePolicy string `json:"failurePolicy"`
	// Timeout bounds one question; 3s. At most 30s.
	Timeout Duration `json:"timeout"`
	// AuthorizedTTL and UnauthorizedTTL are how long an answer is valid, 0 for once; 5s, as long as a right of a role may outlive the
	// role. A right that the service revokes ends that much later.
	AuthorizedTTL   Duration `json:"authorizedTTL"`
	UnauthorizedTTL Duration `json:"unauthorizedTTL"`
}

// The modes of authorization.
const (
	ModeRBAC        = "RBAC"
	ModeWebhook     = "Webhook"
	ModeABAC        = "ABAC"
	ModeAlwaysAllow = "AlwaysAllow"
	ModeAlwaysDeny  = "AlwaysDeny"
)

// Order returns the authorizers, in the order in which they are asked.
func (a *Authorization) Order() []string {
	if len(a.Modes) == 0 {
		return []string{a.Mode}
	}
	return a.Modes
}

func (a *Authorization) validate(fault func(format string, args ...any)) {
	switch a.Mode {
	case ModeRBAC, ModeAlwaysAllow, ModeAlwaysDeny:
	default:
		fault("authorization.mode: %q is not RBAC, AlwaysAllow or AlwaysDeny", a.Mode)
	}
	for n, mode := range a.Modes {
		switch mode {
		case ModeRBAC, ModeWebhook, ModeABAC, ModeAlwaysAllow, ModeAlwaysDeny:
		default:
			fault("authorization.modes[%d]: %q is not RBAC, Webhook, ABAC, AlwaysAllow or AlwaysDeny", n, mode)
		}
		if slices.Contains(a.Modes[:n], mode) {
			fault("authorization.modes[%d]: %s is there twice", n, mode)
		}
	}
	if len(a.Modes) > 0 && a.Mode != ModeRBAC {
		fault("authorization.mode: %s and modes exclude each other: leave mode out", a.Mode)
	}
	if slices.Contains(a.Modes, ModeWebhook) {
		a.Webhook.validate(fault)
	}
	if slices.Contains(a.Modes, ModeABAC) && a.ABAC.PolicyFile == "" {
		fault("authorization.abac.policyFile is missing: it has the policies of the mode ABAC")
	}
}

func (w *AuthorizationWebhook) validate(fault func(format string, args ...any)) {
	if w.KubeconfigFile == "" {
		fault("authorization.webhook.kubeconfigFile is missing: it says where the service of the mode Webhook is")
	}
	if w.FailurePolicy != FailureDeny && w.FailurePolicy != FailureNoOpinion {
		fault("authorization.webhook.failurePolicy: %q is not Deny or NoOpinion", w.FailurePolicy)
	}
	if t := time.Duration(w.Timeout); t <= 0 || t > 30*time.Second {
		fault("authorization.webhook.timeout: %v is not above 0 and at most 30s", t)
	}
	if w.AuthorizedTTL < 0 || w.UnauthorizedTTL < 0 {
		fault("authorization.webhook.authorizedTTL and unauthorizedTTL must not be negative")
	}
}
