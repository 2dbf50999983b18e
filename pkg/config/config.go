// Package config is the configuration file: its fields, their defaults, their validation, and Load.
//
// The file is kubesphere.yaml. Names of both generations are read: the v4 names, and authentication.oauthOptions of v3.4 (see legacy.go).
// Keys are matched without regard to case, as clients of the older format wrote them. An unknown key is an error; a section that a
// KubeSphere installation has and this program does not use is accepted and listed in Ignored.
package config

import (
	"time"
)

// Config is the whole file. The comments state the defaults.
type Config struct {
	// Kubernetes is the cluster that is served.
	Kubernetes Kubernetes `json:"kubernetes"`
	// Authentication is how people and programs log in.
	Authentication Authentication `json:"authentication"`
	// Authorization says who decides about requests.
	Authorization Authorization `json:"authorization"`
	// Multicluster is what this cluster is in a fleet.
	Multicluster Multicluster `json:"multicluster"`
	// Fleet joins several clusters.
	Fleet Fleet `json:"fleet"`
	// Resources is what lists of objects serve.
	Resources Resources `json:"resources"`
	// Egress limits what this server connects to for users.
	Egress Egress `json:"egress"`
	// Aggregated is the API that kube-apiserver passes on to this server.
	Aggregated Aggregated `json:"aggregated"`
	// Cache is an optional store of sessions; without it they live in the Kubernetes API.
	Cache Cache `json:"cache"`
	// Auditing says what is recorded of requests, and where.
	Auditing Auditing `json:"auditing"`
	// Kubeconfig is the kubeconfig that users are given.
	Kubeconfig Kubeconfig `json:"kubeconfig"`
	// Terminal is the shells in containers.
	Terminal Terminal `json:"terminal"`
	// GPU is what clients of release 3.4 offer as graphics processors.
	GPU GPU `json:"gpu"`
	// Gateway says what the gateways of projects are made by.
	Gateway Gateway `json:"gateway"`
	// HelmExecutor bounds operations on the releases of extensions.
	HelmExecutor HelmExecutor `json:"helmExecutor"`
	// Extension has values for the charts of extensions.
	Extension Extension `json:"extension"`
	// S3 is where the files of the application store are.
	S3 S3 `json:"s3"`
	// Experimental changes what kube-apiserver is asked for.
	Experimental Experimental `json:"experimental"`

	// Ignored are the keys in the file or the environment that are not read, sorted.
	Ignored []string `json:"-"`
	// Exposed are the keys of the file that hold secrets, sorted, where the file is that of a ConfigMap: every user who may read
	// ConfigMaps reads them.
	Exposed []string `json:"-"`

	// Sections of an installation's file that this program does not read. They are declared so that such a file loads, and each of them
	// that is set is listed in Ignored.
	Unread
}

// Kubernetes is the section kubernetes.
type Kubernetes struct {
	// Kubeconfig is a file; "" means the cluster that the program runs in, else ~/.kube/config.
	Kubeconfig string `json:"kubeconfig"`
	// Master overrides the address in the kubeconfig; "".
	Master string `json:"master"`
	// QPS and Burst bound the requests a second of this program's own clients; 1000 and 2000.
	QPS   float32 `json:"qps"`
	Burst int     `json:"burst"`
}

// Multicluster is the section multicluster.
type Multicluster struct {
	// ClusterRole is host, member or none; host. With none, clients omit the prefix /clusters/{cluster}; both forms work.
	ClusterRole string `json:"clusterRole"`
	// HostClusterName names the Cluster object of the host; host.
	HostClusterName string `json:"hostClusterName"`
	// ClusterName is this cluster's name; hostClusterName on the host.
	ClusterName string `json:"clusterName"`

	// ProxyPublishAddress is the https address at which members of the fleet reach this server; authentication.issuer.url.
	ProxyPublishAddress string `json:"proxyPublishAddress"`

	ProxyPublishService           any `json:"proxyPublishService" config:"unread"`
	AgentImage                    any `json:"agentImage" config:"unread"`
	ClusterControllerResyncPeriod any `json:"clusterControllerResyncPeriod" config:"unread"`
	ChartPath                     any `json:"chartPath" config:"unread"`
	Enable                        any `json:"enable" config:"unread"`
	EnableFederation              any `json:"enableFederation" config:"unread"`
}

// Resources is the section resources.
type Resources struct {
	// ServedOnly restricts the routes that serve any kind, for custom resources, to those whose definition has the
	// label kubesphere.io/resource-served=true (false).
	ServedOnly bool `json:"servedOnly"`
	// CacheMemory is how much memory the objects of all kinds may take together, as a quantity (800Mi). Beyond it one kind with many
	// objects is not listed, and everything else goes on. 0, the default, is two fifths of the environment variable GOMEMLIMIT, and
	// no bound where that is not set.
	CacheMemory Bytes `json:"cacheMemory"`
	// MaxItems is how many objects an answer may have; a longer list is refused with 413 and the advice to page. 0, the default, is
	// 50 000.
	MaxItems int `json:"maxItems"`
}

// maxItems bounds Resources.MaxItems: so many objects of a small kind are about what an answer may have in bytes.
const maxItems = 1_000_000

func (r *Resources) validate(fault func(format string, args ...any)) {
	if r.MaxItems < 0 || r.MaxItems > maxItems {
		fault("resources.maxItems: %d is not between 1 and %d, nor 0 for the default", r.MaxItems, maxItems)
	}
}

