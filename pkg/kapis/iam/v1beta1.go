// Package iam serves the routes of iam.kubesphere.io that are more than reading or writing an object: passwords, users who register,
// and what a user logs in with.
package iam

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/web"
)

// The group and the version of the routes.
const (
	Group   = "iam.kubesphere.io"
	Version = "v1beta1"
	// OlderVersion is the version that older clients ask: the same routes, with some names of its own.
	OlderVersion = "v1alpha2"
)

// V1beta1 serves iam.kubesphere.io/v1beta1.
type V1beta1 struct {
	Users    *iam.UserIndex
	Entrance *iam.Authenticator
	Accounts *iam.Accounts
	Sessions Sessions
	APIKeys  *iam.APIKeys
	Factors  *iam.Factors
	// Resources has the login records.
	Resources *resource.Service
	// Kube is kube-apiserver, asked as the caller of a request's context, and Authorizer decides on what is asked.
	Kube       http.RoundTripper
	Authorizer authz.Authorizer
	// Reviews answers who may do what.
	Reviews Reviews
	// Rights tell who holds what, Guard refuses to give away more than that, and Caches have what both are made of.
	Rights Rights
	Guard  Guard
	Caches Caches
	// Trust are the proxies whose word on where a request comes from counts.
	Trust web.Trust
	// Now is the clock.
	Now func() time.Time
}

// Sessions are the sessions of users. iam.Sessions is one.
type Sessions interface {
	Of(uid string) []*iam.Session
	End(ctx context.Context, name, reason string) error
	EndAll(ctx context.Context, uid, except, reason string) error
}

// WebService returns the routes. The routes of kinds are to be mounted beside them.
func (h *V1beta1) WebService() *restful.WebService { return h.service(Version, "") }

// Older returns the routes of OlderVersion, which answer as those of v1beta1 do.
func (h *V1beta1) Older() *restful.WebService {
	ws := h.service(OlderVersion, "Older")
	h.mountMemberRoles(ws)
	ws.Route(ws.GET("/users/{user}/globalroles").To(web.Handle(h.globalRoles)).Operation("listOlderUserGlobalRoles").
		Doc("The roles that a user has on the platform").Param(ws.PathParameter("user", "name of the user")))
	return ws
}

func (h *V1beta1) service(version, older string) *restful.WebService {
	ws := new(restful.WebService).Path("/kapis/" + Group + "/" + version).Produces(restful.MIME_JSON)
	ws.Route(ws.POST("/users").To(web.Handle(h.createUser)).Operation("create" + older + "User").
		Doc("Create a user, as the caller; or one's own, after a first login through an identity provider"))
	for _, r := range []struct {
		*restful.RouteBuilder
		verb, of, doc string
		handle        web.Handler
	}{
		{ws.PUT("/users/{user}"), "replace", "", "Replace a user: the password stays, the state may become Active or Disabled, the annotation globalrole asks for that role", h.replaceUser},
		{ws.PATCH("/users/{user}"), "patch", "", "Change a user by a JSON patch or a merge patch", h.patchUser},
		{ws.DELETE("/users/{user}"), "delete", "", "Delete a user, and whatever names him", h.deleteUser},
		{ws.PUT("/users/{user}/password"), "change", "Password", "Set a new password; one's own needs the current one. All sessions of the user end", web.InEarnest(h.changePassword)},
		{ws.GET("/users/{user}/loginrecords"), "list", "LoginRecords", "The logins of a user, and what failed", h.loginRecords},
		{ws.GET("/users/{user}/roletemplates").Param(ws.QueryParameter("scope", "global, workspace, cluster or namespace")).
			Param(ws.QueryParameter("workspace", "the workspace, where scope is workspace")).
			Param(ws.QueryParameter("namespace", "the namespace, where scope is namespace")),
			"list", "RoleTemplates", "The role templates whose rights a user has at a place: what pages show him", h.roleTemplates},
		{ws.GET("/users/{user}/apikeys"), "list", "APIKeys", "The API keys of a user, the newest first", h.listKeys},
		{ws.POST("/users/{user}/apikeys"), "create", "APIKey", "Make an API key of one's own; the answer is the only one that has its token", web.InEarnest(h.createKey)},
		{ws.DELETE("/users/{user}/apikeys"), "delete", "APIKeys", "Revoke all API keys of a user", web.InEarnest(h.deleteKeys)},
		{ws.DELETE("/users/{user}/apikeys/{name}"), "delete", "APIKey", "Revoke an API key", web.InEarnest(h.deleteKey)},
		{ws.GET("/users/{user}/sessions"), "list", "Sessions", "The sessions of a user, the newest first", h.listSessions},
		{ws.DELETE("/users/{user}/sessions"), "delete", "Sessions", "End all sessions of a user", web.InEarnest(h.deleteSessions)},
		{ws.DELETE("/users/{user}/sessions/{name}"), "delete", "Session", "End a session", web.InEarnest(h.deleteSession)},
		{ws.GET("/users/{user}/factors"), "get", "Factors", "Which second factors a user has", h.factors},
		{ws.DELETE("/users/{user}/factors"), "delete", "Factors", "Take all second factors from a user who has lost them", web.InEarnest(h.deleteFactors)},
	} {
		ws.Route(r.To(web.Handle(r.handle)).Operation(r.verb + older + "User" + r.of).Doc(r.doc).Param(ws.PathParameter("user", "name of the user")))
	}
	if older == "" {
		h.Reviews.mount(ws)
	}
	// What the routes of kinds would do here would ask nobody whether the caller holds less than the user.
	for i, r := range []*restful.RouteBuilder{ws.DELETE("/users"), ws.PUT("/users/{user}/status"), ws.PATCH("/users/{user}/status")} {
		ws.Route(r.To(web.Handle(h.oneByOne)).Operation("refuse" + older + "Users" + string(rune(0x41+i))).Doc("Refused: use .../users/{user}"))
	}
	h.mountMembers(ws, older)
	return ws
}

