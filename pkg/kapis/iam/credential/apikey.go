package credential

import (
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/target"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// Key is an API key, as answers show it.
type Key struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Scope is "read" for a key that is for reading only, and absent for one that opens all that the user may.
	Scope      string     `json:"scope,omitempty"`
	CreatedAt  time.Time  `json:"createdAt"`
	ExpiresAt  time.Time  `json:"expiresAt"`
	LastUsedAt *time.Time `json:"lastUsedAt,omitempty"`
	// Token is the key itself. It is in the answer to the creation only.
	Token string `json:"token,omitempty"`
}

func keyOf(k *apikey.Key) Key {
	return Key{Name: k.Name, Description: k.Description, Scope: k.Scope, CreatedAt: k.Created.UTC(), ExpiresAt: k.Expires.UTC(),
		LastUsedAt: moment(k.Used)}
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (h *Handler) listKeys(r *restful.Request) (any, error) {
	u, err := h.Target.Named(r)
	if err != nil {
		return nil, err
	}
	out := []Key{}
	for _, k := range h.APIKeys.List(u) {
		out = append(out, keyOf(&k))
	}
	return wire.ListOf(out), nil
}

// newKey is what a client asks for.
type newKey struct {
	Description string    `json:"description"`
	Scope       string    `json:"scope"`
	ExpiresAt   time.Time `json:"expiresAt"`
	// CurrentPassword proves that the user creates the key: a token that was stolen for minutes must not become a key for months.
	CurrentPassword string `json:"currentPassword"`
}

// justNow is the age up to which a login counts as a fresh proof for users without a password.
const justNow = 5 * time.Minute

// proven checks that the caller has just proved who they are: by the password or, for users without one, by a fresh login that their
// identity provider vouches for, in this very session.
func (h *Handler) proven(r *restful.Request, u *iam.User, password string) error {
	if u.HasPassword() {
		if password == "" {
			return apierrors.NewBadRequest("currentPassword is missing: making an API key needs the password of the user")
		}
		return wire.Failure(h.Authenticator.Confirm(r.Request.Context(), u, password, h.origin(r)))
	}
	if s := session.Of(request.UserFrom(r.Request.Context())); s != nil && s.UserUID == u.UID && h.Now().Sub(s.Authenticated) <= justNow {
		return nil
	}
	return status.Forbiddenf("making an API key needs a password, or that the identity provider has confirmed a login within the last five" +
		" minutes: " +
		"log in again, or make the key on the page /oauth/account")
}

// createKey creates a key of the caller's own. It can't be created for another user, since the caller could then act as that user.
func (h *Handler) createKey(r *restful.Request) (any, error) {
	u, err := h.Target.Named(r)
	if err != nil {
		return nil, err
	}
	if err := target.RequirePerson(r); err != nil {
		return nil, err
	}
	if !target.IsSelf(r, u) {
		return nil, status.Forbiddenf("users create their API keys themselves")
	}
	var in newKey
	if err := wire.Read(r.Request, &in); err != nil {
		return nil, err
	}
	if err := h.proven(r, u, in.CurrentPassword); err != nil {
		return nil, err
	}
	k, token, err := h.APIKeys.Create(r.Request.Context(), u, apikey.Request{Description: in.Description, Scope: in.Scope,
		Expires: in.ExpiresAt})
	if err != nil {
		return nil, wire.Failure(err)
	}
	out := keyOf(k)
	out.Token = token
	return wire.Private{Value: out}, nil
}

func (h *Handler) deleteKey(r *restful.Request) (any, error) {
	u, err := h.Target.Changeable(r)
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("name")
	if err := h.APIKeys.Revoke(r.Request.Context(), u, name); err != nil {
		return nil, over(err, "apikeys", name)
	}
	return wire.Success(), nil
}

func (h *Handler) deleteKeys(r *restful.Request) (any, error) {
	u, err := h.Target.Changeable(r)
	if err != nil {
		return nil, err
	}
	if err := h.APIKeys.RevokeAll(r.Request.Context(), u); err != nil {
		return nil, wire.Failure(err)
	}
	return wire.Success(), nil
}
