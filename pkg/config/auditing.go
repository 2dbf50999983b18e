package config

import (
	"slices"
	"strings"
)

// Auditing is the section auditing: the events that are recorded of requests (docs/audit.md).
type Auditing struct {
	// Enable records requests; false.
	Enable bool `json:"enable"`
	// AuditLevel is None, Metadata, Request or RequestResponse, for all requests but probes, metrics, keys and files of pages; Metadata.
	// Bodies are not recorded: Request and RequestResponse count as Metadata.
	AuditLevel string `json:"auditLevel"`
	// PolicyFile is a Policy of audit.k8s.io/v1, which takes the place of AuditLevel; none. It is read again when it changes.
	PolicyFile string `json:"policyFile"`
	// LogOptions is the file that events are written to.
	LogOptions AuditingLog `json:"logOptions"`

	WebhookOptions     any    `json:"webhookOptions" config:"unread"`
	WebhookURL         any    `json:"webhookUrl" config:"unread"`
	EventSendersNum    any    `json:"eventSendersNum" config:"unread"`
	EventBatchSize     any    `json:"eventBatchSize" config:"unread"`
	EventBatchInterval any    `json:"eventBatchInterval" config:"unread"`
	Host               any    `json:"host" config:"unread"`
	IndexPrefix        any    `json:"indexPrefix" config:"unread"`
	Version            any    `json:"version" config:"unread"`
	BasicAuth          any    `json:"basicAuth" config:"unread"`
	Username           any    `json:"username" config:"unread"`
	Password           Secret `json:"password" config:"unread"`
}

// AuditingLog is the section auditing.logOptions.
type AuditingLog struct {
	// Path is the file, or - for standard output; none.
	Path string `json:"path"`
	// MaxSize is the size in MiB at which a file is rotated; 100.
	MaxSize int `json:"maxSize"`
	// MaxBackups is how many rotated files remain, and MaxAge for how many days; 10 and 7. 0 is without a bound.
	MaxBackups int `json:"maxBackups"`
	MaxAge     int `json:"maxAge"`
}

// Records reports whether events are recorded.
func (a *Auditing) Records() bool { return a.Enable && a.LogOptions.Path != "" }

// validate validates the section. ignored are the keys that are not read.
func (a *Auditing) validate(ignored []string, fault func(format string, args ...any)) {
	others := slices.ContainsFunc(ignored, func(key string) bool { return strings.HasPrefix(key, "auditing.") })
	if !a.Enable || !a.Records() && others { // of an existing installation, which has to start
		return
	}
	if a.PolicyFile == "" && !slices.Contains([]string{"None", "Metadata", "Request", "RequestResponse"}, a.AuditLevel) {
		fault("auditing.auditLevel: %q is not None, Metadata, Request or RequestResponse", a.AuditLevel)
	}
	o := a.LogOptions
	if o.Path == "" {
		fault("auditing.logOptions.path is missing, so that nothing would be recorded: set a file, or - for standard output, or" +
			" auditing.enable: false (events are not sent to webhooks)")
	}
	if o.MaxSize < 1 {
		fault("auditing.logOptions.maxSize: %d is not at least 1 (MiB)", o.MaxSize)
	}
	if o.MaxBackups < 0 || o.MaxAge < 0 {
		fault("auditing.logOptions.maxBackups and maxAge must not be negative")
	}
}
