package credential

import (
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/kapis/iam/target"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/status"
)

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

func (h *Handler) factors(r *restful.Request) (any, error) {
	u, err := h.Target.Named(r)
	if err != nil {
		return nil, err
	}
	e := h.Factors.Of(u)
	out := Factors{TOTP: e.TOTP, RecoveryLeft: e.RecoveryLeft, Passkeys: []Passkey{}}
	for _, p := range e.Passkeys {
		out.Passkeys = append(out.Passkeys, Passkey{ID: p.ID, Name: p.Name, CreatedAt: p.Created.UTC(), LastUsedAt: moment(p.Used)})
	}
	return wire.Private{Value: out}, nil
}

// deleteFactors resets another user's second factors. One's own are changed on the account page, which asks for proof.
func (h *Handler) deleteFactors(r *restful.Request) (any, error) {
	u, err := h.Target.Changeable(r)
	if err != nil {
		return nil, err
	}
	if err := target.RequirePerson(r); err != nil {
		return nil, err
	}
	if target.IsSelf(r, u) {
		return nil, status.Forbiddenf("one's own second factors are changed on the account page")
	}
	if err := h.Factors.Reset(r.Request.Context(), u); err != nil {
		return nil, wire.Failure(err)
	}
	return wire.Success(), nil
}
