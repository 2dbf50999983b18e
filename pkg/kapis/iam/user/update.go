package user

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/admission"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/target"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// edit is a change of a User as the caller requests it.
type edit struct {
	user *iam.User
	// version is the one that the caller saw; empty for any.
	version string
	query   url.Values
	// next returns the new object for the present one without its password.
	next func(now map[string]any) (map[string]any, error)
	// whole says that the caller sends all of the object, with what was read of it.
	whole bool
	self  bool
}

// replaceUser replaces a User. The password, which has a route of its own, stays, and of the status only the state may change, to
// Active or Disabled. The annotation globalrole asks for that role.
func (h *Handler) replaceUser(r *restful.Request) (any, error) {
	e, err := h.edit(r)
	if err != nil {
		return nil, err
	}
	body, err := readObject(r.Request)
	if err != nil {
		return nil, err
	}
	if body.GetName() != e.user.Name {
		return nil, status.BadRequestf("metadata.name in the body is %.100q, in the path it is %q: they must be the same",
			body.GetName(), e.user.Name)
	}
	if uid := body.GetUID(); uid != "" && string(uid) != e.user.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: wire.Group, Resource: "users"}, e.user.Name,
			fmt.Errorf("the user was deleted and created again: the uid is another"))
	}
	unstructured.RemoveNestedField(body.Object, "spec", "password")
	e.version, e.whole = body.GetResourceVersion(), true
	e.next = func(map[string]any) (map[string]any, error) { return runtimeCopy(body.Object), nil }
	return h.change(r, e)
}

// patchUser applies a JSON patch or a merge patch. An array is a JSON patch under any Content-Type, as the console sends it.
func (h *Handler) patchUser(r *restful.Request) (any, error) {
	e, err := h.edit(r)
	if err != nil {
		return nil, err
	}
	raw, err := web.ReadBody(r.Request, maxUser)
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, apierrors.NewBadRequest("the body is empty: send a patch")
	}
	patch, err := patchOf(r.Request.Header.Get("Content-Type"), raw)
	if err != nil {
		return nil, err
	}
	e.next = func(now map[string]any) (map[string]any, error) { return patched(now, patch) }
	return h.change(r, e)
}

func (h *Handler) edit(r *restful.Request) (*edit, error) {
	u, err := h.Target.Changeable(r)
	if err != nil {
		return nil, err
	}
	query, err := web.WriteParameters(r.Request)
	return &edit{user: u, query: query, self: target.IsSelf(r, u)}, err
}

// change writes a User, then the binding to the role that is asked for. Everything is checked before anything is written.
func (h *Handler) change(r *restful.Request, e *edit) (any, error) {
	ctx := r.Request.Context()
	path := usersPath + "/" + e.user.Name
	var (
		old        redaction.Raw
		next       *unstructured.Unstructured
		role       string
		roleChange *binding.Change
		checked    *admission.Write
	)
	read := func(ctx context.Context) (*unstructured.Unstructured, error) {
		var err error
		if old, err = h.AsCaller.Get(ctx, path); err != nil {
			return nil, err
		}
		now := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(old.Unredacted()), &now.Object); err != nil {
			return nil, fmt.Errorf("read a user: %w", err)
		}
		return now, nil
	}
	write := func(ctx context.Context, now *unstructured.Unstructured) (redaction.Raw, error) {
		var err error
		if next, role, err = h.merge(r, e, now); err != nil {
			return redaction.Raw{}, err
		}
		raw, err := json.Marshal(next.Object)
		if err != nil {
			return redaction.Raw{}, fmt.Errorf("change a user: %w", err)
		}
		if checked, err = h.Target.CheckWrite(ctx, "update", e.user.Name, raw, []byte(old.Unredacted())); err != nil {
			return redaction.Raw{}, err
		}
		if roleChange, err = h.planRole(ctx, e.user.Name, role, e.query); err != nil {
			return redaction.Raw{}, err
		}
		return h.AsCaller.Do(ctx, caller.Order{Method: http.MethodPut, Path: path, Query: e.query, Body: raw, Implied: true})
	}
	seen := caller.Seen{Resource: wire.Resource("users").GroupResource(), Name: e.user.Name, Version: e.version}
	out, err := caller.Change(ctx, seen, read, write)
	if err != nil {
		return nil, err
	}
	if out, err = h.writeState(ctx, e, next, out); err != nil {
		return nil, fmt.Errorf("the user was written, but not the state: %w", err)
	}
	if len(e.query["dryRun"]) == 0 {
		checked.Made()
	}
	if err := h.Bindings.Apply(ctx, roleChange); err != nil {
		return nil, fmt.Errorf("the user was written, but not given the role: %w", err)
	}
	return shown(out, role)
}

