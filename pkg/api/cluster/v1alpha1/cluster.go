package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// HostCluster is the usual name of the cluster that this server itself runs in.
const HostCluster = "host"

// What a hub is in its members.
const (
	// HubUser is the name under which a member writes for its hub.
	HubUser = "kapis:hub"
	// LabelFleet is carried by what a hub keeps in a member: the UID of the hub's kube-system.
	LabelFleet = "kapis.dev/fleet"
)

// Labels of a Cluster.
const (
	// LabelHostCluster marks the cluster that this server itself runs in; its value is empty.
	LabelHostCluster = "cluster-role.kubesphere.io/host"
	// LabelVisibility is "public" on clusters that every workspace may be placed in.
	LabelVisibility = "cluster.kubesphere.io/visibility"
	// LabelRegion is where the cluster is.
	LabelRegion = "cluster.kubesphere.io/region"
	// LabelGroup groups clusters on pages.
	LabelGroup = "cluster.kubesphere.io/group"
	// LabelClusterLabelPrefix, followed by the name of a Label, marks the clusters it is on.
	LabelClusterLabelPrefix = "label.cluster.kubesphere.io/"
)

const (
	// VisibilityPublic is the value of LabelVisibility that opens a cluster to every workspace.
	VisibilityPublic = "public"
	// AnnotationLabelIDs lists the names of the Labels on a cluster.
	AnnotationLabelIDs = "cluster.kubesphere.io/label-ids"
	// AnnotationClusterName is, on the namespace kubesphere-system of a cluster, its name in the fleet.
	AnnotationClusterName = "cluster.kubesphere.io/name"
	// AnnotationHostCluster is, on the namespace kubesphere-system of a member, its host's name.
	AnnotationHostCluster = "cluster.kubesphere.io/host-cluster"
	// AnnotationKeepKubeconfig is "true" on a Cluster whose imported credential is not to be replaced by one of listed rights.
	AnnotationKeepKubeconfig = "kapis.dev/keep-kubeconfig"
	// AnnotationCreator names who made the Cluster, who has the role cluster-admin in the member for that. An admission policy says whom it
	// may name.
	AnnotationCreator = "kubesphere.io/creator"
	// AnnotationLite is "true" on a Cluster of type direct in which no program of ours runs: the hub serves it by its kube-apiserver.
	AnnotationLite = "kapis.dev/lite"
	// FinalizerCluster keeps a deleted Cluster until the member is released.
	FinalizerCluster = "finalizer.cluster.kubesphere.io"
	// FinalizerLabel keeps a deleted Label until no cluster carries it.
	FinalizerLabel = "finalizers.kubesphere.io/cluster-label"
)

// AnnotationCoreAction is, on a Cluster of type direct, what is to be done with our programs there: a CoreAction. It is removed once that
// is done.
const AnnotationCoreAction = "kubesphere.io/ks-core-action"

// CoreAction is what is to be done with our programs in a member.
type CoreAction string

// What can be done.
const (
	ActionInstall   CoreAction = "install"
	ActionUpgrade   CoreAction = "upgrade"
	ActionReinstall CoreAction = "reinstall"
)

// ConnectionType says how a member is reached.
//
// +kubebuilder:validation:Enum="";direct;proxy
type ConnectionType string

// The ways to reach a member.
const (
	// ConnectionDirect goes to the address in the kubeconfig.
	ConnectionDirect ConnectionType = "direct"
	// ConnectionProxy goes through a tunnel that an agent in the member opened.
	ConnectionProxy ConnectionType = "proxy"
)

// Cluster is one cluster of the fleet: how it is reached, and what is known of it.
//
// There is no status sub-resource: agents of existing installations write their conditions with the
// whole object, and one would drop them in silence.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="Connection",type=string,JSONPath=`.spec.connection.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Kubernetes",type=string,JSONPath=`.status.kubernetesVersion`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodeCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is how it is reached.
	// +optional
	Spec ClusterSpec `json:"spec,omitempty"`
	// Status is what is known of it.
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterSpec is how a cluster is reached.
type ClusterSpec struct {
	// JoinFederation is kept for older clients and not acted upon.
	// +optional
	JoinFederation bool `json:"joinFederation,omitempty"`
	// Enable is false for a cluster that is not to be used.
	// +optional
	Enable bool `json:"enable,omitempty"`
	// ExternalKubeAPIEnabled publishes the member's kube-apiserver outside of the host.
	// +optional
	ExternalKubeAPIEnabled bool `json:"externalKubeAPIEnabled,omitempty"`
	// Provider is who runs the cluster, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Provider string `json:"provider,omitempty"`
	// Connection is how to get there.
	// +optional
	Connection Connection `json:"connection,omitempty"`
	// Config is the YAML that the software in the member is installed with.
	// +optional
	Config []byte `json:"config,omitempty"`
}

// Connection is how to get to a cluster. KubeConfig and Token are credentials: servers return them
// only to those who may read the credential.
type Connection struct {
	// Type is direct or proxy.
	// +optional
	Type ConnectionType `json:"type,omitempty"`
	// KubernetesAPIEndpoint is the URL of the member's kube-apiserver.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	KubernetesAPIEndpoint string `json:"kubernetesAPIEndpoint,omitempty"`
	// ExternalKubernetesAPIEndpoint is that URL as seen from outside.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	ExternalKubernetesAPIEndpoint string `json:"externalKubernetesAPIEndpoint,omitempty"`
	// KubeSphereAPIEndpoint is the URL of the member's ks-apiserver.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	KubeSphereAPIEndpoint string `json:"kubesphereAPIEndpoint,omitempty"`
	// KubeConfig is the kubeconfig that the host uses.
	// +optional
	KubeConfig []byte `json:"kubeconfig,omitempty"`
	// Token is what the agent of a proxied member shows.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Token string `json:"token,omitempty"`
	// KubernetesAPIServerPort is the host's port to the tunnelled kube-apiserver.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	KubernetesAPIServerPort uint16 `json:"kubernetesAPIServerPort,omitempty"`
	// KubeSphereAPIServerPort is the host's port to the tunnelled ks-apiserver.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	KubeSphereAPIServerPort uint16 `json:"kubesphereAPIServerPort,omitempty"`
}

// ClusterStatus is what is known of a cluster.
type ClusterStatus struct {
	// Conditions say what works and what does not.
	// +optional
	// +listType=atomic
	Conditions []ClusterCondition `json:"conditions,omitempty"`
	// KubernetesVersion is what its kube-apiserver says.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// KubeSphereVersion is what its ks-apiserver says.
	// +optional
	KubeSphereVersion string `json:"kubeSphereVersion,omitempty"`
	// NodeCount is how many nodes it has.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeCount int `json:"nodeCount,omitempty"`
	// Zones are the zones of its nodes.
	// +optional
	// +listType=atomic
	Zones []string `json:"zones,omitempty"`
	// Region is where it is.
	// +optional
	Region string `json:"region,omitempty"`
	// Configz says which components are enabled.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Configz runtime.RawExtension `json:"configz,omitzero"`
	// UID is the UID of its namespace kube-system, which tells clusters apart.
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}
