package iam

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// Who is removed from a workspace keeps nothing in it (S67): what he is bound to in its namespaces, as their creator or as a member of
// them, and the groups of the workspace that he is in go along. The caller needs for each what it takes to remove it alone, and all of
// that is asked before anything is written. The bindings of the workspace itself are the last to go, so that somebody who was not removed
// altogether is still listed as a member.

const (
	// removalRounds is how often a removal looks again for what was given while it was under way: whoever is removed may be making a
	// namespace.
	removalRounds = 3
	// annotationInitialized says of a namespace that its creator got what he was due (package controller/namespace), annotationBound of a
	// user which groups he is in by GroupBindings (package controller/group).
	annotationInitialized = "kapis.dev/initialized"
	annotationBound       = "kapis.dev/bound-groups"
)

// groupsOfWorkspace stands for the GroupBindings of a workspace.
var groupsOfWorkspace = level{scope: request.Workspace, bindings: "groupbindings", at: inWorkspace.at, place: inWorkspace.place}

// Removed is a binding that a user was taken out of, which is gone where it named nobody else.
type Removed struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Removal is the answer to the removal of a member.
type Removal struct {
	Done
	// Removed are the bindings, in the order in which they were written.
	Removed []Removed `json:"removed"`
}

// removal takes somebody out of a place.
type removal struct {
	*V1beta1
	*level
	at    authz.Place
	user  string
	query url.Values
	// sent are the versions that were written already: a cache may lag.
	sent map[version]bool
}

// version is one of a binding.
type version struct{ resource, namespace, name, uid, resourceVersion string }

func (s *step) version() version {
	old := string(s.write.Old)
	return version{s.write.GVR.Resource, s.write.Namespace, s.write.Name, rawjson.GetText(old, "metadata", "uid"), rawjson.GetText(old, "metadata", "resourceVersion")}
}

// run plans the removal, asks whether the caller may do all of it, and does it.
func (m *removal) run(ctx context.Context) (*Removal, error) {
	out := &Removal{Done: done(), Removed: []Removed{}}
	m.sent = map[version]bool{}
	for round := range removalRounds {
		changes, err := m.plan(ctx)
		if err != nil {
			return nil, err
		}
		n := 0
		for _, c := range changes {
			c.steps = slices.DeleteFunc(c.steps, func(s step) bool { return m.sent[s.version()] })
			n += len(c.steps)
		}
		if n == 0 {
			if round == 0 {
				return nil, notMember(m.user, m.at.String())
			}
			return out, nil
		}
		if err := m.check(ctx, changes, out); err != nil {
			return nil, err
		}
		if err := m.apply(ctx, changes, out); err != nil {
			return nil, err
		}
		if len(m.query["dryRun"]) > 0 || m.scope != request.Workspace {
			return out, nil
		}
	}
	return out, nil
}

