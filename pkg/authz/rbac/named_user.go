package rbac

// Named reports whether a binding, of any scope, names a user, even if there is no such user: a new user of that name would get what is
// bound to it.
func (x *Index) Named(user string) bool {
	if _, ok := x.global.users.Get(user); ok {
		return true
	}
	if _, ok := x.cluster.users.Get(user); ok {
		return true
	}
	_, ok := x.scopesOfUsers.Get(user)
	return ok
}
