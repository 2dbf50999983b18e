package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ReverseProxy has this server pass requests for paths below /proxy/ on to a backend.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Path",type=string,JSONPath=`.spec.matcher.path`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Reachable",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].status`
type ReverseProxy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ReverseProxySpec `json:"spec,omitempty"`
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status Status `json:"status,omitempty"`
}

// ReverseProxySpec says which requests go where, and how they are changed.
type ReverseProxySpec struct {
	// +optional
	Matcher Matcher `json:"matcher,omitempty"`
	// +optional
	Upstream Endpoint `json:"upstream,omitempty"`
	// +optional
	Directives Directives `json:"directives,omitempty"`
}

// Matcher selects requests.
type Matcher struct {
	// Path is a path below /proxy/, and all below it where it ends with *.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path,omitempty"`
	// Method is an HTTP method, or * for all.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Method string `json:"method,omitempty"`
}

// Directives change requests on the way to the backend, in the order in which they stand here, and answers on the way back.
type Directives struct {
	// Method replaces the method.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Method string `json:"method,omitempty"`
	// StripPathPrefix and StripPathSuffix are cut off the path.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	StripPathPrefix string `json:"stripPathPrefix,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	StripPathSuffix string `json:"stripPathSuffix,omitempty"`
	// HeaderUp changes headers of requests: "-X" and "-X*" remove, "+K V" adds, "K V" sets. A value may be in double quotes, and have the
	// placeholders {user.name}, {user.email} and {user.groups}.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	HeaderUp []string `json:"headerUp,omitempty"`
	// HeaderDown changes headers of answers in the same way.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	HeaderDown []string `json:"headerDown,omitempty"`
	// Rewrite replaces the path, the query or both, of paths that match: "/old/* /new{path}?{query}".
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Rewrite []string `json:"rewrite,omitempty"`
	// Replace replaces a text in path and query: "old new".
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	Replace []string `json:"replace,omitempty"`
	// PathRegexp replaces what a regular expression (RE2) matches in the path: "/v(\d+)/ /version-$1/".
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	PathRegexp []string `json:"pathRegexp,omitempty"`
	// AuthProxy tells the backend who asks, in the headers X-Remote-* and by a signed token in Authorization.
	// +optional
	AuthProxy bool `json:"authProxy,omitempty"`
	// RejectForwardingRedirects passes no redirect of the backend on.
	// +optional
	RejectForwardingRedirects bool `json:"rejectForwardingRedirects,omitempty"`
	// WrapTransport maps the links of HTML pages to the path of the matcher.
	// +optional
	WrapTransport bool `json:"wrapTransport,omitempty"`
}

// ReverseProxyList is a list of ReverseProxies.
//
// +kubebuilder:object:root=true
type ReverseProxyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ReverseProxy `json:"items"`
}
