package iam

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/admission"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/request"
)

// attempts is how often a write is tried whose object changes between the look at it and the write.
const attempts = 5

// change is what is to be written so that a user has one role at a place, or none. It is planned from the caches, checked whole, and only then
// sent: each write depends on the version that was seen.
type change struct {
	*level
	at   authz.Place
	user string
	// query are the parameters that every write has.
	query url.Values
	steps []step
	// may returns a context with the decision by which a step may be sent; nil where that is the decision on the request.
	may func(context.Context, *step) (context.Context, error)
	// version is the last one that a write made, gone is what was deleted: caches are waited for until they have seen both.
	version string
	gone    []*admission.Write
}

// step is one write of a binding.
type step struct {
	write admission.Write
	order caller.Order
}

// plan says what has to be written so that a user has the role at a place and no other there; an empty role stands for none. What he has by a
// group stays. The new binding is made before the old ones go, so that nobody is without for a moment.
func (h *V1beta1) plan(ctx context.Context, l *level, at authz.Place, username, role string, query url.Values) (*change, error) {
	c := &change{level: l, at: at, user: username, query: query}
	snap, err := h.Caches.Snapshot(ctx, resourceOf(l.bindings))
	if err != nil {
		return nil, err
	}
	has := role == ""
	for _, g := range h.Rights.Held(himself(username), at) {
		r, ok := snap.Get(at.Namespace, g.Binding)
		switch {
		case !ok: // gone already
		case !has && g.Role.Name == role:
			has = true
		default:
			s, err := c.without(ctx, r.JSON.String())
			if err != nil {
				return nil, err
			}
			c.steps = append(c.steps, s)
		}
	}
	if has {
		return c, nil
	}
	name := bindingName(username, role)
	if _, taken := snap.Get(at.Namespace, name); taken {
		name = distinctName(username, role)
	}
	s, err := c.with(ctx, name, role)
	if err != nil {
		return nil, err
	}
	c.steps = append([]step{s}, c.steps...)
	return c, nil
}

// with is the write of a new binding.
func (c *change) with(ctx context.Context, name, role string) (step, error) {
	raw, err := c.binding(c.at, name, c.user, role)
	if err != nil {
		return step{}, err
	}
	return step{
		write: admission.Write{By: request.UserFrom(ctx), Verb: "create", GVR: resourceOf(c.bindings), Namespace: c.at.Namespace, Name: name, Object: raw},
		order: caller.Order{Method: http.MethodPost, Path: pathOf(c.bindings, c.at.Namespace), Query: c.query, Body: raw, Implied: true},
	}, nil
}

// without is the write that takes the user out of a binding, which goes when it names nobody else.
func (c *change) without(ctx context.Context, binding string) (step, error) {
	name := rawjson.GetText(binding, "metadata", "name")
	s := step{
		write: admission.Write{By: request.UserFrom(ctx), Verb: "delete", GVR: resourceOf(c.bindings), Namespace: c.at.Namespace, Name: name, Old: []byte(binding)},
	}
	path := pathOf(c.bindings, c.at.Namespace) + "/" + name
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
		s.order, err = caller.Deletion(path, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}, c.query)
		s.order.Implied = true
		return s, err
	}
	object[field] = rest
	raw, err := json.Marshal(object)
	s.write.Verb, s.write.Object = "update", raw
	s.order = caller.Order{Method: http.MethodPut, Path: path, Query: c.query, Body: raw, Implied: true}
	return s, err
}

// check asks the guard about every write of the change. Nothing is sent before all of them may be.
func (h *V1beta1) check(ctx context.Context, c *change) error {
	for i := range c.steps {
		if err := h.Guard.Check(ctx, &c.steps[i].write); err != nil {
			return err
		}
	}
	return nil
}

// apply sends the writes of a change, and waits until this replica's caches have seen what they brought: so that who asks next sees it.
func (h *V1beta1) apply(ctx context.Context, c *change) error {
	for i := range c.steps {
		if err := h.write(ctx, c, &c.steps[i]); err != nil {
			return err
		}
	}
	h.await(ctx, c)
	return nil
}

// write sends one write of a change, and notes what caches are to see of it.
func (h *V1beta1) write(ctx context.Context, c *change, s *step) error {
	out, err := h.send(ctx, c, s)
	if err != nil {
		return err
	}
	if v := rawjson.GetText(string(out), "metadata", "resourceVersion"); v != "" {
		c.version = v
	} else { // there is none in the answer to a deletion
		c.gone = append(c.gone, &s.write)
	}
	return nil
}

// await waits until the caches have seen what a change has written. A cache that lags is no failure of the write.
func (h *V1beta1) await(ctx context.Context, c *change) {
	if len(c.query["dryRun"]) > 0 {
		return
	}
	if c.version != "" {
		if _, err := h.Caches.SnapshotAt(ctx, resourceOf(c.bindings), c.version); err != nil {
			return
		}
	}
	for _, w := range c.gone {
		if _, err := h.Caches.SnapshotWithout(ctx, w.GVR, w.Namespace, w.Name, rawjson.GetText(string(w.Old), "metadata", "uid")); err != nil {
			return
		}
	}
}

// send sends one write. A binding that somebody else has changed since it was seen is looked at again: s becomes what was sent, which is
// authorized and judged as the first one was. The answer is empty where somebody else took it away, took the user out of it, or gave it to
// another workspace.
func (h *V1beta1) send(ctx context.Context, c *change, s *step) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		as, err := c.permit(ctx, s)
		if err != nil {
			return nil, err
		}
		raw, err := h.asCaller().Do(as, s.order)
		var out redaction.Shown
		if err == nil {
			out, err = raw.Shown(s.write.GVR.GroupResource())
		}
		switch {
		case s.write.Verb == "create":
			return []byte(out.String()), err
		case apierrors.IsNotFound(err):
			return nil, nil
		case !apierrors.IsConflict(err) || attempt == attempts:
			return []byte(out.String()), err
		}
		now, err := h.asCaller().Do(as, caller.Order{Method: http.MethodGet, Path: pathOf(c.bindings, c.at.Namespace) + "/" + s.write.Name, Implied: true})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if out, err = now.Shown(resourceOf(c.bindings).GroupResource()); err != nil {
			return nil, err
		}
		if still, err := c.isStill(out.String()); err != nil || !still {
			return nil, err
		}
		if *s, err = c.without(ctx, out.String()); err != nil {
			return nil, err
		}
		if err := h.Guard.Check(ctx, &s.write); err != nil {
			return nil, err
		}
	}
}

// bindingName is what a binding is called that gives a role to one user.
func bindingName(username, role string) string {
	if name := username + "-" + role; len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	return distinctName(username, role)
}

// distinctName is a name that no other user and role have, whatever hyphens are in theirs.
func distinctName(username, role string) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(username)) + ":" + username + role)) // the length says where the one ends
	name := username + "-" + role
	return strings.TrimRight(name[:min(len(name), 200)], ".-") + "-" + hex.EncodeToString(sum[:6])
}

func isLabelValue(s string) bool { return len(validation.IsValidLabelValue(s)) == 0 }

// writeParams are the parameters of a write that are passed on with each write that it stands for. One that is known but for its capitals is
// refused: a dryrun that is dropped would be a write in earnest.
func writeParams(r *http.Request) (url.Values, error) {
	out := url.Values{}
	for name, values := range r.URL.Query() {
		for _, known := range []string{"dryRun", "fieldManager", "fieldValidation"} {
			if name == known {
				out[name] = values
			} else if strings.EqualFold(name, known) {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("the parameter %.100q is written %s", name, known))
			}
		}
	}
	return out, nil
}