// writeState writes the state if it was not written with the object: status is a sub-resource in this project's definition of users,
// but not in that of older installations.
func (h *Handler) writeState(ctx context.Context, e *edit, next *unstructured.Unstructured, out redaction.Raw) (redaction.Raw, error) {
	state, _, _ := unstructured.NestedString(next.Object, "status", "state")
	if state == rawjson.GetText(out.Unredacted(), "status", "state") {
		return out, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": e.user.UID},
		"status":   map[string]any{"state": state, "reason": nil, "lastTransitionTime": h.Now().UTC().Format(time.RFC3339)},
	})
	if err != nil {
		return out, fmt.Errorf("change the state of a user: %w", err)
	}
	return h.AsCaller.Do(ctx, caller.Order{
		Method: http.MethodPatch, Path: usersPath + "/" + e.user.Name +
			"/status", Query: e.query, Type: "application/merge-patch+json", Body: patch, Implied: true,
	})
}

// merge returns what to write, and the requested role; "" for no change.
func (h *Handler) merge(r *restful.Request, e *edit, now *unstructured.Unstructured) (next *unstructured.Unstructured, role string,
	err error) {
	if string(now.GetUID()) != e.user.UID {
		return nil, "", apierrors.NewNotFound(schema.GroupResource{Group: wire.Group, Resource: "users"}, e.user.Name)
	}
	before, err := withoutPassword(now.Object)
	if err != nil {
		return nil, "", err
	}
	stored := now.GetAnnotations()[iamv1beta1.AnnotationGlobalRole]
	bound := h.Bindings.RoleAt(e.user.Name, binding.OnPlatform(), stored)
	// A patch starts from the bound role, so that one that names the annotation asks for that role also where it is what is stored.
	if bound == "" {
		unstructured.RemoveNestedField(before, "metadata", "annotations", iamv1beta1.AnnotationGlobalRole)
	} else if err := unstructured.SetNestedField(before, bound, "metadata", "annotations", iamv1beta1.AnnotationGlobalRole); err != nil {
		return nil, "", fmt.Errorf("read a user: %w", err)
	}
	asked, err := e.next(before)
	if err != nil {
		return nil, "", err
	}
	next = now.DeepCopy()
	next.SetManagedFields(nil)
	from := unstructured.Unstructured{Object: asked}
	if from.GetName() != e.user.Name || from.GetNamespace() != "" {
		return nil, "", apierrors.NewBadRequest("metadata.name and metadata.namespace can't be changed")
	}
	labels, _, err := unstructured.NestedStringMap(asked, "metadata", "labels")
	if err != nil {
		return nil, "", apierrors.NewBadRequest("metadata.labels must be an object of strings")
	}
	annotations, _, err := unstructured.NestedStringMap(asked, "metadata", "annotations")
	if err != nil {
		return nil, "", apierrors.NewBadRequest("metadata.annotations must be an object of strings")
	}
	next.SetLabels(labels)
	if role, annotations, err = askedRole(e, bound, now, annotations); err != nil {
		return nil, "", err
	}
	next.SetAnnotations(annotations)
	if err := h.mergeSpec(r, e, next, asked); err != nil {
		return nil, "", err
	}
	return next, role, h.mergeState(e, next, asked)
}

