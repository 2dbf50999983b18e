package legacybinding

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Limits of one request: the number of bindings, and its size in bytes.
const (
	maxWritten  = 500
	maxBindings = 1 << 20
)

// asObject returns an element of the array as an object of the kind, and its name for messages.
type asObject func(ctx context.Context, element json.RawMessage) (object []byte, name string, err error)

// CreateBindings returns a handler that creates the bindings of an array of roles at a scope. A single object is created as today.
func (h *Handler) CreateBindings(l *binding.Scope, today web.Handler) web.Handler {
	return h.several(today, func(*restful.Request) asObject {
		return func(_ context.Context, element json.RawMessage) ([]byte, string, error) {
			return roleBinding(l, element)
		}
	})
}

// CreateGroupBindings is CreateBindings for members of groups: {"userName","groupName"}.
func (h *Handler) CreateGroupBindings(today web.Handler) web.Handler {
	return h.several(today, func(r *restful.Request) asObject {
		return func(ctx context.Context, element json.RawMessage) ([]byte, string, error) {
			return h.groupBinding(ctx, r.PathParameter("workspace"), element)
		}
	})
}

// several returns a handler that creates each object of an array by today's handler, as a dry run first: nothing is written unless all
// of them may be. It answers with an array.
func (h *Handler) several(today web.Handler, of func(*restful.Request) asObject) web.Handler {
	return func(r *restful.Request) (any, error) {
		raw, err := web.ReadBody(r.Request, maxBindings)
		if err != nil {
			return nil, err
		}
		if len(raw) == 0 || raw[0] != '[' {
			return today(with(r, string(raw), false))
		}
		query, err := web.WriteParameters(r.Request)
		if err != nil {
			return nil, err
		}
		objects, names, err := readObjects(r.Request.Context(), raw, of(r))
		if err != nil {
			return nil, err
		}
		tried := make([]json.RawMessage, len(objects))
		var refused wire.Failures
		for i, object := range objects {
			c, err := capture(with(r, string(object), true), today)
			if err != nil {
				refused.Add(i, names[i], err)
				continue
			}
			tried[i] = c.body
		}
		if err := refused.Err("nothing was written"); err != nil || query.Has("dryRun") {
			return wire.Private{Value: tried}, err
		}
		return h.write(r, today, objects, names)
	}
}

// write creates the objects.
func (h *Handler) write(r *restful.Request, today web.Handler, objects [][]byte, names []string) (any, error) {
	made := make([]json.RawMessage, 0, len(objects))
	var failed wire.Failures
	for i, object := range objects {
		c, err := capture(with(r, string(object), false), today)
		if err != nil {
			failed.Add(i, names[i], err)
			continue
		}
		made = append(made, c.body)
	}
	if len(made) > 0 {
		h.await(r.Request.Context(), string(made[len(made)-1]))
	}
	if err := failed.Err(fmt.Sprintf("%d of %d were written", len(made), len(objects))); err != nil {
		return nil, err
	}
	return wire.Private{Value: made}, nil
}

// readObjects reads the array. Its error names each element that is none.
func readObjects(ctx context.Context, raw []byte, of asObject) (objects [][]byte, names []string, err error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil || len(elements) == 0 {
		return nil, nil, apierrors.NewBadRequest("the body is not an array of bindings")
	}
	if len(elements) > maxWritten {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%d bindings are more than the %d that one request may have",
			len(elements), maxWritten))
	}
	var refused wire.Failures
	for i, element := range elements {
		object, name, err := of(ctx, element)
		if err != nil {
			refused.Add(i, name, err)
			continue
		}
		objects, names = append(objects, object), append(names, name)
	}
	return objects, names, refused.Err("nothing was written")
}

// bound is a binding of a role, as clients send it.
type bound struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Subjects          []rbacv1.Subject `json:"subjects"`
	RoleRef           rbacv1.RoleRef   `json:"roleRef"`
}

