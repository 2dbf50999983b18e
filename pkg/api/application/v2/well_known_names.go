package v2

// Labels and annotations of the store's objects. The workspace that an object is of is the label kubesphere.io/workspace.
const (
	// LabelRepo is the Repo that an Application or a version is from; RepoUpload where somebody uploaded it.
	LabelRepo = GroupName + "/repo-name"
	// LabelApp is the Application that a version or a release is of.
	LabelApp = GroupName + "/app-id"
	// LabelVersion is the ApplicationVersion that a release is of.
	LabelVersion = GroupName + "/appversion-id"
	// LabelType is the type of an application: TypeHelm, TypeYAML or TypeEdge.
	LabelType = GroupName + "/app-type"
	// LabelCategory is the Category of an Application.
	LabelCategory = GroupName + "/app-category-name"
	// LabelAttachment is set on files that are attachments, and no packages.
	LabelAttachment = GroupName + "/attachment"
	// LabelRelease is set on the objects of a release: its name.
	LabelRelease = GroupName + "/app-release-name"

	// AnnotationOriginalName is the name of an Application in its chart, and as a person wrote it.
	AnnotationOriginalName = GroupName + "/app-originalName"
	// AnnotationRepoUID is the Repo that made an object: one that has its name later is another one.
	AnnotationRepoUID = "kapis.dev/repo-uid"
	// AnnotationLatestVersion is the name of an Application's newest version, in words of the chart.
	AnnotationLatestVersion = GroupName + "/latest-app-version"
	// AnnotationMaintainer is who maintains an Application.
	AnnotationMaintainer = GroupName + "/app-maintainers"
	// AnnotationUser is who asked for what an object says last. Only ks-apiserver writes it.
	AnnotationUser = GroupName + "/req-user"
)

// RepoUpload is the value of LabelRepo for what somebody uploaded. No Repo can have this name.
const RepoUpload = "upload"

// Types of applications.
const (
	TypeHelm = "helm"
	TypeYAML = "yaml"
	TypeEdge = "edge"
)

// CategoryUncategorized is the Category of Applications without one.
const CategoryUncategorized = "kubesphere-app-uncategorized"

// Finalizers of the store. Controllers remove the second from what existing installations have.
const (
	// FinalizerFiles is on versions whose packages are kept here: they go with the version.
	FinalizerFiles = "storeCleanFinalizer." + GroupName
	// FinalizerCategory is on Categories of existing installations.
	FinalizerCategory = "categories." + GroupName
)
