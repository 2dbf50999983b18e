// Package config is the configuration file: its fields, their defaults, their validation, and Load.
//
// The file is kubesphere.yaml. Names of both generations are read: the v4 names, and authentication.oauthOptions of v3.4 (see legacy.go).
// Keys are matched without regard to case, as clients of the older format wrote them. An unknown key is an error; a section that a
// KubeSphere installation has and this program does not use is accepted and listed in Ignored.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
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

// Authentication is the section authentication.
type Authentication struct {
	// Issuer is the token issuer.
	Issuer Issuer `json:"issuer"`
	// MultipleLogin allows one user several sessions at once; true. With false a login ends the user's other sessions.
	MultipleLogin bool `json:"multipleLogin"`
	// Clients are OAuth clients besides those in Secrets (v3.4: oauthOptions.clients); none.
	Clients []Client `json:"clients"`
	// PasswordGrant lets trusted clients, such as the console, accept users' passwords (grant_type=password); true.
	PasswordGrant bool `json:"passwordGrant"`
	// IdentityProviders authenticate users, besides those in Secrets (v3.4: oauthOptions.identityProviders); none.
	IdentityProviders []IdentityProvider `json:"identityProviders"`

	// AuthenticateRateLimiterMaxTries is how many wrong passwords one source may send for one user within
	// AuthenticateRateLimiterDuration; 5 and 30m.
	AuthenticateRateLimiterMaxTries int      `json:"authenticateRateLimiterMaxTries"`
	AuthenticateRateLimiterDuration Duration `json:"authenticateRateLimiterDuration"`
	// LoginHistoryRetentionPeriod is how long records of logins are stored, and LoginHistoryMaximumEntries how many of one user; 168h and
	// 100.
	LoginHistoryRetentionPeriod Duration `json:"loginHistoryRetentionPeriod"`
	LoginHistoryMaximumEntries  int      `json:"loginHistoryMaximumEntries"`
	// TrustedProxies are the addresses, or ranges such as 10.244.0.0/16, of proxies (the console is one) that are trusted about the
	// source of a login: X-Forwarded-For, or else, where the console itself logs a user in, X-Client-Ip; none.
	TrustedProxies []string `json:"trustedProxies"`
	// TrustedOrigins are origins of pages, as in https://console.example:30880, besides the issuer's, that count as this server's own: their
	// WebSockets may use the console's cookie, and their forms are accepted; none.
	TrustedOrigins []string `json:"trustedOrigins"`
	// LoginPage is who asks users to log in for a client: own is this server's page, console the platform's console at the issuer's
	// address, which passes /oauth/ on to this server without cookies; own.
	LoginPage string `json:"loginPage"`
	// Order is which credential counts where a request has several: proxy (the headers of an authenticating proxy), token and certificate,
	// each once; in this order. One that is refused ends the request, whatever comes after it.
	Order []string `json:"order"`
	// SecondFactor is off, optional (users who have one are asked for it) or required; optional.
	SecondFactor string `json:"secondFactor"`
	// APIKeyMaximumAge is the longest life of an API key; 8760h.
	APIKeyMaximumAge Duration `json:"apiKeyMaximumAge"`

	KubectlImage any `json:"kubectlImage" config:"unread"`
}

// DefaultIssuerURL is the issuer where none is configured: the name of the Service, which can't be reached from outside the cluster.
const DefaultIssuerURL = "https://ks-apiserver.kubesphere-system.svc"

// Issuer is the section authentication.issuer.
type Issuer struct {
	// URL is the iss of tokens and the base of the endpoints in the discovery document; https://ks-apiserver.kubesphere-system.svc. An http
	// URL is for a loopback address: tokens, passwords and codes would cross a network in the clear.
	URL string `json:"url"`
	// AllowInsecureURL allows URL to be http at any address, as configurations of older installations have it; false.
	AllowInsecureURL bool `json:"allowInsecureURL"`
	// AccessTokenMaxAge is the life of an access token; 2h. 0 means: as long as its session.
	AccessTokenMaxAge Duration `json:"accessTokenMaxAge"`
	// AccessTokenInactivityTimeout is how long after the end of an access token its refresh token
	// still works; 2h.
	AccessTokenInactivityTimeout Duration `json:"accessTokenInactivityTimeout"`
	// AuthorizationCodeMaxAge is how long an authorization code is valid; 1m. At most 10m (RFC 6749, 4.1.2).
	AuthorizationCodeMaxAge Duration `json:"authorizationCodeMaxAge"`
	// MaximumClockSkew is how far the clocks of replicas may differ; 30s.
	MaximumClockSkew Duration `json:"maximumClockSkew"`

	// SigningKeyRotation is how long a key signs tokens before a new one replaces it; 2160h. 0 means forever.
	SigningKeyRotation Duration `json:"signingKeyRotation"`

	// JWTSecret is the key with which an older installation signed its tokens; read only with AcceptLegacyTokensUntil.
	JWTSecret Secret `json:"jwtSecret"`
	// AcceptLegacyTokensUntil, a time as in 2027-01-31T00:00:00Z, accepts tokens of the older installation until then; "" accepts none.
	AcceptLegacyTokensUntil string `json:"acceptLegacyTokensUntil"`

	SignKey     any    `json:"signKey" config:"unread"`
	SignKeyData Secret `json:"signKeyData" config:"unread"`
}

