package iam

import (
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/request"
)

// list is the form of lists that are of no kind.
type list[T any] struct {
	Items      []T `json:"items"`
	TotalItems int `json:"totalItems"`
}

func listOf[T any](items []T) private { return private{list[T]{items, len(items)}} }

// Key is an API key, as answers show it.
type Key struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Scope is "read" for a key that is for reading only, and absent for one that opens all that the user may.
	Scope      string     `json:"scope,omitempty"`
	CreatedAt  time.Time  `json:"createdAt"`
	ExpiresAt  time.Time  `json:"expiresAt"`
	LastUsedAt *time.Time `json:"lastUsedAt,omitempty"`
	// Token opens what the user may do. It stands in the answer to the creation only.
	Token string `json:"token,omitempty"`
}

func keyOf(k *iam.APIKey) Key {
	return Key{Name: k.Name, Description: k.Description, Scope: k.Scope, CreatedAt: k.Created.UTC(), ExpiresAt: k.Expires.UTC(), LastUsedAt: moment(k.Used)}
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (h *V1beta1) listKeys(r *restful.Request) (any, error) {
	u, err := h.user(r, "apikeys")
	if err != nil {
		return nil, err
	}
	out := []Key{}
	for _, k := range h.APIKeys.List(u) {
		out = append(out, keyOf(&k))
	}
	return listOf(out), nil
}

// newKey is what a client asks for.
type newKey struct {
	Description string    `json:"description"`
	Scope       string    `json:"scope"`
	ExpiresAt   time.Time `json:"expiresAt"`
	// CurrentPassword proves that it is the user himself who makes a key: a token that was stolen for minutes must not become a key for months.
	CurrentPassword string `json:"currentPassword"`
}

// justNow is how long ago a user who has no password logged in at most who makes an API key.
const justNow = 5 * time.Minute

// proven holds that a user has just proved who he is: by his password, or, where he has none, by a login that his identity provider vouches for as a fresh one. That counts for
// the session that it opened: whoever stole the token of another has not logged in.
func (h *V1beta1) proven(r *restful.Request, u *iam.User, password string) error {
	if u.HasPassword() {
		if password == "" {
			return apierrors.NewBadRequest("currentPassword is missing: making an API key needs the password of the user")
		}
		return failure(h.Entrance.Confirm(r.Request.Context(), u, password, h.origin(r)))
	}
	if s := iam.SessionOf(request.UserFrom(r.Request.Context())); s != nil && s.UserUID == u.UID && h.Now().Sub(s.Authenticated) <= justNow {
		return nil
	}
	return forbidden("making an API key needs a password, or that the identity provider has confirmed a login within the last five minutes: " +
		"log in again, or make the key on the page /oauth/account")
}

// createKey makes a key of one's own: nobody makes one for somebody else, whatever he may do, since he would be that person then.
func (h *V1beta1) createKey(r *restful.Request) (any, error) {
	u, err := h.user(r, "apikeys")
	if err != nil {
		return nil, err
	}
	if err := personal(r); err != nil {
		return nil, err
	}
	if !isSelf(r, u) {
		return nil, forbidden("API keys are made by the user himself")
	}
	var in newKey
	if err := read(r.Request, &in); err != nil {
		return nil, err
	}
	if err := h.proven(r, u, in.CurrentPassword); err != nil {
		return nil, err
	}
	k, token, err := h.APIKeys.Create(r.Request.Context(), u, iam.NewAPIKey{Description: in.Description, Scope: in.Scope, Expires: in.ExpiresAt})
	if err != nil {
		return nil, failure(err)
	}
	out := keyOf(k)
	out.Token = token
	return private{out}, nil
}

func (h *V1beta1) deleteKey(r *restful.Request) (any, error) {
	u, err := h.other(r, "apikeys")
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("name")
	if err := h.APIKeys.Revoke(r.Request.Context(), u, name); err != nil {
		return nil, over(err, "apikeys", name)
	}
	return done(), nil
}

func (h *V1beta1) deleteKeys(r *restful.Request) (any, error) {
	u, err := h.other(r, "apikeys")
	if err != nil {
		return nil, err
	}
	if err := h.APIKeys.RevokeAll(r.Request.Context(), u); err != nil {
		return nil, failure(err)
	}
	return done(), nil
}

// Session is a session, as answers show it.
type Session struct {
	Name       string     `json:"name"`
	Client     string     `json:"client,omitempty"`
	Provider   string     `json:"provider,omitempty"`
	Scopes     []string   `json:"scopes,omitempty"`
	Source     string     `json:"source,omitempty"`
	UserAgent  string     `json:"userAgent,omitempty"`
	CreatedAt  time.Time  `json:"createdAt"`
	ExpiresAt  time.Time  `json:"expiresAt"`
	LastUsedAt *time.Time `json:"lastUsedAt,omitempty"`
}

func (h *V1beta1) listSessions(r *restful.Request) (any, error) {
	u, err := h.user(r, "sessions")
	if err != nil {
		return nil, err
	}
	out := []Session{}
	for _, s := range h.Sessions.Of(u.UID) {
		out = append(out, Session{
			Name: s.Name, Client: s.Client, Provider: s.Provider, Scopes: s.Scopes, Source: s.Source, UserAgent: s.UserAgent,
			CreatedAt: s.Created.UTC(), ExpiresAt: s.Expires.UTC(), LastUsedAt: moment(s.Used),
		})
	}
	return listOf(out), nil
}

func (h *V1beta1) deleteSession(r *restful.Request) (any, error) {
	u, err := h.other(r, "sessions")
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("name")
	for _, s := range h.Sessions.Of(u.UID) {
		if s.Name == name {
			if err := h.Sessions.End(r.Request.Context(), name, "revoked"); err != nil {
				return nil, over(err, "sessions", name)
			}
			return done(), nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: Group, Resource: "sessions"}, name)
}

func (h *V1beta1) deleteSessions(r *restful.Request) (any, error) {
	u, err := h.other(r, "sessions")
	if err != nil {
		return nil, err
	}
	if err := h.Sessions.EndAll(r.Request.Context(), u.UID, "", "revoked"); err != nil {
		return nil, failure(err)
	}
	return done(), nil
}

// Factors are the second factors of a user, as answers show them.
type Factors struct {
	TOTP         bool      `json:"totp"`
	RecoveryLeft int       `json:"recoveryLeft"`
	Passkeys     []Passkey `json:"passkeys"`
}

// Passkey is one of them.
type Passkey struct {
	ID         string     `json:"id"`
	Name       string     `json:"name,omitempty"`
	CreatedAt  time.Time  `json:"createdAt"`
	LastUsedAt *time.Time `json:"lastUsedAt,omitempty"`
}

func (h *V1beta1) factors(r *restful.Request) (any, error) {
	u, err := h.user(r, "factors")
	if err != nil {
		return nil, err
	}
	e := h.Factors.Of(u)
	out := Factors{TOTP: e.TOTP, RecoveryLeft: e.RecoveryLeft, Passkeys: []Passkey{}}
	for _, p := range e.Passkeys {
		out.Passkeys = append(out.Passkeys, Passkey{ID: p.ID, Name: p.Name, CreatedAt: p.Created.UTC(), LastUsedAt: moment(p.Used)})
	}
	return private{out}, nil
}

// deleteFactors is for somebody who manages users, when one has lost his device. One's own are changed on the account page, which asks
// for a proof.
func (h *V1beta1) deleteFactors(r *restful.Request) (any, error) {
	u, err := h.other(r, "factors")
	if err != nil {
		return nil, err
	}
	if err := personal(r); err != nil {
		return nil, err
	}
	if isSelf(r, u) {
		return nil, forbidden("one's own second factors are changed on the account page")
	}
	if err := h.Factors.Reset(r.Request.Context(), u); err != nil {
		return nil, failure(err)
	}
	return done(), nil
}
