package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// LabelRepository names the Repository that an Extension or an ExtensionVersion is from.
	LabelRepository = "kubesphere.io/repository-ref"
	// AnnotationSync on a Repository makes it read at once whenever its value changes.
	AnnotationSync = "kapis.dev/sync"
	// ConditionSynced says whether the whole of a Repository was read, and what hinders that.
	ConditionSynced = "Synced"
	// ConditionEntriesValid is False while entries of a Repository are left out, and names them.
	ConditionEntriesValid = "EntriesValid"
	// FinalizerRepository is what older installations keep a deleted Repository with.
	FinalizerRepository = "kubesphere.io/repository-protection"
)

// Repository is a place that has charts of extensions: a chart repository by http or https, or a container registry (oci://).
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`
// +kubebuilder:printcolumn:name="Synced",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastSyncTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Repository struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says where it is, and how often it is read.
	// +optional
	Spec RepositorySpec `json:"spec,omitempty"`
	// Status says when it was read, and what of it could not be.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status RepositoryStatus `json:"status,omitempty"`
}

// RepositorySpec says where a repository is.
type RepositorySpec struct {
	// URL is its address, without a user and without index.yaml. Of a registry it has the path below which the charts are.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`
	// Description is for people.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`
	// BasicAuth is sent to the host of the URL, and to no other; that for a registry goes to the token server of its site, too.
	// +optional
	BasicAuth *BasicAuth `json:"basicAuth,omitempty"`
	// UpdateStrategy says how often it is read.
	// +optional
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`
	// CABundle are PEM certificates of the authorities that the certificate of the repository is verified by, or these in base64.
	// +optional
	// +kubebuilder:validation:MaxLength=1048576
	CABundle string `json:"caBundle,omitempty"`
	// Insecure accepts any certificate, and a registry without TLS.
	// +optional
	Insecure bool `json:"insecure,omitempty"`
	// Depth is how many versions of each extension are taken, the highest first: 3 where it is absent, all where it is 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Depth *int `json:"depth,omitempty"`
}

// BasicAuth is a user and a password.
type BasicAuth struct {
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Username string `json:"username,omitempty"`
	// Password is shown to nobody.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Password string `json:"password,omitempty"`
}

// UpdateStrategy says when a repository is read again.
type UpdateStrategy struct {
	// RegistryPoll is how often.
	// +optional
	RegistryPoll *RegistryPoll `json:"registryPoll,omitempty"`
	// Timeout is how long reading it may take: two minutes where it is absent, and at most ten.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// RegistryPoll is an interval.
type RegistryPoll struct {
	// Interval is at least 15 minutes; a shorter one counts as that.
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`
}

// RepositoryStatus is what is known of a repository.
type RepositoryStatus struct {
	// LastSyncTime is when its content was taken over last.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`
	// Conditions say what works.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Sync is the value of the annotation kapis.dev/sync that was followed last.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Sync string `json:"sync,omitempty"`
}

// RepositoryList is a list of Repositories.
//
// +kubebuilder:object:root=true
type RepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Repository `json:"items"`
}
