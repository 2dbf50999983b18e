// Package reference has the GroupBindings, the workspaces and their templates by the users whom they name. They may name a user who does
// not exist: the next user of that name is in the group, or manages the workspace.
package reference

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	kjson "sigs.k8s.io/json"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/store"
)

const bindings, workspaces = "groupbindings", "workspaces"

// Index finds these objects, and what they name. The store feeds it.
type Index struct {
	mu      sync.RWMutex
	objects map[key]object
	byUser  map[string][]key // the objects that name a user
	joined  map[string]int   // how many GroupBindings name a group
}

// key identifies an object.
type key struct{ resource, name string }

// object is what an object names, whether it is being deleted, and whether the hub of the fleet keeps it here.
type object struct {
	group  string
	users  []string
	ending bool
	ofHub  bool
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{objects: map[key]object{}, byUser: map[string][]key{}, joined: map[string]int{}}
}

// Sinks returns, for each kind that the index has, the sink that feeds it.
func (x *Index) Sinks() map[schema.GroupVersionResource]store.Sink {
	out := map[schema.GroupVersionResource]store.Sink{}
	for _, gvr := range []schema.GroupVersionResource{
		iamv1beta1.SchemeGroupVersion.WithResource(bindings),
		tenantv1beta1.SchemeGroupVersion.WithResource(workspaces),
		tenantv1beta1.SchemeGroupVersion.WithResource("workspacetemplates"),
	} {
		out[gvr] = sink{x, gvr.Resource}
	}
	return out
}

// Names reports whether an object names a user.
func (x *Index) Names(user string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.byUser[user]) > 0
}

// Of returns the groups that GroupBindings put a user in, and the workspaces of which the user is the manager, both sorted.
func (x *Index) Of(user string) (groups, managed []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, k := range x.byUser[user] {
		if k.resource != bindings {
			managed = append(managed, k.name)
		} else if group := x.objects[k].group; group != "" {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	slices.Sort(managed)
	return slices.Compact(groups), slices.Compact(managed)
}

type sink struct {
	*Index
	resource string
}

// Set stores what an object names.
func (s sink) Set(o *store.Object) {
	var v struct {
		Metadata struct {
			DeletionTimestamp *string           `json:"deletionTimestamp"`
			Labels            map[string]string `json:"labels"`
		} `json:"metadata"`
		GroupRef iamv1beta1.GroupRef `json:"groupRef"`
		Users    []string            `json:"users"`
		Spec     struct {
			Manager  string `json:"manager"`
			Template struct {
				Spec struct {
					Manager string `json:"manager"`
				} `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(o.Raw, &v); err != nil {
		klog.ErrorS(err, "An object is taken to name no user", "resource", s.resource, "object", o.Name)
	}
	next := object{group: v.GroupRef.Name, users: v.Users}
	if s.resource != bindings {
		managers := []string{v.Spec.Manager, v.Spec.Template.Spec.Manager}
		next = object{users: slices.DeleteFunc(managers, func(u string) bool { return u == "" }), ending: v.Metadata.DeletionTimestamp != nil,
			ofHub: v.Metadata.Labels[clusterv1alpha1.LabelFleet] != ""}
	}
	k := key{s.resource, o.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(k)
	s.objects[k] = next
	if next.group != "" {
		s.joined[next.group]++
	}
	for _, u := range next.users {
		s.byUser[u] = append(s.byUser[u], k)
	}
}

// Delete removes an object.
func (s sink) Delete(_, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(key{s.resource, name})
}

// forget removes an object. The caller holds the lock.
func (x *Index) forget(k key) {
	old := x.objects[k]
	delete(x.objects, k)
	if old.group != "" {
		if x.joined[old.group]--; x.joined[old.group] == 0 {
			delete(x.joined, old.group)
		}
	}
	for _, u := range old.users {
		rest := slices.DeleteFunc(x.byUser[u], func(of key) bool { return of == k })
		if len(rest) == 0 {
			delete(x.byUser, u)
		} else {
			x.byUser[u] = rest
		}
	}
}

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

// IsOfHub reports whether the hub of the fleet keeps a workspace here.
func (x *Index) IsOfHub(workspace string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.objects[key{workspaces, workspace}].ofHub
}

// HasMembers reports whether a GroupBinding names a group.
func (x *Index) HasMembers(group string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.joined[group] > 0
}
