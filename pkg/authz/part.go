package authz

// Part is what of a list its caller may see who may not see all of it. It does not change.
type Part struct {
	// Namespaces are where the objects of namespaces may be seen, sorted.
	Namespaces []string
	// Workspaces are whose objects of the cluster may be seen, by their label, sorted.
	Workspaces []string
	// Key is equal for equal parts, short, for the keys of caches.
	Key string
}
