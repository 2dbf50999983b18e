package iam

import (
	"errors"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"

	"k8s.io/apimachinery/pkg/runtime/schema"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// newPassword is what clients send. The console repeats the password in rePassword.
type newPassword struct {
	CurrentPassword string  `json:"currentPassword"`
	Password        string  `json:"password"`
	RePassword      *string `json:"rePassword"`
}

// changePassword sets a password as the caller. Who changes his own proves himself with the current one, whatever he may do to others:
// a token that was stolen is no way to a password. A current password that is sent is always checked.
func (h *V1beta1) changePassword(r *restful.Request) (any, error) {
	u, err := h.other(r, "password")
	if err != nil {
		return nil, err
	}
	if err := personal(r); err != nil {
		return nil, err
	}
	var in newPassword
	if err := read(r.Request, &in); err != nil {
		return nil, err
	}
	if in.RePassword != nil && *in.RePassword != in.Password {
		return nil, apierrors.NewBadRequest("password and rePassword differ")
	}
	ctx := r.Request.Context()
	if err := h.Entrance.ChangePassword(ctx, iam.PasswordChange{
		User: u, By: request.UserFrom(ctx), Current: in.CurrentPassword, Proven: !isSelf(r, u), New: in.Password, Origin: h.origin(r),
	}); err != nil {
		return nil, failure(err)
	}
	return private{Changed{Message: "success", SessionsEnded: true}}, nil
}

// Changed is the answer to a change of a password.
type Changed struct {
	Message string `json:"message"`
	// SessionsEnded says that the sessions of the user are over, the caller's too where he is the user: log in again.
	SessionsEnded bool `json:"sessionsEnded"`
}

// loginRecords lists the records of one user, whatever label selector is asked for.
func (h *V1beta1) loginRecords(r *restful.Request) (any, error) {
	u, err := h.user(r, "loginrecords")
	if err != nil {
		return nil, err
	}
	values := r.Request.URL.Query()
	for name := range values {
		if strings.EqualFold(name, "labelSelector") || strings.EqualFold(name, "watch") {
			delete(values, name)
		}
	}
	values.Set("labelSelector", iamv1beta1.LabelUserReference+"="+u.Name)
	q, err := query.Parse(values)
	if err != nil {
		return nil, err
	}
	ctx := r.Request.Context()
	kind, err := h.Resources.Catalog().Resolve(ctx, schema.GroupVersionResource{Group: Group, Version: Version, Resource: "loginrecords"})
	if err != nil {
		return nil, err
	}
	page, err := h.Resources.List(ctx, kind, resource.Scope{}, q)
	if err != nil {
		return nil, err
	}
	return page.List(), nil
}

// over tells a session or a key that is not there.
func over(err error, what, name string) error {
	if errors.Is(err, iam.ErrOver) {
		return apierrors.NewNotFound(schema.GroupResource{Group: Group, Resource: what}, name)
	}
	return failure(err)
}
