package credential

import (
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
)

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

func (h *Handler) listSessions(r *restful.Request) (any, error) {
	u, err := h.Target.Named(r)
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
	return wire.ListOf(out), nil
}

func (h *Handler) deleteSession(r *restful.Request) (any, error) {
	u, err := h.Target.Changeable(r)
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("name")
	for _, s := range h.Sessions.Of(u.UID) {
		if s.Name == name {
			if err := h.Sessions.End(r.Request.Context(), name, "revoked"); err != nil {
				return nil, over(err, "sessions", name)
			}
			return wire.Success(), nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: wire.Group, Resource: "sessions"}, name)
}

func (h *Handler) deleteSessions(r *restful.Request) (any, error) {
	u, err := h.Target.Changeable(r)
	if err != nil {
		return nil, err
	}
	if err := h.Sessions.EndAll(r.Request.Context(), u.UID, "", "revoked"); err != nil {
		return nil, wire.Failure(err)
	}
	return wire.Success(), nil
}
