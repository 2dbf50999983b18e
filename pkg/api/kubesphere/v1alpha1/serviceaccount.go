package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What says of a Secret that it holds the token of a ServiceAccount.
const (
	// SecretTypeServiceAccountToken is the type of such a Secret.
	SecretTypeServiceAccountToken corev1.SecretType = "kubesphere.io/service-account-token"
	// ServiceAccountTokenKey is the key of the token in its data.
	ServiceAccountTokenKey = "token"
	// AnnotationServiceAccountName and AnnotationServiceAccountUID name the ServiceAccount in the Secret's namespace. Older
	// installations have the name as a label.
	AnnotationServiceAccountName = "kubesphere.io/service-account.name"
	AnnotationServiceAccountUID  = "kubesphere.io/service-account.uid"
)

// AnnotationPodServiceAccount on a pod names the ServiceAccount whose token is put into its containers.
const AnnotationPodServiceAccount = "kubesphere.io/serviceaccount-name"

// FinalizerServiceAccount is what older installations keep a deleted ServiceAccount with.
const FinalizerServiceAccount = "finalizers.kubesphere.io/serviceaccount"

// ServiceAccount is who a program is to ks-apiserver. Its rights are those that iam bindings give to a subject of kind ServiceAccount
// and group kubesphere.io, or to the user kubesphere:serviceaccount:<namespace>:<name>.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ServiceAccount struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Secrets are the Secrets in the same namespace whose tokens count. ks-controller-manager makes the first one. A Secret that is
	// not named here opens nothing.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Secrets []corev1.ObjectReference `json:"secrets,omitempty"`
}

// ServiceAccountList is a list of ServiceAccounts.
//
// +kubebuilder:object:root=true
type ServiceAccountList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ServiceAccount `json:"items"`
}
