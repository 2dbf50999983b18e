package v1alpha1

import "encoding/json"

// FinalizerInstallPlan keeps an InstallPlan until its releases are removed.
const FinalizerInstallPlan = "kubesphere.io/installplan-protection"

// Annotations of an InstallPlan.
const (
	// AnnotationApproved is the stamp of what an installation may do, as somebody approved it; AnnotationApprovedBy is who that was, and
	// AnnotationApprovedPlacement the digest of the clusters that they approved it for. All are written by a webhook alone.
	AnnotationApproved          = "kapis.dev/approved"
	AnnotationApprovedBy        = "kapis.dev/approved-by"
	AnnotationApprovedPlacement = "kapis.dev/approved-placement"
	// AnnotationApprovedChart is the part of AnnotationApproved that is of the chart alone, and AnnotationApprovedValues identifies the Secret
	// whose values were approved, as it was then. The webhook alone writes both.
	AnnotationApprovedChart  = "kapis.dev/approved-chart"
	AnnotationApprovedValues = "kapis.dev/approved-values"
	// AnnotationUpstreams are hosts, by blanks or commas apart, that backends of the extension may be at besides Services of its namespace;
	// AnnotationApprovedUpstreams are those that were approved, which the webhook alone writes.
	AnnotationUpstreams         = "kapis.dev/upstreams"
	AnnotationApprovedUpstreams = "kapis.dev/approved-upstreams"
	// AnnotationApprove asks, with any value, for the approval by who writes it. It is not stored.
	AnnotationApprove = "kapis.dev/approve"
	// AnnotationRetry repeats, with each new value, an operation that failed, or one that succeeded.
	AnnotationRetry = "kapis.dev/retry"
	// AnnotationOnFailure leaves a failed upgrade as it is where it is OnFailureKeep; else the former version is applied again.
	AnnotationOnFailure = "kapis.dev/on-failure"
	OnFailureKeep       = "keep"
	// AnnotationPreview keeps a plan from being done, and asks with each new value for a preview of what would be; AnnotationPreviewed
	// identifies the one that there is.
	AnnotationPreview   = "kapis.dev/preview"
	AnnotationPreviewed = "kapis.dev/previewed"
	// AnnotationOperation identifies what was asked for by the last operation that ended.
	AnnotationOperation = "kapis.dev/operation"
	// AnnotationAgentOperation is AnnotationOperation of the agent in the hub's own cluster.
	AnnotationAgentOperation = "kapis.dev/agent-operation"
	// AnnotationForceDelete lets a plan be deleted without hooks, and without waiting for anything: what is installed stays.
	AnnotationForceDelete = "kubesphere.io/force-delete"
)

// Annotations of what a hub keeps in a member for the part of an extension there. An InstallPlan with the hub's label installs that part.
const (
	// AnnotationAgentCluster is, on an InstallPlan in a member, the member's name in the fleet.
	AnnotationAgentCluster = "kapis.dev/agent-cluster"
	// AnnotationFleetApprover is who approved on the hub. The member decides whether that person may approve here. The hub alone writes it.
	AnnotationFleetApprover = "kapis.dev/fleet-approver"
	// AnnotationFleetHash is the hash of what the hub wants.
	AnnotationFleetHash = "kapis.dev/fleet-hash"
	// AnnotationChartParts is, on an ExtensionVersion, how many ConfigMaps have its chart: their names are that of spec.chartDataRef
	// with -0, -1 and so on.
	AnnotationChartParts = "kapis.dev/chart-parts"
	// AnnotationRemovedExtensions is, on a Cluster, a JSON array of the extensions whose plans are gone while it was away: their agents are
	// removed when it is back.
	AnnotationRemovedExtensions = "kapis.dev/removed-extensions"
)

// AgentRelease returns the name of the release of an extension in a member.
func AgentRelease(extension string) string { return extension + "-agent" }

// LabelValues names the extension whose values a Secret has, under the key SecretValues, in the namespace of the release. They are merged
// over those of the InstallPlan once somebody has approved them, by AnnotationApprove.
const (
	LabelValues  = "kapis.dev/values"
	SecretValues = "values.yaml"
)

// Conditions of an InstallPlan.
const (
	// ConditionApproved says whether somebody who may has approved what the installation may do.
	ConditionApproved = "Approved"
	// ConditionDependenciesMet says whether the extensions that it needs are installed.
	ConditionDependenciesMet = "DependenciesMet"
	// ConditionInitialized says whether everything is known that the installation needs: the chart, its values, the namespace.
	ConditionInitialized = "Initialized"
	// ConditionInstalled, ConditionUpgraded and ConditionUninstalled are how the last operation of a kind ended.
	ConditionInstalled   = "Installed"
	ConditionUpgraded    = "Upgraded"
	ConditionUninstalled = "Uninstalled"
	// ConditionPreviewed says that there is a preview of what is not done yet.
	ConditionPreviewed = "Previewed"
	// ConditionReady says whether what the extension runs in the namespace of its release is ready.
	ConditionReady = "Ready"
	// ConditionRolledBack says that an upgrade failed and the former version runs.
	ConditionRolledBack = "RolledBack"
	// ConditionUpgradeAvailable says that a plan with the strategy Automatic has not followed the recommended version, and why.
	ConditionUpgradeAvailable = "UpgradeAvailable"
)

// RemovedExtensions returns the extensions that the annotations of a Cluster name as gone.
func RemovedExtensions(annotations map[string]string) (out []string) {
	if json.Unmarshal([]byte(annotations[AnnotationRemovedExtensions]), &out) != nil {
		return nil
	}
	return out
}
