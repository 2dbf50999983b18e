package reference

// Exists reports whether there is an object of a name.
func (x *Index) Exists(resource, name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, ok := x.objects[key{resource, name}]
	return ok
}

// IsEnding reports whether a workspace is being deleted.
func (x *Index) IsEnding(workspace string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.objects[key{workspaces, workspace}].ending
}