// Client is an OAuth client in the file. Its fields are those of the v4 Secrets.
type Client struct {
	Name                                string   `json:"name"`
	Secret                              Secret   `json:"secret"`
	Trusted                             bool     `json:"trusted"`
	GrantMethod                         string   `json:"grantMethod"`
	RespondWithChallenges               bool     `json:"respondWithChallenges"`
	ScopeRestrictions                   []string `json:"scopeRestrictions"`
	RedirectURIs                        []string `json:"redirectURIs"`
	PostLogoutRedirectURIs              []string `json:"postLogoutRedirectURIs"`
	AccessTokenMaxAgeSeconds            int64    `json:"accessTokenMaxAgeSeconds"`
	AccessTokenInactivityTimeoutSeconds int64    `json:"accessTokenInactivityTimeoutSeconds"`
}

// IdentityProvider is an element of the list authentication.identityProviders, as JSON. It is parsed by the reader of providers in
// Secrets, so that a wrong one affects itself alone. It holds secrets: like Secret, it prints none.
type IdentityProvider []byte

// UnmarshalJSON stores the element.
func (p *IdentityProvider) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '{' {
		return errors.New("an element of authentication.identityProviders has to be keys with values")
	}
	*p = append(IdentityProvider(nil), b...)
	return nil
}

// String hides the element.
func (p IdentityProvider) String() string { return "(hidden)" }

// GoString hides the element.
func (p IdentityProvider) GoString() string { return p.String() }

// Format hides the element, for any verb.
func (p IdentityProvider) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(p.String())) }

// MarshalJSON hides the element.
func (p IdentityProvider) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

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

// Kubeconfig is the section kubeconfig: the content of a user's kubeconfig (GET users/{user}/kubeconfig).
type Kubeconfig struct {
	// Server is the https URL at which kubectl reaches this server; authentication.issuer.url, where that is one.
	Server string `json:"server"`
	// CertificateAuthority is a PEM file of the CAs of Server's certificate; "" for the CAs of the users' machines.
	CertificateAuthority string `json:"certificateAuthority"`
	// Client is the OAuth client that the plugin logs in with; kubectl.
	Client string `json:"client"`

	// AuthMode is exec, oidc-token, webhook-token, client-certificate or service-account-token; exec. With exec a kubeconfig has no credential, the plugin kubectl-ks
	// logs in to this server. With oidc-token and webhook-token it does too, for requests to kube-apiserver itself, which trusts this
	// server's ID tokens, or asks it about access tokens. With client-certificate a kubeconfig has a certificate of the user for
	// kube-apiserver itself, which can't be revoked before it expires. With service-account-token it has a token, also for kube-apiserver
	// itself, of a service account that may impersonate the user.
	AuthMode string `json:"authMode"`
	// CertificateMaxAge is the life of such a certificate; 168h. It is renewed after two thirds of it.
	CertificateMaxAge Duration `json:"certificateMaxAge"`
	// TokenMaxAge is the life of such a token; 12h.
	TokenMaxAge Duration `json:"tokenMaxAge"`
	// KubernetesServer is the https URL at which users reach kube-apiserver, for all modes but exec; that of this program's own
	// kubeconfig.
	KubernetesServer string `json:"kubernetesServer"`
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

// Duration is a length of time, written as in Go: 90s, 2h30m. 0 needs no unit.
type Duration time.Duration

// UnmarshalJSON reads a duration.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if string(b) == "0" {
		s = "0"
	} else if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%s is not a duration such as 2h or 90s", b)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 2h or 90s", s)
	}
	*d = Duration(v)
	return nil
}

// Bytes is an amount of memory, written as a quantity of Kubernetes: 800Mi, 2G, or a number of bytes.
type Bytes int64

// UnmarshalJSON reads an amount of memory.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	q, err := resource.ParseQuantity(strings.Trim(string(text), `"`))
	n, whole := q.AsInt64()
	if err != nil || !whole || n < 0 {
		return fmt.Errorf("%s is not an amount of memory such as 800Mi or 2Gi", text)
	}
	*b = Bytes(n)
	return nil
}

// Secret is a value that must not be printed. Any format prints a placeholder; string(s) is the value.
type Secret string

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(hidden)"
}

// GoString hides the value.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// MarshalJSON hides the value.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }
