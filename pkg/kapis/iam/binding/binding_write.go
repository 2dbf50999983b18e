package binding

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/admission"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Change is the writes by which a user has one role at a scope, or none. All of them are planned and checked before the first is
// sent, and each depends on the version that was read.
type Change struct {
	*Scope
	At   authz.BindingScope
	User string
	// Query are the parameters of every write.
	Query url.Values
	Steps []Step
	// Authorize returns a context with the decision that allows a step; nil where the decision on the request does.
	Authorize func(context.Context, *Step) (context.Context, error)
	// version is the last that a write produced, and gone is what was deleted: Await waits for both in the caches.
	version string
	gone    []*admission.Write
}

// Step is one write of a binding.
type Step struct {
	Write admission.Write
	order caller.Order
}

// Plan returns the writes by which the user has the role at a scope and no other; no role if it is empty. Roles through groups stay. The
// new binding is made before the old ones are deleted, so that the user is never without a role.
func (b *Service) Plan(ctx context.Context, l *Scope, at authz.BindingScope, username, role string, query url.Values) (*Change, error) {
	c := &Change{Scope: l, At: at, User: username, Query: query}
	snap, err := b.Caches.Snapshot(ctx, wire.Resource(l.BindingResource))
	if err != nil {
		return nil, err
	}
	has := role == ""
	for _, g := range b.Rights.Held(WithoutGroups(username), at) {
		r, ok := snap.Get(at.Namespace, g.Binding)
		switch {
		case !ok: // gone already
		case !has && g.Role.Name == role:
			has = true
		default:
			s, err := c.Without(ctx, r.JSON.String())
			if err != nil {
				return nil, err
			}
			c.Steps = append(c.Steps, s)
		}
	}
	if has {
		return c, nil
	}
	name := Name(username, role)
	if _, taken := snap.Get(at.Namespace, name); taken {
		name = DistinctName(username, role)
	}
	s, err := c.with(ctx, name, role)
	if err != nil {
		return nil, err
	}
	c.Steps = append([]Step{s}, c.Steps...)
	return c, nil
}

// with returns the write of a new binding.
func (c *Change) with(ctx context.Context, name, role string) (Step, error) {
	raw, err := c.object(c.At, name, c.User, role)
	if err != nil {
		return Step{}, err
	}
	return Step{
		Write: admission.Write{By: request.UserFrom(ctx), Verb: "create", GVR: wire.Resource(c.BindingResource),
			Namespace: c.At.Namespace, Name: name, Object: raw},
		order: caller.Order{Method: http.MethodPost, Path: pathOf(c.BindingResource, c.At.Namespace), Query: c.Query, Body: raw, Implied: true},
	}, nil
}

// Without returns the write that removes the user from a binding; it deletes a binding that names no one else.
func (c *Change) Without(ctx context.Context, binding string) (Step, error) {
	name := rawjson.GetText(binding, "metadata", "name")
	s := Step{
		Write: admission.Write{By: request.UserFrom(ctx), Verb: "delete", GVR: wire.Resource(c.BindingResource),
			Namespace: c.At.Namespace, Name: name, Old: []byte(binding)},
	}
	path := pathOf(c.BindingResource, c.At.Namespace) + "/" + name
	object := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(binding), &object); err != nil {
		return s, fmt.Errorf("read the binding %q: %w", name, err)
	}
	field, rest, left, _, err := c.rest(object)
	if err != nil {
		return s, fmt.Errorf("read the binding %q: %w", name, err)
	}
	if left == 0 {
		uid, version := types.UID(rawjson.GetText(binding, "metadata", "uid")), rawjson.GetText(binding, "metadata", "resourceVersion")
		s.order, err = caller.Deletion(path, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid,
			ResourceVersion: &version}}, c.Query)
		s.order.Implied = true
		return s, err
	}
	object[field] = rest
	raw, err := json.Marshal(object)
	s.Write.Verb, s.Write.Object = "update", raw
	s.order = caller.Order{Method: http.MethodPut, Path: path, Query: c.Query, Body: raw, Implied: true}
	return s, err
}

