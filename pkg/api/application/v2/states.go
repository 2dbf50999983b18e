package v2

// States of Applications and of their versions.
const (
	StateDraft     = "draft"
	StateSubmitted = "submitted"
	StatePassed    = "passed"
	StateRejected  = "rejected"
	StateActive    = "active"
	StateSuspended = "suspended"
)

// States of releases.
const (
	ReleaseCreating       = "creating"
	ReleaseCreated        = "created"
	ReleaseActive         = "active"
	ReleaseUpgrading      = "upgrading"
	ReleaseUpgraded       = "upgraded"
	ReleaseDeleting       = "deleting"
	ReleaseFailed         = "failed"
	ReleaseDeployFailed   = "deployFailed"
	ReleaseTimeout        = "timeout"
	ReleaseClusterDeleted = "clusterDeleted"
)

// States of Repos.
const (
	RepoCreated       = "created"
	RepoSyncing       = "syncing"
	RepoSuccessful    = "successful"
	RepoFailed        = "failed"
	RepoManualTrigger = "manualTrigger"
)
