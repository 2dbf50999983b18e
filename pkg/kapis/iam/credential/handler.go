// Package credential serves what a user logs in with: passwords, API keys, sessions, second factors.
package credential

import (
	"context"
	"errors"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/target"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Sessions are the sessions of users. session.Store is one.
type Sessions interface {
	Of(uid string) []*session.Session
	End(ctx context.Context, name, reason string) error
	EndAll(ctx context.Context, uid, except, reason string) error
}

// Handler serves what a user logs in with.
type Handler struct {
	Target *target.Users
	// Authenticator checks and changes passwords.
	Authenticator *login.Authenticator
	Sessions      Sessions
	APIKeys       *apikey.Store
	Factors       *factor.Store
	// Trust are the proxies that are trusted about the source of a request.
	Trust web.TrustedProxies
	Now   func() time.Time
}

// Mount adds the routes; older is put into the names of their operations.
func (h *Handler) Mount(ws *restful.WebService, older string) {
	for _, r := range []struct {
		*restful.RouteBuilder
		verb, of, doc string
		handle        web.Handler
	}{
		{ws.PUT("/users/{user}/password"), "change", "Password",
			"Set a new password; one's own needs the current one. All sessions of the user end", web.RefuseDryRun(h.changePassword)},
		{ws.GET("/users/{user}/apikeys"), "list", "APIKeys", "The API keys of a user, the newest first", h.listKeys},
		{ws.POST("/users/{user}/apikeys"), "create", "APIKey",
			"Make an API key of one's own; the answer is the only one that has its token", web.RefuseDryRun(h.createKey)},
		{ws.DELETE("/users/{user}/apikeys"), "delete", "APIKeys", "Revoke all API keys of a user", web.RefuseDryRun(h.deleteKeys)},
		{ws.DELETE("/users/{user}/apikeys/{name}"), "delete", "APIKey", "Revoke an API key", web.RefuseDryRun(h.deleteKey)},
		{ws.GET("/users/{user}/sessions"), "list", "Sessions", "The sessions of a user, the newest first", h.listSessions},
		{ws.DELETE("/users/{user}/sessions"), "delete", "Sessions", "End all sessions of a user", web.RefuseDryRun(h.deleteSessions)},
		{ws.DELETE("/users/{user}/sessions/{name}"), "delete", "Session", "End a session", web.RefuseDryRun(h.deleteSession)},
		{ws.GET("/users/{user}/factors"), "get", "Factors", "Which second factors a user has", h.factors},
		{ws.DELETE("/users/{user}/factors"), "delete", "Factors", "Take all second factors from a user who has lost them",
			web.RefuseDryRun(h.deleteFactors)},
		{ws.GET("/users/{user}/authkey"), "get", "AuthKey", "The secret of a new authenticator app of one's own, within 5 minutes after a login",
			h.offerAuthKey},
		{ws.POST("/users/{user}/authkey"), "create", "AuthKey", "Enrol an authenticator app with the secret that was read, and a code",
			web.RefuseDryRun(h.enrolAuthKey)},
		{ws.DELETE("/users/{user}/authkey").Param(ws.QueryParameter("otp", "the code that the app shows, or a recovery code")), "delete", "AuthKey",
			"Remove one's own authenticator app", web.RefuseDryRun(h.removeAuthKey)},
	} {
		ws.Route(r.To(web.Handle(r.handle)).Operation(r.verb + older + "User" + r.of).Doc(r.doc).Param(ws.PathParameter("user",
			"name of the user")))
	}
}

func (h *Handler) origin(r *restful.Request) iam.Origin {
	source, agent := h.Trust.Origin(r.Request)
	return iam.Origin{Source: source, UserAgent: agent}
}

// over returns a 404 for a session or a key that does not exist.
func over(err error, what, name string) error {
	if errors.Is(err, iam.ErrOver) {
		return apierrors.NewNotFound(schema.GroupResource{Group: wire.Group, Resource: what}, name)
	}
	return wire.Failure(err)
}
