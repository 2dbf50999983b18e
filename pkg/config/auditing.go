package config

import (
	"slices"
	"strings"
	"time"
)

// Auditing is the section auditing: the events that are recorded of requests (docs/audit.md).
type Auditing struct {
	// Enable records requests; false.
	Enable bool `json:"enable"`
	// AuditLevel is None, Metadata, Request or RequestResponse, for all requests but probes, metrics, keys and files of pages; Metadata.
	AuditLevel string `json:"auditLevel"`
	// PolicyFile is a Policy of audit.k8s.io/v1, which takes the place of AuditLevel; none. It is read again when it changes.
	PolicyFile string `json:"policyFile"`
	// LogOptions is the file that events are written to.
	LogOptions AuditingLog `json:"logOptions"`

	// WebhookOptions is the webhook that events are posted to.
	WebhookOptions AuditingWebhook `json:"webhookOptions"`
	// WebhookURL is that of WebhookOptions as KubeSphere 3 has it: events have the form of that release unless the format says otherwise.
	WebhookURL string `json:"webhookUrl"`
	// EventSendersNum is that of WebhookOptions as KubeSphere 3 has it; 0 for that.
	EventSendersNum int `json:"eventSendersNum"`
	// EventBatchSize is the number of events that are posted without waiting for more (100; above 400 it counts as 400), and
	// EventBatchInterval how long fewer wait (3s).
	EventBatchSize     int      `json:"eventBatchSize"`
	EventBatchInterval Duration `json:"eventBatchInterval"`
	// Recent is how much memory the newest events of this replica have, which pages of the console show; 0 for none.
	Recent Bytes `json:"recent"`

	Host        any    `json:"host" config:"unread"`
	IndexPrefix any    `json:"indexPrefix" config:"unread"`
	Version     any    `json:"version" config:"unread"`
	BasicAuth   any    `json:"basicAuth" config:"unread"`
	Username    any    `json:"username" config:"unread"`
	Password    Secret `json:"password" config:"unread"`
}

// AuditingWebhook is the section auditing.webhookOptions.
type AuditingWebhook struct {
	// WebhookURL is an URL of https; none. One of http works, with a warning.
	WebhookURL string `json:"webhookUrl"`
	// EventSendersNum is how many requests are sent at once; 4.
	EventSendersNum int `json:"eventSendersNum"`
	// Format is audit.k8s.io/v1 or kubesphere, the default: of release 3 if the URL is auditing.webhookUrl, else of release 4.
	Format string `json:"format"`
	// CAFile has the authorities of the webhook's certificate; those of the system.
	CAFile string `json:"caFile"`
	// CertFile and KeyFile are this server's certificate there, and TokenFile has a bearer token; none.
	CertFile  string `json:"certFile"`
	KeyFile   string `json:"keyFile"`
	TokenFile string `json:"tokenFile"`
	// InsecureSkipVerify accepts any certificate; false. Each start warns of it.
	InsecureSkipVerify bool `json:"insecureSkipVerify"`
	// Mode is batch, blocking or blocking-strict; batch. See AuditingLog.
	Mode string `json:"mode"`
}

// The modes of a file and a webhook.
const (
	AuditBatch          = "batch"
	AuditBlocking       = "blocking"
	AuditBlockingStrict = "blocking-strict"
)

// The formats of events for a webhook.
const (
	AuditFormatKubernetes = "audit.k8s.io/v1"
	AuditFormatKubeSphere = "kubesphere"
)

// AuditingLog is the section auditing.logOptions.
type AuditingLog struct {
	// Path is the file, or - for standard output; none.
	Path string `json:"path"`
	// MaxSize is the size in MiB at which a file is rotated; 100.
	MaxSize int `json:"maxSize"`
	// MaxBackups is how many rotated files remain, and MaxAge for how many days; 10 and 7. 0 is without a bound.
	MaxBackups int `json:"maxBackups"`
	MaxAge     int `json:"maxAge"`
	// Mode is batch, where no request waits; blocking, where its answer waits until its event is written, for 5 s at most; or
	// blocking-strict, where nothing is done either before the event is written that a request was received; batch.
	Mode string `json:"mode"`
}

