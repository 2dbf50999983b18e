package v1alpha1

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// UpgradeStrategy says who chooses the version.
//
// +kubebuilder:validation:Enum="";Manual;Automatic
type UpgradeStrategy string

// The strategies.
const (
	// UpgradeManual installs the version that the plan names.
	UpgradeManual UpgradeStrategy = "Manual"
	// UpgradeAutomatic follows the recommended version of the extension.
	UpgradeAutomatic UpgradeStrategy = "Automatic"
)

// The states of an installation.
const (
	StatePreparing       = "Preparing"
	StateInstalling      = "Installing"
	StateInstalled       = "Installed"
	StateInstallFailed   = "InstallFailed"
	StateUpgrading       = "Upgrading"
	StateUpgradeFailed   = "UpgradeFailed"
	StateUninstalling    = "Uninstalling"
	StateUninstalled     = "Uninstalled"
	StateUninstallFailed = "UninstallFailed"
)

// InstallPlan says that an extension is to be installed, in which version and with which configuration. It has the extension's name.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.extension.version`
// +kubebuilder:printcolumn:name="Installed",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Enabled",type=boolean,JSONPath=`.status.enabled`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type InstallPlan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	// +optional
	Spec InstallPlanSpec `json:"spec,omitempty"`
	// Status is how far that is.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status InstallPlanStatus `json:"status,omitempty"`
}

// ExtensionRef names a version of an extension.
type ExtensionRef struct {
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
}

// InstallPlanSpec is what is to be installed.
type InstallPlanSpec struct {
	// Extension is the extension and its version.
	Extension ExtensionRef `json:"extension"`
	// Enabled says whether the extension is in use; its releases stay where it is not.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// UpgradeStrategy is Manual where it is absent.
	// +optional
	UpgradeStrategy UpgradeStrategy `json:"upgradeStrategy,omitempty"`
	// Config are the values of the chart, as YAML.
	// +optional
	// +kubebuilder:validation:MaxLength=1048576
	Config string `json:"config,omitempty"`
	// ClusterScheduling says which clusters get an agent.
	// +optional
	ClusterScheduling *ClusterScheduling `json:"clusterScheduling,omitempty"`
}

// ClusterScheduling says which clusters get an agent, and with which values.
type ClusterScheduling struct {
	// Placement chooses the clusters.
	// +optional
	Placement *Placement `json:"placement,omitempty"`
	// Overrides are values by the name of a cluster, as YAML, that take precedence there.
	// +optional
	Overrides map[string]string `json:"overrides,omitempty"`
}

// Placement chooses clusters by their names, or by their labels.
type Placement struct {
	// +optional
	// +kubebuilder:validation:MaxItems=4096
	Clusters []string `json:"clusters,omitempty"`
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
}

// InstallationState is a state, and when it began.
type InstallationState struct {
	// +kubebuilder:validation:MaxLength=63
	State string `json:"state"`
	// +optional
	// +nullable
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// InstallationStatus is how far an installation in one cluster is.
type InstallationStatus struct {
	// State is one of the states of an installation.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	State string `json:"state,omitempty"`
	// Version is the version that is installed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// ConfigHash is that of the values that are installed.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ConfigHash string `json:"configHash,omitempty"`
	// TargetNamespace is the namespace of the release.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	TargetNamespace string `json:"targetNamespace,omitempty"`
	// ReleaseName is the name of the release.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ReleaseName string `json:"releaseName,omitempty"`
	// JobName names the Job whose pods pages show the log of; empty where there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	JobName string `json:"jobName,omitempty"`
	// StateHistory are the latest states, the newest last.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	StateHistory []InstallationState `json:"stateHistory,omitempty"`
	// Conditions say what works.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// InstallPlanStatus is how far an installation is, in the host and in each cluster with an agent.
type InstallPlanStatus struct {
	InstallationStatus `json:",inline"`
	// Enabled says whether the extension is in use.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// ClusterSchedulingStatuses is the state of the agents by the name of their cluster.
	// +optional
	ClusterSchedulingStatuses map[string]InstallationStatus `json:"clusterSchedulingStatuses,omitempty"`
}

// InstallPlanList is a list of InstallPlans.
//
// +kubebuilder:object:root=true
type InstallPlanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []InstallPlan `json:"items"`
}

// Uses reports whether a plan has a version of an extension installed in any cluster, or is to install it.
func (p *InstallPlan) Uses(extension, version string) bool {
	if p.Spec.Extension.Name != extension {
		return false
	}
	if p.Spec.Extension.Version == version || p.Status.Version == version {
		return true
	}
	for _, in := range p.Status.ClusterSchedulingStatuses {
		if in.Version == version {
			return true
		}
	}
	return false
}

// PlacedOn reports whether the agent of an extension is to be in a cluster: one that the plan names, or, where it names none, one whose
// labels it selects. The error is that of a selector that can't be read, which says nothing: what is there stays.
func (p *InstallPlan) PlacedOn(cluster string, has map[string]string) (bool, error) {
	if p.Spec.ClusterScheduling == nil || p.Spec.ClusterScheduling.Placement == nil || !p.DeletionTimestamp.IsZero() {
		return false, nil
	}
	of := p.Spec.ClusterScheduling.Placement
	if len(of.Clusters) > 0 || of.ClusterSelector == nil {
		return slices.Contains(of.Clusters, cluster), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(of.ClusterSelector)
	if err != nil {
		return false, fmt.Errorf("spec.clusterScheduling.placement.clusterSelector can't be read: %w", err)
	}
	return selector.Matches(labels.Set(has)), nil
}
