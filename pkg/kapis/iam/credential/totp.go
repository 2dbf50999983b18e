package credential

import (
	"errors"
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/target"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// AuthKey is the secret of an authenticator app (base32), which is not enrolled yet.
type AuthKey struct {
	// AuthKey is empty for a user who has an app.
	AuthKey string `json:"authKey"`
}

// Enrolment enrols an app: the secret that it has, and a code that it shows.
type Enrolment struct {
	AuthKey string `json:"authKey"`
	OTP     string `json:"otp"`
}

// Enrolled is the answer to an Enrolment. It is the only one that has the recovery codes.
type Enrolled struct {
	Message       string   `json:"message"`
	RecoveryCodes []string `json:"recoveryCodes"`
}

// appOwner returns the caller, who manages the authenticator app of their own and has just logged in: a token that was stolen for minutes
// must not lock its user out.
func (h *Handler) appOwner(r *restful.Request) (*iam.User, error) {
	u, err := h.Target.Named(r)
	if err != nil {
		return nil, err
	}
	if err := target.RequirePerson(r); err != nil {
		return nil, err
	}
	if !target.IsSelf(r, u) {
		return nil, status.Forbiddenf("users set up their authenticator apps themselves; DELETE .../users/%s/factors resets those of another",
			u.Name)
	}
	s := session.Of(request.UserFrom(r.Request.Context()))
	if s == nil || s.UserUID != u.UID || h.Now().Sub(s.Authenticated) > justNow {
		return nil, status.Forbiddenf("an authenticator app is set up or removed within %v after a login: log in again, or use the page"+
			" /oauth/account", justNow)
	}
	return u, nil
}

// offerAuthKey is for the tab of the console: its QR code has what it gets here.
func (h *Handler) offerAuthKey(r *restful.Request) (any, error) {
	u, err := h.appOwner(r)
	if err != nil {
		return nil, err
	}
	out := AuthKey{}
	if !h.Factors.Of(u).TOTP {
		if out.AuthKey, err = h.Factors.OfferedSecret(u); err != nil {
			return nil, wire.Failure(err)
		}
	}
	return wire.Private{Value: out}, nil
}

func (h *Handler) enrolAuthKey(r *restful.Request) (any, error) {
	u, err := h.appOwner(r)
	if err != nil {
		return nil, err
	}
	var in Enrolment
	if err := wire.Read(r.Request, &in); err != nil {
		return nil, err
	}
	if in.OTP == "" || in.AuthKey == "" {
		return nil, apierrors.NewBadRequest("authKey and otp are needed: the secret from the answer to GET, and the code that the app" +
			" shows")
	}
	if h.Factors.Of(u).TOTP {
		return nil, status.Errorf(http.StatusConflict, "there is an authenticator app already: remove it first")
	}
	codes, err := h.Authenticator.EnrolOffered(r.Request.Context(), u, in.AuthKey, in.OTP, h.origin(r))
	if err != nil {
		return nil, wrongCode(err)
	}
	return wire.Private{Value: Enrolled{Message: "success", RecoveryCodes: codes}}, nil
}

func wrongCode(err error) error {
	if errors.Is(err, iam.ErrCredentials) {
		return apierrors.NewBadRequest("the code is wrong, was used before, or is of a secret that was read too long ago: try the next one")
	}
	return wire.Failure(err)
}

func (h *Handler) removeAuthKey(r *restful.Request) (any, error) {
	u, err := h.appOwner(r)
	if err != nil {
		return nil, err
	}
	if !h.Factors.Of(u).TOTP {
		return nil, over(iam.ErrOver, "users/authkey", u.Name)
	}
	code := r.QueryParameter("otp")
	if code == "" {
		return nil, apierrors.NewBadRequest("otp is needed: the code that the app shows, or a recovery code")
	}
	p := &iam.AuthnResult{User: u, Pending: true}
	if err := h.Authenticator.SecondFactor(r.Request.Context(), p, code, h.origin(r)); err != nil {
		return nil, wrongCode(err)
	}
	if err := h.Factors.RemoveTOTP(r.Request.Context(), u); err != nil {
		return nil, wire.Failure(err)
	}
	return wire.Success(), nil
}
