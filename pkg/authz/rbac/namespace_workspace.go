package rbac

// WorkspaceOf returns the workspace that a namespace is in, or "" for none.
func (x *Index) WorkspaceOf(namespace string) string {
	workspace, _ := x.workspaceOf.Get(namespace)
	return workspace
}

// Placement returns the workspace that a namespace is in, or "" for none; known is false where there is no such namespace.
func (x *Index) Placement(namespace string) (workspace string, known bool) {
	return x.workspaceOf.Get(namespace)
}

// Placements returns a number that is another one whenever a Placement has changed.
func (x *Index) Placements() uint64 { return x.placements.Load() }

// Leftovers reports whether namespaces, and whether bindings, have the label of a workspace, whether or not it exists. It walks all
// namespaces.
func (x *Index) Leftovers(workspace string) (namespaces, bindings bool) {
	if workspace == "" {
		return false, false
	}
	for _, of := range x.workspaceOf.All {
		if of == workspace {
			namespaces = true
			break
		}
	}
	_, bindings = x.workspaces.Get(workspace)
	return namespaces, bindings
}
