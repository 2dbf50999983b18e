package reference

// HasMembers reports whether a GroupBinding names a group.
func (x *Index) HasMembers(group string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.joined[group] > 0
}