// plan says what is to be written, the bindings of the place itself last.
func (m *removal) plan(ctx context.Context) ([]*change, error) {
	if err := m.settled(ctx); err != nil {
		return nil, err
	}
	var out []*change
	if m.scope == request.Workspace {
		part, _ := m.Rights.Memberships(himself(m.user))
		if part != nil {
			for _, name := range part.Namespaces {
				if m.Rights.WorkspaceOf(name) != m.at.Workspace {
					continue
				}
				c, err := m.V1beta1.plan(ctx, &inNamespace, authz.Place{Scope: request.Namespace, Namespace: name}, m.user, "", m.query)
				if err != nil {
					return nil, err
				}
				c.may = m.mayRemoveFrom(name)
				out = append(out, c)
			}
		}
		c, err := m.planGroups(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	c, err := m.V1beta1.plan(ctx, m.level, m.at, m.user, "", m.query)
	if err != nil {
		return nil, err
	}
	return append(out, c), nil
}

// settled refuses to remove somebody who would be back at once: the manager of the workspace, whose binding is made again, and the creator
// of a namespace that has not got its first roles yet, and he his.
func (m *removal) settled(ctx context.Context) error {
	namespaces, err := m.Caches.Snapshot(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if err != nil {
		return err
	}
	var young []string
	see := func(r *store.Record) {
		creator, _ := r.Annotations.Get(tenantv1beta1.AnnotationCreator)
		_, initialized := r.Annotations.Get(annotationInitialized)
		managed, _ := r.Labels.Get(tenantv1beta1.LabelManaged)
		if creator == m.user && !initialized && managed == "true" && rawjson.Get(r.JSON.String(), "metadata", "deletionTimestamp") == "" {
			young = append(young, rawjson.GetText(r.JSON.String(), "metadata", "name"))
		}
	}
	switch m.scope {
	case request.Workspace:
		for _, gvr := range []schema.GroupVersionResource{
			tenantv1beta1.SchemeGroupVersion.WithResource("workspaces"), tenantv1beta1.SchemeGroupVersion.WithResource("workspacetemplates"),
		} {
			snap, err := m.Caches.Snapshot(ctx, gvr)
			if apierrors.IsNotFound(err) { // an installation that has no such kind
				continue
			}
			if err != nil {
				return err
			}
			if r, ok := snap.Get("", m.at.Workspace); ok && (rawjson.GetText(r.JSON.String(), "spec", "manager") == m.user ||
				rawjson.GetText(r.JSON.String(), "spec", "template", "spec", "manager") == m.user) {
				return apierrors.NewConflict(gvr.GroupResource(), m.at.Workspace,
					fmt.Errorf("%.100q is its manager, who is bound to its role for administrators again at once: give it another manager first", m.user))
			}
		}
		namespaces.ByCreated(store.HasLabel(tenantv1beta1.LabelWorkspace, m.at.Workspace)).Walk(0, false, func(ref *store.Ref) bool {
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

// mayRemoveFrom asks whether the caller may remove the user from a namespace, and returns a context with that decision.
func (m *removal) mayRemoveFrom(namespace string) func(context.Context, *step) (context.Context, error) {
	return func(ctx context.Context, _ *step) (context.Context, error) {
		return m.permitted(ctx, &request.Info{
			Verb: "delete", Resource: inNamespace.members, Name: m.user, Scope: request.Namespace, Namespace: namespace,
			Path: "/kapis/" + Group + "/" + Version + "/namespaces/" + namespace + "/" + inNamespace.members + "/" + m.user,
		})
	}
}

// mayWriteGroup asks whether the caller may write a GroupBinding, in the workspace that it carries the label of.
func (m *removal) mayWriteGroup(ctx context.Context, s *step) (context.Context, error) {
	i := &request.Info{
		Verb: s.write.Verb, Resource: groupsOfWorkspace.bindings, Name: s.write.Name, Scope: request.Global,
		Path: "/kapis/" + Group + "/" + Version + "/" + groupsOfWorkspace.bindings + "/" + s.write.Name,
	}
	if w := rawjson.GetText(string(s.write.Old), "metadata", "labels", tenantv1beta1.LabelWorkspace); w == m.at.Workspace {
		i.Scope, i.Workspace = request.Workspace, w
		i.Path = "/kapis/" + Group + "/" + Version + "/workspaces/" + w + "/" + groupsOfWorkspace.bindings + "/" + s.write.Name
	}
	return m.permitted(ctx, i)
}

func (m *removal) permitted(ctx context.Context, i *request.Info) (context.Context, error) {
	i.APIPrefix, i.APIGroup, i.APIVersion, i.IsResource = "kapis", Group, Version, true
	u := request.UserFrom(ctx)
	d, err := m.Authorizer.Authorize(ctx, u, i)
	if err != nil {
		return nil, err
	}
	if !d.Allowed {
		return nil, authz.Denied(u, i, d)
	}
	return authz.WithDecision(ctx, d), nil
}

// planGroups takes the user out of the GroupBindings of the workspace's groups. One whom somebody has put in such a group by his User
// alone, which the workspace has no say in, is not removed.
func (m *removal) planGroups(ctx context.Context) (*change, error) {
	c := &change{level: &groupsOfWorkspace, at: m.at, user: m.user, query: m.query, may: m.mayWriteGroup}
	groups, err := m.Caches.Snapshot(ctx, resourceOf("groups"))
	if apierrors.IsNotFound(err) { // an installation that has no such kind
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	bindings, err := m.Caches.Snapshot(ctx, resourceOf(groupsOfWorkspace.bindings))
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
	bindings.ByName(store.All()).Walk(0, false, func(ref *store.Ref) bool {
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
		var s step
		if s, err = c.without(ctx, r.JSON.String()); err != nil {
			return false
		}
		c.steps = append(c.steps, s)
		return true
	})
	if err != nil {
		return nil, err
	}
	u := m.Users.ByName(m.user)
	if u == nil {
		return c, nil
	}
	users, err := m.Caches.Snapshot(ctx, resourceOf("users"))
	if err != nil {
		return nil, err
	}
	if r, ok := users.Get("", m.user); ok {
		bound, _ := r.Annotations.Get(annotationBound)
		by = append(by, strings.Split(bound, ",")...) // also one that is about to take effect
	}
	for _, g := range withOwnGroups(u).GetGroups() {
		if isOurs(g) && !slices.Contains(by, g) {
			return nil, forbidden(fmt.Sprintf("the user %.100q is in the group %.100q of the workspace by spec.groups of his User: "+
				"who manages users takes him out of it first; nothing was written", m.user, g))
		}
	}
	return c, nil
}

// check asks for every write whether the caller may do it, and names all that he may not.
func (m *removal) check(ctx context.Context, changes []*change, so *Removal) error {
	var refused failures
	n := 0
	for _, c := range changes {
		for i := range c.steps {
			s := &c.steps[i]
			if _, err := c.permit(ctx, s); err != nil {
				refused.add(n, s.name(), err)
			} else if err := m.Guard.Check(ctx, &s.write); err != nil {
				refused.add(n, s.name(), err)
			}
			n++
		}
	}
	then := "nothing was written"
	if len(so.Removed) > 0 {
		then = fmt.Sprintf("%d bindings were removed, these came meanwhile", len(so.Removed))
	}
	return refused.err(then)
}

// apply sends the writes, and goes on where one fails, but leaves the bindings of the place itself then: who has something left is a
// member.
func (m *removal) apply(ctx context.Context, changes []*change, so *Removal) error {
	var failed failures
	n := 0
	for i, c := range changes {
		for j := range c.steps {
			s := &c.steps[j]
			n++
			m.sent[s.version()] = true
			if last := i == len(changes)-1; last && i > 0 && failed.first != nil {
				failed.add(n-1, s.name(), apierrors.NewConflict(s.write.GVR.GroupResource(), s.write.Name, fmt.Errorf("it stays until the others are gone")))
				continue
			}
			if err := m.write(ctx, c, s); err != nil {
				failed.add(n-1, s.name(), err)
				continue
			}
			so.Removed = append(so.Removed, Removed{s.write.GVR.Resource, s.write.Namespace, s.write.Name})
		}
		m.await(ctx, c)
	}
	return failed.err(fmt.Sprintf("%d bindings were removed, details.causes names those that are left: remove the member again", len(so.Removed)))
}

// name is the binding of a step, for people.
func (s *step) name() string {
	if s.write.Namespace == "" {
		return s.write.GVR.Resource + " " + s.write.Name
	}
	return s.write.GVR.Resource + " " + s.write.Namespace + "/" + s.write.Name
}

// permit returns a context with the decision by which a step of the change may be sent: its own, or that of the request.
func (c *change) permit(ctx context.Context, s *step) (context.Context, error) {
	if c.may == nil {
		return ctx, nil
	}
	return c.may(ctx, s)
}

// rest returns what is left of the subjects of a binding, or of the users of a GroupBinding, without the user; named says whether it has
// him.
func (c *change) rest(object map[string]json.RawMessage) (field string, raw json.RawMessage, left int, named bool, err error) {
	if c.level == &groupsOfWorkspace {
		var users []string
		if err := json.Unmarshal(object["users"], &users); err != nil {
			return "", nil, 0, false, err
		}
		rest := slices.DeleteFunc(slices.Clone(users), func(name string) bool { return name == c.user })
		raw, err := json.Marshal(rest)
		return "users", raw, len(rest), len(rest) < len(users), err
	}
	var subjects []rbacv1.Subject
	if err := json.Unmarshal(object["subjects"], &subjects); err != nil {
		return "", nil, 0, false, err
	}
	rest := slices.DeleteFunc(slices.Clone(subjects), func(s rbacv1.Subject) bool { return s.Kind == rbacv1.UserKind && s.Name == c.user })
	raw, err = json.Marshal(rest)
	return "subjects", raw, len(rest), len(rest) < len(subjects), err
}

// isStill tells whether a binding that was read again is what was authorized: one of this place that names the user. In the meantime it
// may have been given to another workspace, or been made again.
func (c *change) isStill(binding string) (bool, error) {
	object := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(binding), &object); err != nil {
		return false, fmt.Errorf("read a binding again: %w", err)
	}
	if c.scope == request.Workspace && rawjson.GetText(binding, "metadata", "labels", tenantv1beta1.LabelWorkspace) != c.at.Workspace {
		return false, nil
	}
	if len(object["subjects"]) == 0 && len(object["users"]) == 0 {
		return false, nil
	}
	_, _, _, named, err := c.rest(object)
	return named, err
}
