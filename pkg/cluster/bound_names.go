package cluster

import "slices"

// BoundNames are names that a member's own bindings have, besides those of all users: by a name the next to have it would get rights there.
type BoundNames struct {
	// ClusterUsers are the users of bindings that hold in the whole cluster, or in a namespace of its system.
	ClusterUsers []string `json:"clusterUsers,omitempty"`
	// WorkspaceUsers are the users of bindings in workspaces, which Bound does not tell.
	WorkspaceUsers []string `json:"workspaceUsers,omitempty"`
	// Groups are the groups of all bindings; for a lite member, those that its administrator lets count there.
	Groups []string `json:"groups,omitempty"`
}

// Size returns how many names there are, and their bytes.
func (b *BoundNames) Size() (names, bytes int) {
	if b == nil {
		return 0, 0
	}
	return len(b.ClusterUsers) + len(b.WorkspaceUsers) + len(b.Groups), bytesOf(b.ClusterUsers) + bytesOf(b.WorkspaceUsers) + bytesOf(b.Groups)
}

func (b *BoundNames) equal(c *BoundNames) bool {
	return b == c || b != nil && c != nil && slices.Equal(b.ClusterUsers, c.ClusterUsers) &&
		slices.Equal(b.WorkspaceUsers, c.WorkspaceUsers) && slices.Equal(b.Groups, c.Groups)
}

// SetBound says which users bindings of the member's own name. A name that is too long is no user's.
func (m *Member) SetBound(users []string) {
	sorted := sortedNames(users)
	m.setBound(func(t *syncState) bool {
		differs := !slices.Equal(t.bound, sorted)
		t.bound = sorted
		return differs
	})
}

// SetBoundNames says which other names bindings of the member's own have; nil for a member that does not say.
func (m *Member) SetBoundNames(names *BoundNames) {
	if names != nil {
		names = &BoundNames{sortedNames(names.ClusterUsers), sortedNames(names.WorkspaceUsers), sortedNames(names.Groups)}
	}
	m.setBound(func(t *syncState) bool {
		differs := !t.names.equal(names)
		t.names = names
		return differs
	})
}

func (m *Member) setBound(set func(*syncState) (differs bool)) {
	t := &m.state.sync
	t.mu.Lock()
	differs := set(t)
	if differs {
		t.version++
	}
	t.mu.Unlock()
	if differs {
		m.state.members.changes.change()
	}
}

// keepBound keeps what another replica says of the bindings of members that are linked there alone: that replica, or the members, may be
// gone when a name is asked for. It is no news for other replicas.
func (m *Members) keepBound(e *Elsewhere) {
	for uid := range e.Members {
		member, s := m.ByUID(uid), e.Members[uid]
		if member == nil || s.Version == 0 || member.linkedHere() { // 0 is that of no list
			continue
		}
		t := &member.state.sync
		t.mu.Lock()
		if s.Names == nil { // it may not have asked yet
			s.Names = t.names
		}
		if !slices.Equal(t.bound, s.Bound) || !t.names.equal(s.Names) {
			t.bound, t.names = s.Bound, s.Names
			t.version++
		}
		t.mu.Unlock()
	}
}

// sortedNames returns the names, but for those that are longer than any that is kept.
func sortedNames(names []string) []string {
	out := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return len(name) > mostText })
	slices.Sort(out)
	return out
}

// bindings returns what the member last said. Both are replaced, never changed.
func (m *Member) bindings() (users []string, names *BoundNames) {
	if e, s := m.byOther(); e != nil {
		return s.Bound, s.Names
	}
	t := &m.state.sync
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bound, t.names
}

// Binds reports whether a binding of the member's own names a user, as the member last said.
func (m *Member) Binds(user string) bool {
	users, _ := m.bindings()
	_, found := slices.BinarySearch(users, user)
	return found
}

// Bind reports whether a binding of any member's own names a user, as the members last said. A member that has said nothing since this
// server started names nobody.
func (m *Members) Bind(user string) bool {
	return slices.ContainsFunc(m.All(), func(one *Member) bool {
		users, names := one.bindings()
		if names == nil {
			names = &BoundNames{}
		}
		return slices.ContainsFunc([][]string{users, names.ClusterUsers, names.WorkspaceUsers}, func(all []string) bool {
			_, found := slices.BinarySearch(all, user)
			return found
		})
	})
}

// BindInCluster is Bind for bindings that hold in a whole cluster, or in a namespace of its system. All bindings of a member count that
// does not say which do.
func (m *Members) BindInCluster(user string) bool {
	return slices.ContainsFunc(m.All(), func(one *Member) bool {
		users, names := one.bindings()
		if names != nil {
			users = names.ClusterUsers
		}
		_, found := slices.BinarySearch(users, user)
		return found
	})
}

// BindGroup is Bind for groups. A member that does not say which groups it binds binds none.
func (m *Members) BindGroup(group string) bool {
	return slices.ContainsFunc(m.All(), func(one *Member) bool {
		_, names := one.bindings()
		if names == nil {
			return false
		}
		_, found := slices.BinarySearch(names.Groups, group)
		return found
	})
}
