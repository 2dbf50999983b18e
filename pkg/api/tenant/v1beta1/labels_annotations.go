package v1beta1

// Labels and annotations that objects of any kind may carry.
const (
	// AnnotationCreator names the user who made the object. It is a note, not a right.
	AnnotationCreator = "kubesphere.io/creator"
	// AnnotationAliasName is a name for people, which lists can be searched by.
	AnnotationAliasName = "kubesphere.io/alias-name"
	// AnnotationDescription is a description for people.
	AnnotationDescription = "kubesphere.io/description"
	// AnnotationDeletionPropagation is the propagation policy asked for when a workspace or its
	// template was deleted: Orphan leaves its namespaces.
	AnnotationDeletionPropagation = "kubesphere.io/deletion-propagation"
	// AnnotationTemplateUID is the uid of the WorkspaceTemplate that made a Workspace, or took it over. Its value is written by
	// controllers, and by those who may delete any workspace.
	AnnotationTemplateUID = "kapis.dev/workspacetemplate-uid"
	// AnnotationTemplateHeld says of a WorkspaceTemplate that ks-controller-manager put the finalizer on it.
	AnnotationTemplateHeld = "kapis.dev/workspacetemplate-held"
	// LabelWorkspace names the workspace that an object belongs to.
	LabelWorkspace = "kubesphere.io/workspace"
	// LabelManaged is "true" on namespaces and role templates that the system takes care of.
	LabelManaged = "kubesphere.io/managed"
	// LabelProtectedResource refuses the deletion of what carries it.
	LabelProtectedResource = "kubesphere.io/protected-resource"
	// FinalizerCascadingDeletion keeps a deleted workspace until what it holds is gone.
	FinalizerCascadingDeletion = "kubesphere.io/cascading-deletion"
)
