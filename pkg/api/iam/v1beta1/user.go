package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Annotations of a User. None of them grants anything by itself: rights come from bindings.
const (
	// AnnotationGlobalRole names the user's GlobalRole: in a request the role to bind, which
	// needs the right to grant it; in an answer the role that is bound.
	AnnotationGlobalRole = "iam.kubesphere.io/globalrole"
	// AnnotationWorkspaceRole names, in an answer, the member's role in the workspace asked about.
	AnnotationWorkspaceRole = "iam.kubesphere.io/workspacerole"
	// AnnotationClusterRole names, in an answer, the member's role in the cluster.
	AnnotationClusterRole = "iam.kubesphere.io/clusterrole"
	// AnnotationRole names, in an answer, the member's role in the namespace asked about.
	AnnotationRole = "iam.kubesphere.io/role"
	// AnnotationFleetUID is, on a User or Workspace that a hub keeps in a member cluster, the UID of the User or WorkspaceTemplate on the
	// hub.
	AnnotationFleetUID = "kapis.dev/fleet-uid"
	// AnnotationGrantedClusters lists, comma separated, the clusters that the user may see.
	// Only ks-controller-manager writes it.
	AnnotationGrantedClusters = "iam.kubesphere.io/granted-clusters"
	// AnnotationIdentityProviderPrefix, followed by the name of an identity provider, holds the
	// subject by which that provider knows the user.
	AnnotationIdentityProviderPrefix = "iam.kubesphere.io/identity-provider."
	// AnnotationUninitialized is "true" until the user has set a password of his own.
	AnnotationUninitialized = "iam.kubesphere.io/uninitialized"
	// AnnotationLastPasswordChangeTime is the RFC 3339 time at which a new password was hashed.
	AnnotationLastPasswordChangeTime = "iam.kubesphere.io/last-password-change-time"
	// AnnotationPasswordFingerprint says which hash that time is about; it gives nothing of the hash away.
	AnnotationPasswordFingerprint = "iam.kapis.dev/password-fingerprint"
	// AnnotationBoundGroups lists, comma-separated, the groups of a user that come from GroupBindings. Every
	// other group in the spec was written by a user, and stays.
	AnnotationBoundGroups = "kapis.dev/bound-groups"
	// AnnotationPasswordSession is the fingerprint of the session in which the user set the present
	// password, which goes on. Only the webhook of ks-controller-manager writes it.
	AnnotationPasswordSession = "iam.kapis.dev/password-session"
)

// ExtraSession is the key in a user's extra for the fingerprint of the session in which the user
// writes his own User. Only ks-apiserver sets it.
const ExtraSession = "authentication.kapis.dev/session"

// ExtraCredential is the key in a user's extra for the kind of a credential that may less than a login, such as
// an API key. Only ks-apiserver sets it.
const ExtraCredential = "authentication.kapis.dev/credential"

// Labels of a User made by release 3, which linked one identity provider only.
const (
	// LabelIdentifyProvider is the name of the linked identity provider.
	LabelIdentifyProvider = "iam.kubesphere.io/identify-provider"
	// LabelOriginUID is the subject at that provider.
	LabelOriginUID = "iam.kubesphere.io/origin-uid"
)

const (
	// LabelUserReference is carried by what belongs to or names a user: bindings, login records.
	LabelUserReference = "iam.kubesphere.io/user-ref"
	// FinalizerUser keeps a deleted User until its bindings are gone.
	FinalizerUser = "finalizers.kubesphere.io/users"
	// SyntheticGroupPrefix begins the groups that only this server can assert. No user, binding,
	// provider or token may carry one.
	SyntheticGroupPrefix = "kapis:"
	// UserPreRegistration is who a person is, who proved an identity that no User is linked to yet.
	UserPreRegistration = "system:pre-registration"
	// GroupPreRegistration is the group of UserPreRegistration.
	GroupPreRegistration = "pre-registration"
)

// UserState says whether a User may log in.
//
// +kubebuilder:validation:Enum="";Active;Disabled;AuthLimitExceeded
type UserState string

// The states of a User.
const (
	// UserPending is a User whom no controller has looked at yet. It may log in if its password is hashed, which a webhook does.
	UserPending UserState = ""
	// UserActive may log in.
	UserActive UserState = "Active"
	// UserDisabled may not log in, and its sessions are over.
	UserDisabled UserState = "Disabled"
	// UserAuthLimitExceeded may not log in for a while, after too many wrong passwords.
	UserAuthLimitExceeded UserState = "AuthLimitExceeded"
)

// User is a person or a robot that logs in.
//
// The status is a sub-resource, so that a write of the object can't change the state: ks-apiserver's
// own PUT route writes both, which lets clients send status.state in the whole object. Where the
// CRD of an older installation is kept, which has no sub-resource, the status goes with the object.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Email",type=string,JSONPath=`.spec.email`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Last-Login",type=date,JSONPath=`.status.lastLoginTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",optionalOldSelf=true,message="a user's name is at most 63 characters long, since labels refer to it"
type User struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user and those who manage users say.
	// +optional
	Spec UserSpec `json:"spec,omitempty"`
	// Status is what the system says.
	// +optional
	Status UserStatus `json:"status,omitempty"`
}

// UserSpec is what the user and those who manage users say.
type UserSpec struct {
	// Email is an address that the user can log in with. Unique among users.
	// +optional
	// +kubebuilder:validation:MaxLength=254
	// +kubebuilder:validation:Pattern=`^$|^[^@\s]+@[^@\s]+$`
	Email string `json:"email,omitempty"`
	// Lang is the language of the user's pages, such as "en" or "zh".
	// +optional
	// +kubebuilder:validation:MaxLength=35
	Lang string `json:"lang,omitempty"`
	// Description is for people.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`
	// DisplayName is how pages call the user.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DisplayName string `json:"displayName,omitempty"`
	// Groups are the groups that the user is in. Those that the system gives can't be named.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="!self.startsWith('system:') && !self.startsWith('kapis:')",message="groups that begin with system: or kapis: can't be given to a user"
	Groups []string `json:"groups,omitempty"`
	// Password is a new password until ks-controller-manager has put its bcrypt hash there: 8 to 64
	// characters, at most 72 bytes (bcrypt reads no more), with upper case, lower case and a digit.
	// It is accepted as a hash already, of a cost up to 14, since every login pays the cost.
	// Servers never return it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[$]2[aby][$](0[4-9]|1[0-4])[$][./A-Za-z0-9]{53}$') || (!self.matches('^[$]2[abxy]?[$]') && size(self) >= 8 && size(bytes(self)) <= 72 && self.matches('[A-Z]') && self.matches('[a-z]') && self.matches('[0-9]'))",message="a password has 8 to 64 characters (at most 72 bytes), among them an upper-case letter, a lower-case letter and a digit"
	Password string `json:"password,omitempty"`
}

// UserStatus is what the system says of a user.
type UserStatus struct {
	// State says whether the user may log in.
	// +optional
	State UserState `json:"state,omitempty"`
	// Reason says why the state is what it is.
	// +optional
	Reason string `json:"reason,omitempty"`
	// LastTransitionTime is when the state last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// LastLoginTime is when the user last logged in.
	// +optional
	LastLoginTime *metav1.Time `json:"lastLoginTime,omitempty"`
}

// UserList is a list of Users.
//
// +kubebuilder:object:root=true
type UserList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []User `json:"items"`
}