// oneByOne refuses to delete users together, and to write the state of one apart from him.
func (h *V1beta1) oneByOne(*restful.Request) (any, error) {
	return nil, status(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
		"users are deleted one by one, and their state is changed by PUT or PATCH of .../users/{user}", 0)
}

// asCaller asks kube-apiserver as the caller of a request.
func (h *V1beta1) asCaller() caller.Client { return caller.Client{May: h.Authorizer, Kube: h.Kube} }

// Done is the answer to what has no other.
type Done struct {
	Message string `json:"message"`
}

func done() Done { return Done{"success"} }

// user returns the user whom a path names, after holding that this very path was authorized.
func (h *V1beta1) user(r *restful.Request, subresource string) (*iam.User, error) {
	info, name := request.InfoFrom(r.Request.Context()), r.PathParameter("user")
	if !isHere(info) || info.Resource != "users" || info.Subresource != subresource ||
		info.Name != name || info.Namespace != "" || info.Workspace != "" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: Group, Resource: "users"}, name)
	}
	u := h.Users.ByName(name)
	if u == nil || u.Deleting {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: Group, Resource: "users"}, name)
	}
	return u, nil
}

// isSelf tells whether the caller is the user himself.
func isSelf(r *restful.Request, u *iam.User) bool {
	c := request.UserFrom(r.Request.Context())
	return c != nil && c.GetName() == u.Name && c.GetUID() == u.UID
}

// personal refuses API keys where a person is needed.
func personal(r *restful.Request) error {
	c := request.UserFrom(r.Request.Context())
	if c == nil || slices.Contains(c.GetExtra()[iam.ExtraCredential], iam.CredentialAPIKey) {
		return forbidden("an API key can't do this: log in")
	}
	return nil
}

func (h *V1beta1) origin(r *restful.Request) iam.Origin {
	source, agent := h.Trust.Origin(r.Request)
	return iam.Origin{Source: source, UserAgent: agent}
}

// failure gives an error of package iam its status.
func failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, iam.ErrPolicy), errors.Is(err, iam.ErrExpiry), errors.Is(err, iam.ErrScope), errors.Is(err, iam.ErrTooMany):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, iam.ErrCredentials):
		return apierrors.NewBadRequest("incorrect old password")
	case errors.Is(err, iam.ErrLimited):
		return status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many failed attempts: try again later", 60)
	case errors.Is(err, iam.ErrBusy):
		return status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many logins at once", int32(iam.RetryAfter/time.Second))
	case errors.Is(err, iam.ErrSuspended):
		return forbidden("the account is suspended")
	case errors.Is(err, iam.ErrNotLinked), errors.Is(err, iam.ErrUnknownProvider):
		return forbidden("no user can be made for this identity")
	case errors.Is(err, iam.ErrUnavailable), errors.Is(err, idp.ErrUnavailable):
		return status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "this can't be done at the moment: try again", int32(iam.RetryAfter/time.Second))
	}
	return err
}

func forbidden(message string) error {
	return status(http.StatusForbidden, metav1.StatusReasonForbidden, message, 0)
}

func status(code int32, reason metav1.StatusReason, message string, retry int32) error {
	s := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
	if retry > 0 {
		s.Details = &metav1.StatusDetails{RetryAfterSeconds: retry}
	}
	return &apierrors.StatusError{ErrStatus: s}
}

// private is an answer that nobody is to keep.
type private struct{ value any }

// Respond implements web.Responder.
func (p private) Respond(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	web.WriteJSON(w, r, http.StatusOK, p.value)
}