// Records reports whether events are recorded.
func (a *Auditing) Records() bool {
	return a.Enable && (a.LogOptions.Path != "" || a.webhookURL() != "" || a.Recent > 0)
}

func (a *Auditing) webhookURL() string {
	if a.WebhookOptions.WebhookURL != "" {
		return a.WebhookOptions.WebhookURL
	}
	return a.WebhookURL
}

// Webhook returns the webhook with the keys of both releases joined, and the release whose form events have in the format kubesphere; its
// WebhookURL is empty for none.
func (a *Auditing) Webhook() (w AuditingWebhook, release int) {
	w, release = a.WebhookOptions, 4
	if w.WebhookURL == "" {
		release = 3
		if a.EventSendersNum > 0 {
			w.EventSendersNum = a.EventSendersNum
		}
	}
	w.WebhookURL = a.webhookURL()
	return w, release
}

// validate validates the section. ignored are the keys that are not read.
func (a *Auditing) validate(ignored []string, fault func(format string, args ...any)) {
	others := slices.ContainsFunc(ignored, func(key string) bool { return strings.HasPrefix(key, "auditing.") })
	if !a.Enable || !a.Records() && others { // of an existing installation, which has to start
		return
	}
	if a.PolicyFile == "" && !slices.Contains([]string{"None", "Metadata", "Request", "RequestResponse"}, a.AuditLevel) {
		fault("auditing.auditLevel: %q is not None, Metadata, Request or RequestResponse", a.AuditLevel)
	}
	if !a.Records() {
		fault("nothing would be recorded: set auditing.logOptions.path to a file, or to - for standard output, or" +
			" auditing.webhookOptions.webhookUrl, or auditing.recent, or auditing.enable: false")
	}
	if a.Recent != 0 && (a.Recent < minRecent || a.Recent > maxRecent) {
		fault("auditing.recent: %d is not 0 or from %d to %d bytes", a.Recent, minRecent, maxRecent)
	}
	if o := a.LogOptions; o.Path != "" {
		if o.MaxSize < 1 {
			fault("auditing.logOptions.maxSize: %d is not at least 1 (MiB)", o.MaxSize)
		}
		validateMode("logOptions", o.Mode, fault)
		if o.MaxBackups < 0 || o.MaxAge < 0 {
			fault("auditing.logOptions.maxBackups and maxAge must not be negative")
		}
	}
	if a.webhookURL() != "" {
		a.validateWebhook(fault)
	}
}

func (a *Auditing) validateWebhook(fault func(format string, args ...any)) {
	if a.WebhookOptions.WebhookURL != "" && a.WebhookURL != "" {
		fault("auditing.webhookUrl and auditing.webhookOptions.webhookUrl are both set: events are posted to one webhook")
	}
	w, _ := a.Webhook()
	if !slices.Contains([]string{"", AuditFormatKubernetes, AuditFormatKubeSphere}, w.Format) {
		fault("auditing.webhookOptions.format: %q is not %s or %s", w.Format, AuditFormatKubernetes, AuditFormatKubeSphere)
	}
	validateMode("webhookOptions", w.Mode, fault)
	if w.EventSendersNum < 1 || w.EventSendersNum > 64 {
		fault("auditing.webhookOptions.eventSendersNum: %d is not from 1 to 64", w.EventSendersNum)
	}
	if a.EventBatchSize < 1 {
		fault("auditing.eventBatchSize: %d is not at least 1", a.EventBatchSize)
	}
	if d := time.Duration(a.EventBatchInterval); d < time.Millisecond || d > time.Minute {
		fault("auditing.eventBatchInterval: %v is not from 1ms to 1m", d)
	}
}

// The bounds of Recent: some hundred events at least, and what a query may read at most.
const (
	minRecent Bytes = 1 << 20
	maxRecent Bytes = 256 << 20
)

func validateMode(section, mode string, fault func(format string, args ...any)) {
	if !slices.Contains([]string{AuditBatch, AuditBlocking, AuditBlockingStrict}, mode) {
		fault("auditing.%s.mode: %q is not %s, %s or %s", section, mode, AuditBatch, AuditBlocking, AuditBlockingStrict)
	}
}