// askedRole returns the requested role, "" for no change of the bound one, and the annotations with the stored value:
// ks-controller-manager writes the bound role there, some time after the binding was written. Until then, a client that sends all it read
// may ask for what is stored, or for no change.
func askedRole(e *edit, bound string, now *unstructured.Unstructured, annotations map[string]string) (string, map[string]string, error) {
	stored, isStored := now.GetAnnotations()[iamv1beta1.AnnotationGlobalRole]
	role := annotations[iamv1beta1.AnnotationGlobalRole]
	delete(annotations, iamv1beta1.AnnotationGlobalRole)
	if isStored {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[iamv1beta1.AnnotationGlobalRole] = stored
	}
	switch {
	case role == "" || role == bound:
		return "", annotations, nil
	case e.whole && role == stored:
		return "", nil, apierrors.NewConflict(wire.Resource("users").GroupResource(), e.user.Name,
			fmt.Errorf("the user has the role %q, and the annotation %s does not say so yet: patch that alone, or read the user and try again",
				bound, iamv1beta1.AnnotationGlobalRole))
	case e.self:
		return "", nil, status.Forbiddenf("users can't change their own role on the platform")
	}
	return role, annotations, nil
}

// mergeSpec takes over the spec without the password. It accepts a new password in a patch, as the console sends it, from a user who has
// not set one yet, or from another caller who manages the user.
func (h *Handler) mergeSpec(r *restful.Request, e *edit, next *unstructured.Unstructured, asked map[string]any) error {
	spec, found, err := unstructured.NestedMap(asked, "spec")
	if err != nil {
		return apierrors.NewBadRequest("spec must be an object")
	}
	if !found {
		spec = map[string]any{}
	}
	password, _, err := unstructured.NestedString(spec, "password")
	if err != nil {
		return apierrors.NewBadRequest("spec.password must be a string")
	}
	stored, has, _ := unstructured.NestedString(next.Object, "spec", "password")
	delete(spec, "password")
	if has {
		spec["password"] = stored
	}
	next.Object["spec"] = spec
	if password == "" {
		return nil
	}
	if err := target.RequirePerson(r); err != nil {
		return err
	}
	if e.self && !e.user.Uninitialized {
		return apierrors.NewBadRequest("one's own password is changed at .../users/{user}/password, with the current one")
	}
	spec["password"] = password
	return h.hash(r, next)
}

// mergeState takes over Active or Disabled.
func (h *Handler) mergeState(e *edit, next *unstructured.Unstructured, asked map[string]any) error {
	state, _, err := unstructured.NestedString(asked, "status", "state")
	if err != nil {
		return apierrors.NewBadRequest("status.state must be a string")
	}
	was, _, _ := unstructured.NestedString(next.Object, "status", "state")
	if state == was || state != string(iamv1beta1.UserActive) && state != string(iamv1beta1.UserDisabled) {
		return nil
	}
	if e.self {
		return status.Forbiddenf("users can't change the state of their own account")
	}
	unstructured.RemoveNestedField(next.Object, "status", "reason")
	if err := unstructured.SetNestedField(next.Object, h.Now().UTC().Format(time.RFC3339), "status", "lastTransitionTime"); err != nil {
		return apierrors.NewBadRequest("status must be an object")
	}
	return unstructured.SetNestedField(next.Object, state, "status", "state")
}

// planRole plans the binding that gives a user a role on the platform; nothing for "".
func (h *Handler) planRole(ctx context.Context, name, role string, query url.Values) (*binding.Change, error) {
	if role == "" {
		return &binding.Change{Scope: &binding.Platform, User: name}, nil
	}
	if _, err := h.Bindings.Role(ctx, &binding.Platform, binding.OnPlatform(), role); err != nil {
		return nil, err
	}
	c, err := h.Bindings.Plan(ctx, &binding.Platform, binding.OnPlatform(), name, role, query)
	if err != nil {
		return nil, err
	}
	return c, h.Bindings.Check(ctx, c)
}

// shown returns a User as answers show it: with the role just given, without the password.
func shown(raw redaction.Raw, role string) (any, error) {
	object, err := redacted(raw)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetManagedFields(nil)
	if role != "" {
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[iamv1beta1.AnnotationGlobalRole] = role
		u.SetAnnotations(annotations)
	}
	return wire.Private{Value: u.Object}, nil
}