// Check makes the escalation check of every write.
func (b *Service) Check(ctx context.Context, c *Change) error {
	for i := range c.Steps {
		if err := b.CheckStep(ctx, c, &c.Steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// CheckStep makes the escalation check of one write.
func (b *Service) CheckStep(ctx context.Context, c *Change, s *Step) error {
	s.Write.DryRun = len(c.Query["dryRun"]) > 0
	return b.Guard.Check(ctx, &s.Write)
}

// Apply sends the writes, and waits until this replica's caches have them, so that the next request sees them.
func (b *Service) Apply(ctx context.Context, c *Change) error {
	for i := range c.Steps {
		if err := b.Write(ctx, c, &c.Steps[i]); err != nil {
			return err
		}
	}
	b.Await(ctx, c)
	return nil
}

// Write sends one write, and notes what Await waits for.
func (b *Service) Write(ctx context.Context, c *Change, s *Step) error {
	out, err := b.send(ctx, c, s)
	if err != nil {
		return err
	}
	if !s.Write.DryRun {
		s.Write.Made()
	}
	if v := rawjson.GetText(string(out), "metadata", "resourceVersion"); v != "" {
		c.version = v
	} else { // there is none in the answer to a deletion
		c.gone = append(c.gone, &s.Write)
	}
	return nil
}

// Await waits until the caches have what a change wrote. A cache that lags does not fail the write.
func (b *Service) Await(ctx context.Context, c *Change) {
	if len(c.Query["dryRun"]) > 0 {
		return
	}
	if c.version != "" {
		if _, err := b.Caches.SnapshotAt(ctx, wire.Resource(c.BindingResource), c.version); err != nil {
			return
		}
	}
	for _, w := range c.gone {
		if _, err := b.Caches.SnapshotWithout(ctx, w.GVR, w.Namespace, w.Name, rawjson.GetText(string(w.Old), "metadata", "uid")); err != nil {
			return
		}
	}
}

// send sends one write. After a conflict the binding is read, authorized and checked again, and s becomes what is sent then. The answer is
// empty if the binding is gone, no longer names the user, or belongs to another workspace by now.
func (b *Service) send(ctx context.Context, c *Change, s *Step) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		as, err := c.Permit(ctx, s)
		if err != nil {
			return nil, err
		}
		raw, err := b.AsCaller.Do(as, s.order)
		var out redaction.Shown
		if err == nil {
			out, err = raw.Shown(s.Write.GVR.GroupResource())
		}
		switch {
		case s.Write.Verb == "create":
			return []byte(out.String()), err
		case apierrors.IsNotFound(err):
			return nil, nil
		case !apierrors.IsConflict(err) || attempt == caller.Attempts:
			return []byte(out.String()), err
		}
		now, err := b.AsCaller.Do(as, caller.Order{Method: http.MethodGet, Path: pathOf(c.BindingResource, c.At.Namespace) + "/" +
			s.Write.Name, Implied: true})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if out, err = now.Shown(wire.Resource(c.BindingResource).GroupResource()); err != nil {
			return nil, err
		}
		if still, err := c.isStill(out.String()); err != nil || !still {
			return nil, err
		}
		if *s, err = c.Without(ctx, out.String()); err != nil {
			return nil, err
		}
		if err := b.CheckStep(ctx, c, s); err != nil {
			return nil, err
		}
	}
}

// Name returns the name of the binding that gives a role to one user.
func Name(username, role string) string {
	if name := username + "-" + role; len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	return DistinctName(username, role)
}

// DistinctName returns a name that no other pair of user and role has, wherever hyphens are.
func DistinctName(username, role string) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(username)) + ":" + username + role)) // the length says where the one ends
	name := username + "-" + role
	return strings.TrimRight(name[:min(len(name), 200)], ".-") + "-" + hex.EncodeToString(sum[:6])
}

func isLabelValue(s string) bool { return len(validation.IsValidLabelValue(s)) == 0 }

// Version identifies one version of a binding.
type Version struct{ resource, namespace, name, uid, resourceVersion string }

// Version returns the version of the binding that a step replaces.
func (s *Step) Version() Version {
	old := string(s.Write.Old)
	return Version{s.Write.GVR.Resource, s.Write.Namespace, s.Write.Name, rawjson.GetText(old, "metadata", "uid"), rawjson.GetText(old,
		"metadata", "resourceVersion")}
}

// Name returns the binding of a step, for messages.
func (s *Step) Name() string {
	if s.Write.Namespace == "" {
		return s.Write.GVR.Resource + " " + s.Write.Name
	}
	return s.Write.GVR.Resource + " " + s.Write.Namespace + "/" + s.Write.Name
}

// Permit returns a context with the decision that allows a step.
func (c *Change) Permit(ctx context.Context, s *Step) (context.Context, error) {
	if c.Authorize == nil {
		return ctx, nil
	}
	return c.Authorize(ctx, s)
}

// rest returns the subjects of a binding, or the users of a GroupBinding, without the user; named reports whether it had the user.
func (c *Change) rest(object map[string]json.RawMessage) (field string, raw json.RawMessage, left int, named bool, err error) {
	if c.Scope == &WorkspaceGroups {
		var users []string
		if err := json.Unmarshal(object["users"], &users); err != nil {
			return "", nil, 0, false, err
		}
		rest := slices.DeleteFunc(slices.Clone(users), func(name string) bool { return name == c.User })
		raw, err := json.Marshal(rest)
		return "users", raw, len(rest), len(rest) < len(users), err
	}
	var subjects []rbacv1.Subject
	if err := json.Unmarshal(object["subjects"], &subjects); err != nil {
		return "", nil, 0, false, err
	}
	rest := slices.DeleteFunc(slices.Clone(subjects), func(s rbacv1.Subject) bool { return s.Kind == rbacv1.UserKind && s.Name == c.User })
	raw, err = json.Marshal(rest)
	return "subjects", raw, len(rest), len(rest) < len(subjects), err
}

// isStill reports whether a binding that was read again is what was authorized: one of this scope that names the user. Meanwhile it may
// have moved to another workspace, or been deleted and recreated.
func (c *Change) isStill(binding string) (bool, error) {
	object := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(binding), &object); err != nil {
		return false, fmt.Errorf("read a binding again: %w", err)
	}
	if c.Kind == request.Workspace && rawjson.GetText(binding, "metadata", "labels", tenantv1beta1.LabelWorkspace) != c.At.Workspace {
		return false, nil
	}
	if len(object["subjects"]) == 0 && len(object["users"]) == 0 {
		return false, nil
	}
	_, _, _, named, err := c.rest(object)
	return named, err
}
