// Package removal removes members from a workspace, a namespace or the cluster.
package removal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// A user who is removed from a workspace keeps nothing in it (S67): their bindings in its namespaces, as creator or member, and their
// membership in groups of the workspace are removed too, in the members of the fleet in which the workspace is placed as well. The caller
// needs for each the right to remove it alone, and all of them are checked before anything is written. The bindings of the workspace itself
// are removed last, so that a user who was not removed completely is still listed as a member.

const (
	// removalRounds is how often a removal removes bindings that were made meanwhile: the user who is removed may be creating a namespace, or
	// bindings to stay.
	removalRounds = 3
	// annotationInitialized says that the creator of a namespace has been given their role (package controller/namespace),
	// annotationBound which groups a user is in by GroupBindings (package controller/group).
	annotationInitialized = "kapis.dev/initialized"
	annotationBound       = "kapis.dev/bound-groups"
)

// Removed is a binding from which a user was removed; it is deleted if it named no one else.
type Removed struct {
	// Cluster is the member that it was in, "" for this cluster.
	Cluster   string `json:"cluster,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Removal is the answer to the removal of a member.
type Removal struct {
	wire.Done
	// Removed are the bindings, in the order in which they were written.
	Removed []Removed `json:"removed"`
	// Kept are the bindings that the hub of the fleet keeps in this cluster, which stay: the user is removed from them there.
	Kept []Removed `json:"kept,omitempty"`
}

// Rights returns where a user is bound. rbac.Index is one.
type Rights interface {
	// Memberships returns the namespaces in which a user is bound.
	Memberships(u user.Info) (p *authz.PartialList, cluster bool)
	WorkspaceOf(namespace string) string
}

// Remover removes members.
type Remover struct {
	Users    *iam.UserIndex
	Bindings *binding.Service
	Rights   Rights
	// Authorizer decides on each write of a removal.
	Authorizer authz.Authorizer
	// Fleet has the members of which this cluster is the hub, nil for none.
	Fleet *Fleet
	// Member says that this cluster is a member of a fleet, whose hub keeps bindings of workspaces here.
	Member bool
}

// Remove removes a user from a scope; query are the parameters of each write.
func (r *Remover) Remove(ctx context.Context, scope *binding.Scope, at authz.BindingScope, name string, query url.Values) (*Removal,
	error) {
	m := &removal{Remover: r, Scope: scope, at: at, user: name, query: query}
	return m.run(ctx)
}

// causeNotMember is the cause in the error of NotMember, by which a hub knows it.
const causeNotMember metav1.CauseType = "NotMember"

// NotMember returns the error for a user who is no member of a scope: a 400, which clients expect.
func NotMember(name, where string) error {
	err := status.Errorf(http.StatusBadRequest, "the user %.100q is not a member %s", name, where)
	err.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: causeNotMember}}}
	return err
}

// removal removes a user from a scope.
type removal struct {
	*Remover
	*binding.Scope
	at    authz.BindingScope
	user  string
	query url.Values
	// sent are the versions that were already written: a cache may lag.
	sent map[binding.Version]bool
}

// run plans the removal, checks all of it, and writes it, until a plan has nothing left.
func (m *removal) run(ctx context.Context) (*Removal, error) {
	out, away := &Removal{Done: wire.Success(), Removed: []Removed{}}, &wire.Failures{}
	m.sent = map[binding.Version]bool{}
	for round := 0; ; round++ {
		changes, err := m.plan(ctx)
		if err != nil {
			return nil, err
		}
		n := 0
		for _, c := range changes {
			c.Steps = slices.DeleteFunc(c.Steps, func(s binding.Step) bool { return m.sent[s.Version()] || m.isHubs(&s, out) })
			n += len(c.Steps)
		}
		if n > 0 && round == removalRounds {
			return nil, leftOver(changes, out)
		}
		if err := m.check(ctx, changes, out); err != nil {
			return nil, err
		}
		if round == 0 {
			if err := m.inMembers(ctx, out, away); err != nil {
				return nil, err
			}
		}
		switch {
		case n == 0 && len(out.Removed) == 0 && len(out.Kept) == 0 && !away.Any():
			return nil, NotMember(m.user, m.at.String())
		case n == 0:
			return ended(out, away)
		}
		if err := m.apply(ctx, changes, out); err != nil {
			return nil, err
		}
		if len(m.query["dryRun"]) > 0 {
			return ended(out, away)
		}
	}
}

// leftOver returns the conflict that names the bindings which were made as fast as they were removed.
func leftOver(changes []*binding.Change, so *Removal) error {
	var left wire.Failures
	n := 0
	for _, c := range changes {
		for i := range c.Steps {
			s := &c.Steps[i]
			left.Add(n, s.Name(), apierrors.NewConflict(s.Write.GVR.GroupResource(), s.Write.Name, errors.New("it came during the removal")))
			n++
		}
	}
	return left.Err(fmt.Sprintf("%d bindings were removed, details.causes names those that are left: remove the member again, or disable the"+
		" user first", len(so.Removed)))
}

// plan returns the writes, those of the scope's own bindings last.
func (m *removal) plan(ctx context.Context) ([]*binding.Change, error) {
	if err := m.settled(ctx); err != nil {
		return nil, err
	}
	var out []*binding.Change
	if m.Kind == request.Workspace {
		part, _ := m.Rights.Memberships(binding.WithoutGroups(m.user))
		if part != nil {
			for _, name := range part.Namespaces {
				if m.Rights.WorkspaceOf(name) != m.at.Workspace {
					continue
				}
				c, err := m.Bindings.Plan(ctx, &binding.Namespace, authz.BindingScope{Scope: request.Namespace, Namespace: name}, m.user, "", m.query)
				if err != nil {
					return nil, err
				}
				c.Authorize = m.mayRemoveFrom(name)
				out = append(out, c)
			}
		}
		c, err := m.planGroups(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	c, err := m.Bindings.Plan(ctx, m.Scope, m.at, m.user, "", m.query)
	if err != nil {
		return nil, err
	}
	return append(out, c), nil
}

// settled refuses to remove a user who would be bound again at once: the manager of the workspace, or the creator of a namespace whose
// first roles have not been made yet.
func (m *removal) settled(ctx context.Context) error {
	namespaces, err := m.Bindings.Caches.Snapshot(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if err != nil {
		return err
	}
	var young []string
	see := func(r *index.Record) {
		creator, _ := r.Annotations.Get(tenantv1beta1.AnnotationCreator)
		_, initialized := r.Annotations.Get(annotationInitialized)
		managed, _ := r.Labels.Get(tenantv1beta1.LabelManaged)
		if creator == m.user && !initialized && managed == "true" && r.JSON.Get("metadata", "deletionTimestamp") == "" {
			young = append(young, r.JSON.GetText("metadata", "name"))
		}
	}
	switch m.Kind {
	case request.Workspace:
		for _, gvr := range []schema.GroupVersionResource{
			tenantv1beta1.SchemeGroupVersion.WithResource("workspaces"), tenantv1beta1.SchemeGroupVersion.WithResource("workspacetemplates"),
		} {
			snap, err := m.Bindings.Caches.Snapshot(ctx, gvr)
			if apierrors.IsNotFound(err) { // an installation without this kind
				continue
			}
			if err != nil {
				return err
			}
			if r, ok := snap.Get("", m.at.Workspace); ok && (r.JSON.GetText("spec", "manager") == m.user ||
				r.JSON.GetText("spec", "template", "spec", "manager") == m.user) {
				return apierrors.NewConflict(gvr.GroupResource(), m.at.Workspace,
					fmt.Errorf("%.100q is its manager, who is bound to its role for administrators again at once: give it another manager first", m.user))
			}
		}
		namespaces.ByCreated(index.HasLabel(tenantv1beta1.LabelWorkspace, m.at.Workspace)).Walk(0, false, func(ref *index.Ref) bool {
			see(namespaces.Record(ref))
			return true
		})
	case request.Namespace:
		if r, ok := namespaces.Get("", m.at.Namespace); ok {
			if w, _ := r.Labels.Get(tenantv1beta1.LabelWorkspace); w != "" {
				see(r)
			}
		}
	}
	if len(young) == 0 {
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, young[0],
		fmt.Errorf("%.100q has created it a moment ago, and is about to get the role for administrators there: try again", m.user))
}

// mayRemoveFrom authorizes the removal of the user from a namespace.
func (m *removal) mayRemoveFrom(namespace string) func(context.Context, *binding.Step) (context.Context, error) {
	return func(ctx context.Context, _ *binding.Step) (context.Context, error) {
		return m.permitted(ctx, &request.Info{
			Verb: "delete", Resource: binding.Namespace.MemberResource, Name: m.user, Scope: request.Namespace, Namespace: namespace,
			Path: "/kapis/" + wire.Group + "/" + wire.Version + "/namespaces/" + namespace + "/" + binding.Namespace.MemberResource + "/" + m.user,
		})
	}
}

// mayWriteGroup authorizes the write of a GroupBinding, in the workspace of its label.
func (m *removal) mayWriteGroup(ctx context.Context, s *binding.Step) (context.Context, error) {
	i := &request.Info{
		Verb: s.Write.Verb, Resource: binding.WorkspaceGroups.BindingResource, Name: s.Write.Name, Scope: request.Global,
		Path: "/kapis/" + wire.Group + "/" + wire.Version + "/" + binding.WorkspaceGroups.BindingResource + "/" + s.Write.Name,
	}
	if w := rawjson.GetText(string(s.Write.Old), "metadata", "labels", tenantv1beta1.LabelWorkspace); w == m.at.Workspace {
		i.Scope, i.Workspace = request.Workspace, w
		i.Path = "/kapis/" + wire.Group + "/" + wire.Version + "/workspaces/" + w + "/" + binding.WorkspaceGroups.BindingResource + "/" +
			s.Write.Name
	}
	return m.permitted(ctx, i)
}

func (m *removal) permitted(ctx context.Context, i *request.Info) (context.Context, error) {
	i.APIPrefix, i.APIGroup, i.APIVersion, i.IsResource = "kapis", wire.Group, wire.Version, true
	u := request.UserFrom(ctx)
	d, err := m.Authorizer.Authorize(ctx, u, i)
	if err != nil {
		return nil, err
	}
	if !d.Allowed() {
		return nil, authz.Forbidden(u, i, d)
	}
	return authz.WithDecision(ctx, d), nil
}

// planGroups removes the user from the GroupBindings of the workspace's groups. It refuses to remove a user who is in such a group by
// spec.groups, which the workspace can't change.
func (m *removal) planGroups(ctx context.Context) (*binding.Change, error) {
	c := &binding.Change{Scope: &binding.WorkspaceGroups, At: m.at, User: m.user, Query: m.query, Authorize: m.mayWriteGroup}
	groups, err := m.Bindings.Caches.Snapshot(ctx, wire.Resource("groups"))
	if apierrors.IsNotFound(err) { // an installation without this kind
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	bindings, err := m.Bindings.Caches.Snapshot(ctx, wire.Resource(binding.WorkspaceGroups.BindingResource))
	if err != nil {
		return nil, err
	}
	isOurs := func(group string) bool {
		r, ok := groups.Get("", group)
		if !ok {
			return false
		}
		w, _ := r.Labels.Get(tenantv1beta1.LabelWorkspace)
		return w == m.at.Workspace
	}
	var by []string
	bindings.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		r := bindings.Record(ref)
		var b struct {
			GroupRef iamv1beta1.GroupRef `json:"groupRef"`
			Users    []string            `json:"users"`
		}
		w, _ := r.Labels.Get(tenantv1beta1.LabelWorkspace)
		if err = json.Unmarshal([]byte(r.JSON.String()), &b); err != nil {
			return false
		}
		if !slices.Contains(b.Users, m.user) || w != m.at.Workspace && !isOurs(b.GroupRef.Name) {
			return true
		}
		by = append(by, b.GroupRef.Name)
		var s binding.Step
		if s, err = c.Without(ctx, r.JSON.String()); err != nil {
			return false
		}
		c.Steps = append(c.Steps, s)
		return true
	})
	if err != nil {
		return nil, err
	}
	users, err := m.Bindings.Caches.Snapshot(ctx, wire.Resource("users"))
	if err != nil {
		return nil, err
	}
	r, ok := users.Get("", m.user)
	if !ok {
		return c, nil
	}
	var u struct{ Spec iamv1beta1.UserSpec }
	if err := json.Unmarshal([]byte(r.JSON.String()), &u); err != nil {
		return nil, err
	}
	// The groups, and the note of those by bindings, are of one version of the User: ks-controller-manager writes both at once. A binding
	// that was removed a moment ago is in the note for as long as its group is in spec.groups.
	bound, _ := r.Annotations.Get(annotationBound)
	by = append(by, strings.Split(bound, ",")...)
	for _, g := range u.Spec.Groups {
		if isOurs(g) && !slices.Contains(by, g) {
			return nil, status.Forbiddenf("the user %.100q is in the group %.100q of the workspace by spec.groups of the User: "+
				"a user who manages users has to remove it there first; nothing was written", m.user, g)
		}
	}
	return c, nil
}

// check authorizes and checks every write, and returns all refusals together.
func (m *removal) check(ctx context.Context, changes []*binding.Change, so *Removal) error {
	var refused wire.Failures
	n := 0
	for _, c := range changes {
		for i := range c.Steps {
			s := &c.Steps[i]
			if _, err := c.Permit(ctx, s); err != nil {
				refused.Add(n, s.Name(), err)
			} else if err := m.Bindings.CheckStep(ctx, c, s); err != nil {
				refused.Add(n, s.Name(), err)
			}
			n++
		}
	}
	then := "nothing was written"
	if len(so.Removed) > 0 {
		then = fmt.Sprintf("%d bindings were removed, these came meanwhile", len(so.Removed))
	}
	return refused.Err(then)
}

// apply sends the writes. After a failure it goes on, but leaves the scope's own bindings: a user with anything left is still a member.
func (m *removal) apply(ctx context.Context, changes []*binding.Change, so *Removal) error {
	var failed wire.Failures
	n := 0
	for i, c := range changes {
		for j := range c.Steps {
			s := &c.Steps[j]
			n++
			m.sent[s.Version()] = true
			if last := i == len(changes)-1; last && i > 0 && failed.Any() {
				failed.Add(n-1, s.Name(), apierrors.NewConflict(s.Write.GVR.GroupResource(), s.Write.Name,
					fmt.Errorf("it stays until the others are gone")))
				continue
			}
			if err := m.Bindings.Write(ctx, c, s); err != nil {
				failed.Add(n-1, s.Name(), err)
				continue
			}
			so.Removed = append(so.Removed, Removed{Resource: s.Write.GVR.Resource, Namespace: s.Write.Namespace, Name: s.Write.Name})
		}
		m.Bindings.Await(ctx, c)
	}
	return failed.Err(fmt.Sprintf("%d bindings were removed, details.causes names those that are left: remove the member again",
		len(so.Removed)))
}
