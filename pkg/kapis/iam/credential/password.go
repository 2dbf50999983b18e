package credential

import (
	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/target"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/request"
)

// newPassword is what clients send. The console repeats the password in rePassword.
type newPassword struct {
	CurrentPassword string  `json:"currentPassword"`
	Password        string  `json:"password"`
	RePassword      *string `json:"rePassword"`
}

// changePassword sets a password as the caller. One's own needs the current one, so that a stolen token is no way to a password.
func (h *Handler) changePassword(r *restful.Request) (any, error) {
	u, err := h.Target.Changeable(r)
	if err != nil {
		return nil, err
	}
	if err := target.RequirePerson(r); err != nil {
		return nil, err
	}
	var in newPassword
	if err := wire.Read(r.Request, &in); err != nil {
		return nil, err
	}
	if in.RePassword != nil && *in.RePassword != in.Password {
		return nil, apierrors.NewBadRequest("password and rePassword differ")
	}
	ctx := r.Request.Context()
	if err := h.Authenticator.ChangePassword(ctx, login.PasswordChange{
		User: u, By: request.UserFrom(ctx), Current: in.CurrentPassword, Proven: !target.IsSelf(r, u), New: in.Password, Origin: h.origin(r),
	}); err != nil {
		return nil, wire.Failure(err)
	}
	return wire.Private{Value: Changed{Message: "success", SessionsEnded: true}}, nil
}

// Changed is the answer to a change of a password.
type Changed struct {
	Message string `json:"message"`
	// SessionsEnded says that the sessions of the user have ended, including the caller's own if they are that user.
	SessionsEnded bool `json:"sessionsEnded"`
}
