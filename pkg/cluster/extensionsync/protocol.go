package extensionsync

import (
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// What the hub asks a member over their link, all by POST.
const (
	// PathState takes a State, and answers with a Report.
	PathState = "/fleet/extensions/state"
	// PathChart takes a packed chart. The query has the hub and the SHA-256 of the chart.
	PathChart = "/fleet/extensions/chart"
	// PathAgent takes an Agent, whose chart the member has.
	PathAgent = "/fleet/extensions/agent"
)

// Owns reports whether a path is one that Member answers.
func Owns(path string) bool { return path == PathState || path == PathChart || path == PathAgent }

var (
	plansKind    = v1alpha1.SchemeGroupVersion.WithResource("installplans")
	versionsKind = v1alpha1.SchemeGroupVersion.WithResource("extensionversions")
	clustersKind = clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")
)

// State is what a hub tells a member.
type State struct {
	// Hub is the UID of the hub's kube-system.
	Hub string `json:"hub"`
	// Remove are the extensions whose agents are to be removed.
	Remove []string `json:"remove,omitempty"`
}

// Report is what a member has of the hub's.
type Report struct {
	Agents map[string]Installed `json:"agents"`
	// Charts are the digests of the charts that it has.
	Charts []string `json:"charts,omitempty"`
}

// Installed is the agent of an extension in a member.
type Installed struct {
	// Hash is that of the Agent that the hub sent last.
	Hash string `json:"hash"`
	// Leaving says that it is being removed.
	Leaving bool                        `json:"leaving,omitempty"`
	Status  v1alpha1.InstallationStatus `json:"status"`
}

// Agent is the part of an extension that a member is to have.
type Agent struct {
	Hub       string `json:"hub"`
	Extension string `json:"extension"`
	// Cluster is the name of the member in the fleet.
	Cluster string `json:"cluster"`
	Hash    string `json:"hash"`
	// Version is the version, whose digest is that of its chart.
	Version v1alpha1.ExtensionVersionSpec `json:"version"`
	Enabled bool                          `json:"enabled"`
	// Config are the values of this member, as YAML.
	Config string `json:"config,omitempty"`
	// Approver is the user who approved on the hub.
	Approver string `json:"approver,omitempty"`
	// Retry and OnFailure are what the plan on the hub has in the annotations of these names.
	Retry     string `json:"retry,omitempty"`
	OnFailure string `json:"onFailure,omitempty"`
	// Parts is in how many parts the member keeps the chart.
	Parts int `json:"parts"`
}
