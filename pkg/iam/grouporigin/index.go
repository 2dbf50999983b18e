// Package grouporigin tells groups that a workspace decides who is in from all others. The names of Groups are their makers' choice, and so
// may be those of an identity provider's groups. Bindings are safe from that, since a Group of a workspace is bound nowhere else; what else
// goes by the names of groups (configurations, clients, backends of extensions) asks here which of them count.
package grouporigin

import (
	"encoding/json"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/store"
)

// Index has the Groups. The store feeds it.
type Index struct {
	users   *iam.UserIndex
	changed func()

	mu         sync.RWMutex
	workspaces map[string]string // of each Group, by its name; "" for one that is of no workspace
}

// New returns an index without Groups. Whatever was found by groups may be otherwise after changed was called.
func New(users *iam.UserIndex, changed func()) *Index {
	return &Index{users: users, changed: changed, workspaces: map[string]string{}}
}

// Kind is the kind that feeds an index.
func Kind() schema.GroupVersionResource { return iamv1beta1.SchemeGroupVersion.WithResource("groups") }

// Set stores a Group.
func (x *Index) Set(o *store.Object) {
	var v struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(o.Raw, &v); err != nil {
		klog.ErrorS(err, "A Group can't be read, and counts in bindings alone", "group", o.Name)
		x.Delete("", o.Name)
		return
	}
	next := v.Metadata.Labels[tenantv1beta1.LabelWorkspace]
	x.mu.Lock()
	old, known := x.workspaces[o.Name]
	x.workspaces[o.Name] = next
	x.mu.Unlock()
	if !known || old != next {
		x.changed()
	}
}

// Delete removes a Group.
func (x *Index) Delete(_, name string) {
	x.mu.Lock()
	delete(x.workspaces, name)
	x.mu.Unlock()
	x.changed()
}

// Of returns the groups of a caller without those of workspaces.
func (x *Index) Of(u user.Info) []string { return x.In("", u) }

// In returns the groups of a caller without those of other workspaces. What the provider reports stays, even if a Group has the same name:
// else whoever made that Group could take a right from people whom they do not know. Without a session, that is what the User has not.
func (x *Index) In(workspace string, u user.Info) []string {
	of := x.users.ByName(u.GetName())
	if of != nil && of.UID != u.GetUID() {
		of = nil
	}
	return x.without(u.GetGroups(), session.Of(u), of, workspace)
}

// OfUser returns the groups of a User without those of workspaces.
func (x *Index) OfUser(u *iam.User) []string { return x.without(u.Groups, nil, u, "") }

// without returns groups itself where there is nothing to leave out.
func (x *Index) without(groups []string, s *session.Session, of *iam.User, workspace string) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := func(g string) bool { return x.isElsewhere(g, of, workspace) && !isReported(g, s, of) }
	if !slices.ContainsFunc(groups, out) {
		return groups
	}
	return slices.DeleteFunc(slices.Clone(groups), out)
}

// isReported reports whether a caller's group comes from a provider.
func isReported(group string, s *session.Session, of *iam.User) bool {
	if s != nil {
		return slices.Contains(s.Groups, group)
	}
	return of != nil && !slices.Contains(of.Groups, group)
}

// isElsewhere reports whether another workspace decides who is in a group. A user is in a Group for a moment longer than it exists: what
// GroupBindings gave counts only where the Group is known. The caller holds the lock.
func (x *Index) isElsewhere(group string, of *iam.User, workspace string) bool {
	if in, known := x.workspaces[group]; known {
		return in != "" && in != workspace
	}
	return of != nil && slices.Contains(of.BoundGroups, group)
}