// roleBinding returns a binding in the present form: its role is one of the group, and its name is generated from subject and role if it
// has none.
func roleBinding(l *binding.Scope, element json.RawMessage) (object []byte, name string, err error) {
	b := bound{}
	if err := json.Unmarshal(element, &b); err != nil {
		return nil, "", apierrors.NewBadRequest("it is no binding")
	}
	if len(b.Subjects) == 0 || b.Subjects[0].Name == "" || b.RoleRef.Name == "" {
		return nil, b.Name, apierrors.NewBadRequest("subjects or roleRef is missing")
	}
	if b.RoleRef.Kind != "" && b.RoleRef.Kind != l.RoleKind {
		return nil, b.Name, status.BadRequestf("roleRef.kind is %.100q: the roles here are of the kind %s", b.RoleRef.Kind, l.RoleKind)
	}
	b.APIVersion, b.Kind = iamv1beta1.SchemeGroupVersion.String(), l.RoleKind+"Binding"
	b.RoleRef.APIGroup, b.RoleRef.Kind = iamv1beta1.GroupName, l.RoleKind
	subject := b.Subjects[0]
	nameIt(&b.ObjectMeta, subject.Name, b.RoleRef.Name)
	iamv1beta1.SetReference(&b.ObjectMeta, iamv1beta1.LabelRoleReference, b.RoleRef.Name)
	switch subject.Kind {
	case rbacv1.UserKind:
		iamv1beta1.SetReference(&b.ObjectMeta, iamv1beta1.LabelUserReference, subject.Name)
	case rbacv1.GroupKind:
		iamv1beta1.SetReference(&b.ObjectMeta, iamv1beta1.LabelGroupReference, subject.Name)
	}
	object, err = json.Marshal(&b)
	return object, subject.Name, err
}

// nameIt has kube-apiserver generate the name of a binding that has none. Only the generated end of it makes it unique.
func nameIt(meta *metav1.ObjectMeta, subject, of string) {
	if meta.Name == "" && meta.GenerateName == "" {
		meta.GenerateName = strings.ToLower(subject + "-" + of + "-")
	}
}

// groupBinding returns the binding of a user to a group of the workspace. A whole GroupBinding stays what it is.
func (h *Handler) groupBinding(ctx context.Context, workspace string, element json.RawMessage) (object []byte, name string, err error) {
	kind := metav1.TypeMeta{APIVersion: iamv1beta1.SchemeGroupVersion.String(), Kind: "GroupBinding"}
	if rawjson.Get(string(element), "groupRef") != "" {
		b := iamv1beta1.GroupBinding{}
		if err := json.Unmarshal(element, &b); err != nil {
			return nil, "", apierrors.NewBadRequest("it is no binding")
		}
		b.TypeMeta = kind
		object, err = json.Marshal(&b)
		return object, b.Name, err
	}
	var m struct{ UserName, GroupName string }
	if err := json.Unmarshal(element, &m); err != nil || m.UserName == "" || m.GroupName == "" {
		return nil, m.UserName, apierrors.NewBadRequest("userName or groupName is missing")
	}
	if u := h.Users.ByName(m.UserName); u == nil || u.Deleting {
		return nil, m.UserName, apierrors.NewNotFound(wire.Resource("users").GroupResource(), m.UserName)
	}
	groups, err := h.Caches.Snapshot(ctx, wire.Resource("groups"))
	if err != nil {
		return nil, m.UserName, err
	}
	group, ok := groups.Get("", m.GroupName)
	if ok {
		var of string
		of, ok = group.Labels.Get(tenantv1beta1.LabelWorkspace)
		ok = ok && of == workspace
	}
	if !ok {
		return nil, m.UserName, apierrors.NewNotFound(wire.Resource("groups").GroupResource(), m.GroupName)
	}
	b := iamv1beta1.GroupBinding{
		TypeMeta: kind,
		GroupRef: iamv1beta1.GroupRef{APIGroup: iamv1beta1.GroupName, Kind: "Group", Name: m.GroupName}, Users: []string{m.UserName},
	}
	nameIt(&b.ObjectMeta, m.UserName, m.GroupName)
	iamv1beta1.SetReference(&b, iamv1beta1.LabelUserReference, m.UserName)
	iamv1beta1.SetReference(&b, iamv1beta1.LabelGroupReference, m.GroupName)
	object, err = json.Marshal(&b)
	return object, m.UserName, err
}
