// Package v1alpha1 has the names of query.kapis.dev/v1alpha1, the API that kube-apiserver passes on to ks-apiserver (docs/aggregated.md),
// and its only kind of its own.
//
// +kubebuilder:skip
package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The names that kube-apiserver and ks-apiserver agree on.
const (
	// GroupName and Version are those of the API.
	GroupName = "query.kapis.dev"
	Version   = "v1alpha1"
	// APIVersion is both, as objects name them.
	APIVersion = GroupName + "/" + Version
	// APIService is the name of the object by which kube-apiserver knows the API.
	APIService = Version + "." + GroupName
	// ServiceNamespace and Service are the Service that kube-apiserver connects to; Port is its port.
	ServiceNamespace = "kubesphere-system"
	Service          = "ks-apiserver-aggregated"
	Port             = 9443
	// ServerName is the name that kube-apiserver asks for in the TLS handshake.
	ServerName = Service + "." + ServiceNamespace + ".svc"
	// ServingSecret is the Secret with the certificate of ServerName, and with its authority.
	ServingSecret = "ks-apiserver-serving"
	// Queries is the plural of Query.
	Queries = "queries"
)

// Query is a list that is requested by a create: nothing is stored.
type Query struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec has the parameters of the list (docs/queries.md), and resource and namespace as a path has them.
	Spec map[string]any `json:"spec"`
	// Status is the answer.
	Status *QueryStatus `json:"status,omitempty"`
}

// QueryStatus is the page that a Query asked for.
type QueryStatus struct {
	// ResourceVersion is that of the list.
	ResourceVersion string `json:"resourceVersion"`
	// TotalItems is the number of matches on all pages.
	TotalItems int `json:"totalItems"`
	// Partial reports that only objects of some namespaces are in the list: those that the caller may list.
	Partial bool `json:"partial,omitempty"`
	// Facets counts the values of the requested fields.
	Facets json.RawMessage `json:"facets,omitempty"`
	// Items are the objects of the page.
	Items json.RawMessage `json:"items"`
}
