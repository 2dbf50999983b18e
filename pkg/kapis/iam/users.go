package iam

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/admission"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/request"
)

const (
	// maxUser bounds the object of a user, in bytes, and maxAnswer what kube-apiserver answers with.
	maxUser   = 1 << 20
	maxAnswer = 4 << 20
	usersPath = "/apis/" + Group + "/" + Version + "/users"
)

// createUser makes a user as the caller; and for who has shown an identity that no user is linked to yet, his own.
func (h *V1beta1) createUser(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	info, caller := request.InfoFrom(ctx), request.UserFrom(ctx)
	if !isHere(info) || caller == nil || info.Resource != "users" || info.Verb != "create" ||
		info.Subresource != "" || info.Namespace != "" || info.Workspace != "" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: Group, Resource: "users"}, "")
	}
	u, err := readUser(r.Request)
	if err != nil {
		return nil, err
	}
	if caller.GetName() == iamv1beta1.UserPreRegistration {
		return h.register(r, caller, u)
	}
	return h.createWithRole(r, u)
}

// createWithRole makes a user, and the binding to the role that the annotation globalrole asks for. What the caller may not give, he
// is told before there is a user.
func (h *V1beta1) createWithRole(r *restful.Request, u *unstructured.Unstructured) (any, error) {
	ctx := r.Request.Context()
	annotations, _, err := unstructured.NestedStringMap(u.Object, "metadata", "annotations")
	if err != nil {
		return nil, apierrors.NewBadRequest("metadata.annotations must be an object of strings")
	}
	role := annotations[iamv1beta1.AnnotationGlobalRole]
	if role != "" {
		delete(annotations, iamv1beta1.AnnotationGlobalRole) // it is ks-controller-manager that says there what is bound
		u.SetAnnotations(annotations)
	}
	query, err := writeParams(r.Request)
	if err != nil {
		return nil, err
	}
	binding, err := h.planRole(ctx, u.GetName(), role, query)
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
	if err := h.Guard.Check(ctx, &admission.Write{
		By: request.UserFrom(ctx), Verb: "create", GVR: resourceOf("users"), Name: u.GetName(), Object: body,
	}); err != nil {
		return nil, err
	}
	made, err := h.create(r.Request, query, body)
	if err != nil {
		return nil, err
	}
	if err := h.apply(ctx, binding); err != nil {
		return nil, fmt.Errorf("the user was made, his role was not given: %w", err)
	}
	return shown(made, role)
}

// readUser reads a new User.
func readUser(r *http.Request) (*unstructured.Unstructured, error) {
	u, err := readObject(r)
	if err == nil {
		unstructured.RemoveNestedField(u.Object, "status") // what it says is the system's
	}
	return u, err
}

// readObject reads a User, whatever group's it says it is: the route decides.
func readObject(r *http.Request) (*unstructured.Unstructured, error) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxUser+1))
	switch {
	case err != nil:
		return nil, apierrors.NewBadRequest("the body can't be read to its end")
	case len(raw) > maxUser:
		return nil, apierrors.NewRequestEntityTooLargeError("the body is too long for a User")
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &u.Object); err != nil || u.Object == nil {
		return nil, apierrors.NewBadRequest("the body is not a JSON object: send a User")
	}
	if kind := u.GetKind(); kind != "" && kind != "User" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %.100q: send a User", kind))
	}
	if u.GetName() == "" {
		return nil, apierrors.NewBadRequest("metadata.name is missing: it is the name of the user")
	}
	u.SetAPIVersion(Group + "/" + Version)
	u.SetKind("User")
	return u, nil
}

// hash puts the hash in the place of a password: so that it is stored nowhere in clear text.
func (h *V1beta1) hash(r *restful.Request, u *unstructured.Unstructured) error {
	password, found, err := unstructured.NestedString(u.Object, "spec", "password")
	if err != nil {
		return apierrors.NewBadRequest("spec.password must be a string")
	}
	if !found || password == "" {
		return nil
	}
	if err := iam.CheckPassword(u.GetName(), password); err != nil {
		return failure(err)
	}
	hashed, err := h.Entrance.Passwords.HashPassword(r.Request.Context(), password)
	if err != nil {
		return failure(err)
	}
	return unstructured.SetNestedField(u.Object, hashed, "spec", "password")
}

// create sends the object to kube-apiserver as the caller, and returns what it made.
func (h *V1beta1) create(in *http.Request, query url.Values, body []byte) ([]byte, error) {
	out, err := http.NewRequestWithContext(in.Context(), http.MethodPost, "/", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("create a user: %w", err)
	}
	out.URL = &url.URL{Path: usersPath, RawQuery: query.Encode()}
	out.RemoteAddr = in.RemoteAddr
	out.Header.Set("Accept", restful.MIME_JSON)
	out.Header.Set("Content-Type", restful.MIME_JSON)
	if v := in.Header["User-Agent"]; len(v) > 0 {
		out.Header["User-Agent"] = v
	}
	if out, err = authz.Permit(h.Authorizer, out); err != nil {
		return nil, err
	}
	res, err := h.Kube.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return answer(res)
}

func answer(res *http.Response) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil || len(raw) > maxAnswer {
		return nil, fmt.Errorf("create a user: read kube-apiserver's answer of %d bytes: %w", len(raw), err)
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		var s metav1.Status
		if err := json.Unmarshal(raw, &s); err != nil || s.Code == 0 || res.StatusCode == http.StatusUnauthorized {
			return nil, fmt.Errorf("create a user: kube-apiserver answers %d", res.StatusCode)
		}
		return nil, &apierrors.StatusError{ErrStatus: s}
	}
	return raw, nil
}

// register makes the user of who has shown an identity. Of what he sends, the name and the e-mail count; whose the identity is
// stands in his token.
func (h *V1beta1) register(r *restful.Request, caller user.Info, u *unstructured.Unstructured) (any, error) {
	extra := caller.GetExtra()
	reg := iam.Registration{Provider: first(extra["idp"]), Subject: first(extra["uid"]), Username: first(extra["username"]), Email: first(extra["email"])}
	if reg.Provider == "" || reg.Subject == "" {
		return nil, forbidden("the token names no identity")
	}
	email, _, err := unstructured.NestedString(u.Object, "spec", "email")
	if err != nil {
		return nil, apierrors.NewBadRequest("spec.email must be a string")
	}
	made, err := h.Accounts.Register(r.Request.Context(), reg, u.GetName(), email)
	if err != nil {
		return nil, failure(err)
	}
	return private{map[string]any{
		"apiVersion": Group + "/" + Version, "kind": "User",
		"metadata": map[string]any{"name": made.Name, "uid": made.UID}, "spec": map[string]any{"email": made.Email},
	}}, nil
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
