package user

import (
	"encoding/json"
	"fmt"
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// maxUser bounds the object of a user, in bytes.
	maxUser   = 1 << 20
	usersPath = "/apis/" + wire.Group + "/" + wire.Version + "/users"
)

// createUser creates a user as the caller; for a caller who has to register, their own.
func (h *Handler) createUser(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	by := request.UserFrom(ctx)
	if by == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: wire.Group, Resource: "users"}, "")
	}
	u, err := readUser(r.Request)
	if err != nil {
		return nil, err
	}
	if by.GetName() == iamv1beta1.UserPreRegistration {
		return web.RefuseDryRun(func(r *restful.Request) (any, error) { return h.register(r, by, u) })(r)
	}
	return h.createWithRole(r, u)
}

// createWithRole creates a user, and the binding to the role that the annotation globalrole asks for. It checks both before it writes.
func (h *Handler) createWithRole(r *restful.Request, u *unstructured.Unstructured) (any, error) {
	ctx := r.Request.Context()
	annotations, _, err := unstructured.NestedStringMap(u.Object, "metadata", "annotations")
	if err != nil {
		return nil, apierrors.NewBadRequest("metadata.annotations must be an object of strings")
	}
	role := annotations[iamv1beta1.AnnotationGlobalRole]
	if role != "" {
		delete(annotations, iamv1beta1.AnnotationGlobalRole) // ks-controller-manager writes the bound role there
		u.SetAnnotations(annotations)
	}
	query, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	roleChange, err := h.planRole(ctx, u.GetName(), role, query)
	if err != nil {
		return nil, err
	}
	if err := h.hash(r, u); err != nil {
		return nil, err
	}
	body, err := json.Marshal(u.Object)
	if err != nil {
		return nil, fmt.Errorf("create a user: %w", err)
	}
	if _, err := h.Target.CheckWrite(ctx, "create", u.GetName(), body, nil); err != nil {
		return nil, err
	}
	made, err := h.AsCaller.Do(ctx, caller.Order{Method: http.MethodPost, Path: usersPath, Query: query, Body: body, For: r.Request})
	if err != nil {
		return nil, err
	}
	if err := h.Bindings.Apply(ctx, roleChange); err != nil {
		return nil, fmt.Errorf("the user was created, but not given the role: %w", err)
	}
	return shown(made, role)
}

// readUser reads a new User.
func readUser(r *http.Request) (*unstructured.Unstructured, error) {
	u, err := readObject(r)
	if err == nil {
		unstructured.RemoveNestedField(u.Object, "status") // only the system writes it
	}
	return u, err
}

// readObject decodes a User of any group and version: the route decides.
func readObject(r *http.Request) (*unstructured.Unstructured, error) {
	raw, err := web.ReadBody(r, maxUser)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &u.Object); err != nil || u.Object == nil {
		return nil, apierrors.NewBadRequest("the body is not a JSON object: send a User")
	}
	if kind := u.GetKind(); kind != "" && kind != "User" {
		return nil, status.BadRequestf("the body is a %.100q: send a User", kind)
	}
	if u.GetName() == "" {
		return nil, apierrors.NewBadRequest("metadata.name is missing: it is the name of the user")
	}
	u.SetAPIVersion(wire.Group + "/" + wire.Version)
	u.SetKind("User")
	return u, nil
}

// hash replaces a password by its hash, so that it is stored nowhere in clear text.
func (h *Handler) hash(r *restful.Request, u *unstructured.Unstructured) error {
	password, found, err := unstructured.NestedString(u.Object, "spec", "password")
	if err != nil {
		return apierrors.NewBadRequest("spec.password must be a string")
	}
	if !found || password == "" {
		return nil
	}
	hashed, err := h.Passwords.HashChosen(r.Request.Context(), u.GetName(), password)
	if err != nil {
		return wire.Failure(err)
	}
	return unstructured.SetNestedField(u.Object, hashed, "spec", "password")
}

// register creates the user of a verified identity. The body gives the name and the e-mail, the token the identity.
func (h *Handler) register(r *restful.Request, by user.Info, u *unstructured.Unstructured) (any, error) {
	extra := by.GetExtra()
	reg := iam.Registration{Provider: first(extra["idp"]), Subject: first(extra["uid"]), Username: first(extra["username"]),
		Email: first(extra["email"])}
	if reg.Provider == "" || reg.Subject == "" {
		return nil, status.Forbiddenf("the token names no identity")
	}
	email, _, err := unstructured.NestedString(u.Object, "spec", "email")
	if err != nil {
		return nil, apierrors.NewBadRequest("spec.email must be a string")
	}
	made, err := h.Accounts.Register(r.Request.Context(), reg, u.GetName(), email)
	if err != nil {
		return nil, wire.Failure(err)
	}
	return wire.Private{Value: map[string]any{
		"apiVersion": wire.Group + "/" + wire.Version, "kind": "User",
		"metadata": map[string]any{"name": made.Name, "uid": made.UID}, "spec": map[string]any{"email": made.Email},
	}}, nil
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
