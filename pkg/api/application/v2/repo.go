package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Repo is a repository of charts. No answer of this server shows its credential (pkg/redaction).
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=repos,scope=Cluster,shortName=repo
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Repo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec RepoSpec `json:"spec,omitempty"`
	// +optional
	Status RepoStatus `json:"status,omitempty"`
}

// RepoSpec says where a repository is, and how often it is read.
type RepoSpec struct {
	// +optional
	URL string `json:"url,omitempty"`
	// +optional
	Description string `json:"description,omitempty"`
	// Credential is never shown.
	// +optional
	Credential RepoCredential `json:"credential,omitempty"`
	// SyncPeriod is in seconds; 0 is never.
	// +optional
	SyncPeriod *int64 `json:"syncPeriod,omitempty"`
}

// RepoCredential is what this server proves itself with to a repository, and what it takes for the repository's proof.
type RepoCredential struct {
	// +optional
	Username string `json:"username,omitempty"`
	// +optional
	Password string `json:"password,omitempty"`
	// CertFile, KeyFile and CAFile are the content of PEM files, and not paths.
	// +optional
	CertFile string `json:"certFile,omitempty"`
	// +optional
	KeyFile string `json:"keyFile,omitempty"`
	// +optional
	CAFile string `json:"caFile,omitempty"`
	// +optional
	InsecureSkipTLSVerify *bool `json:"insecureSkipTLSVerify,omitempty"`
}

// RepoStatus is how the last reading of a repository ended.
type RepoStatus struct {
	// State is created, syncing, successful or failed; manualTrigger asks for a reading.
	// +optional
	State string `json:"state,omitempty"`
	// +optional
	LastUpdateTime *metav1.Time `json:"lastUpdateTime,omitempty"`
	// ObservedGeneration is that of the spec which was read last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// RepoList is a list of Repos.
//
// +kubebuilder:object:root=true
type RepoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Repo `json:"items"`
}