// Experimental is the section experimental.
type Experimental struct {
	// ValidationDirective is what kube-apiserver does with fields of a written object that it does not know, where the client does not say:
	// Strict refuses them, Warn answers with a warning, Ignore drops them. Empty, the default, is kube-apiserver's own: Warn.
	ValidationDirective string `json:"validationDirective"`
}

func (e *Experimental) validate(fault func(format string, args ...any)) {
	switch e.ValidationDirective {
	case "", "Strict", "Warn", "Ignore":
	default:
		fault("experimental.validationDirective: %q is not Strict, Warn or Ignore", e.ValidationDirective)
	}
}

// Egress is the section egress: the container registries and Git servers whose addresses users give.
type Egress struct {
	// AllowLoopback allows requests to the machine of this server; false. For tests and local debugging.
	AllowLoopback bool `json:"allowLoopback"`
}

// Aggregated is the section aggregated: query.kapis.dev, which kube-apiserver passes on to this server (docs/aggregated.md).
type Aggregated struct {
	// Enabled serves the API, and has ks-controller-manager tell kube-apiserver of it while it is served; false.
	Enabled bool `json:"enabled"`
}

// Unread are the sections of other components of an installation.
type Unread struct {
	KubeSphere   any `json:"kubesphere" config:"unread"`
	ComposedApp  any `json:"composedApp" config:"unread"`
	Devops       any `json:"devops" config:"unread"`
	SonarQube    any `json:"sonarQube" config:"unread"`
	ServiceMesh  any `json:"servicemesh" config:"unread"`
	Network      any `json:"network" config:"unread"`
	LDAP         any `json:"ldap" config:"unread"`
	Openpitrix   any `json:"openpitrix" config:"unread"`
	Monitoring   any `json:"monitoring" config:"unread"`
	Logging      any `json:"logging" config:"unread"`
	Events       any `json:"events" config:"unread"`
	Alerting     any `json:"alerting" config:"unread"`
	Notification any `json:"notification" config:"unread"`
	KubeEdge     any `json:"kubeedge" config:"unread"`
	EdgeRuntime  any `json:"edgeruntime" config:"unread"`
	Metering     any `json:"metering" config:"unread"`
}

// Default returns the configuration of an empty file.
func Default() *Config {
	return &Config{
		Kubernetes: Kubernetes{QPS: 1000, Burst: 2000},
		Authentication: Authentication{
			MultipleLogin:                   true,
			PasswordGrant:                   true,
			AuthenticateRateLimiterMaxTries: 5,
			AuthenticateRateLimiterDuration: Duration(30 * time.Minute),
			LoginHistoryRetentionPeriod:     Duration(168 * time.Hour),
			LoginHistoryMaximumEntries:      100,
			SecondFactor:                    "optional",
			LoginPage:                       LoginPageOwn,
			Order:                           credentials(),
			APIKeyMaximumAge:                Duration(8760 * time.Hour),
			Issuer: Issuer{
				URL:                          DefaultIssuerURL,
				AccessTokenMaxAge:            Duration(2 * time.Hour),
				AccessTokenInactivityTimeout: Duration(2 * time.Hour),
				AuthorizationCodeMaxAge:      Duration(time.Minute),
				MaximumClockSkew:             Duration(30 * time.Second),
				SigningKeyRotation:           Duration(90 * 24 * time.Hour),
			},
		},
		Authorization: Authorization{Mode: ModeRBAC, Webhook: AuthorizationWebhook{
			Timeout: Duration(3 * time.Second), AuthorizedTTL: Duration(5 * time.Second), UnauthorizedTTL: Duration(5 * time.Second),
		}},
		Cache: Cache{Options: CacheOptions{Port: 6379}},
		Auditing: Auditing{
			AuditLevel: "Metadata",
			LogOptions: AuditingLog{MaxAge: 7, MaxBackups: 10, MaxSize: 100, Mode: AuditBatch},

			WebhookOptions: AuditingWebhook{EventSendersNum: 4, Mode: AuditBatch},
			EventBatchSize: 100, EventBatchInterval: Duration(3 * time.Second),
		},
		Multicluster: Multicluster{ClusterRole: "host", HostClusterName: "host"},
		Fleet: Fleet{LiteMemory: 2 << 30, SharedSecretDirectory: "/etc/kubesphere", Agent: FleetAgent{APIServerImage: "ks-apiserver:latest",
			ControllerManagerImage: "ks-controller-manager:latest"}},
		Terminal: Terminal{IdleTimeout: Duration(30 * time.Minute), MaxDuration: Duration(8 * time.Hour), Files: true, UploadFileLimit: 100 << 20,
			Node:      TerminalNode{Timeout: Seconds(10 * time.Minute), Profile: "sysadmin"},
			Kubectl:   TerminalKubectl{Timeout: Seconds(2 * time.Minute)},
			Recording: defaultRecording()},
		S3:           S3{Region: "us-east-1", ForcePathStyle: true, Bucket: "uploads", NewFiles: true},
		HelmExecutor: HelmExecutor{Timeout: Duration(10 * time.Minute), HistoryMax: 5},
		Kubeconfig: Kubeconfig{Client: "kubectl", AuthMode: KubeconfigExec, CertificateMaxAge: Duration(168 * time.Hour),
			TokenMaxAge: Duration(12 * time.Hour)},
	}
}

// Configz returns which optional parts of this cluster are on, by the names that pages read in the status of a Cluster.
func (c *Config) Configz() map[string]bool {
	return map[string]bool{"auditing": c.Auditing.Enable && c.Auditing.Recent > 0}
}
