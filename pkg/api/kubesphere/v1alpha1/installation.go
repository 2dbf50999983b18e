package v1alpha1

// FinalizerInstallPlan keeps an InstallPlan until its releases are removed.
const FinalizerInstallPlan = "kubesphere.io/installplan-protection"

// Annotations of an InstallPlan.
const (
	// AnnotationApproved is the stamp of what an installation may do, as somebody approved it; AnnotationApprovedBy is who that was. Both
	// are written by a webhook alone.
	AnnotationApproved   = "kapis.dev/approved"
	AnnotationApprovedBy = "kapis.dev/approved-by"
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
	// AnnotationForceDelete lets a plan be deleted without hooks, and without waiting for anything: what is installed stays.
	AnnotationForceDelete = "kubesphere.io/force-delete"
)

// LabelValues names the extension whose values a Secret has, under the key SecretValues, in the namespace of the release. They are merged
// over those of the InstallPlan.
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
