// Package user creates, registers, changes and deletes users.
package user

import (
	"context"
	"net/http"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/target"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Accounts registers users who logged in through an identity provider. account.Linker is one.
type Accounts interface {
	Register(ctx context.Context, r iam.Registration, name, email string) (*iam.User, error)
}

// Passwords validates and hashes a password that was chosen for a user. password.Checker is one.
type Passwords interface {
	HashChosen(ctx context.Context, name, password string) (string, error)
}

// Handler creates, changes and deletes users.
type Handler struct {
	Target    *target.Users
	Bindings  *binding.Service
	AsCaller  caller.Client
	Accounts  Accounts
	Passwords Passwords
	Now       func() time.Time
}

// Mount adds the routes; older is put into the names of their operations.
func (h *Handler) Mount(ws *restful.WebService, older string) {
	name := ws.PathParameter("user", "name of the user")
	ws.Route(ws.POST("/users").To(web.Handle(h.createUser)).Operation("create" + older + "User").
		Doc("Create a user, as the caller; or one's own, after a first login through an identity provider"))
	ws.Route(ws.PUT("/users/{user}").To(web.Handle(h.replaceUser)).Operation("replace" + older + "User").Param(name).
		Doc("Replace a user: the password stays, the state may become Active or Disabled, the annotation globalrole asks for that role"))
	ws.Route(ws.PATCH("/users/{user}").To(web.Handle(h.patchUser)).Operation("patch" + older + "User").Param(name).
		Doc("Change a user by a JSON patch or a merge patch"))
	ws.Route(ws.DELETE("/users/{user}").To(web.Handle(h.deleteUser)).Operation("delete" + older + "User").Param(name).
		Doc("Delete a user, and what names the user"))
	// The generic routes of kinds would not make the escalation check.
	for i, r := range []*restful.RouteBuilder{ws.DELETE("/users"), ws.PUT("/users/{user}/status"), ws.PATCH("/users/{user}/status")} {
		ws.Route(r.To(web.Handle(refuseTogether)).Operation("refuse" + older + "Users" +
			string(rune(0x41+i))).Doc("Refused: use .../users/{user}"))
	}
}

// refuseTogether refuses to delete users together, and to write only the state of one.
func refuseTogether(*restful.Request) (any, error) {
	return nil, status.Errorf(http.StatusMethodNotAllowed,
		"users are deleted one by one, and their state is changed by PUT or PATCH of .../users/{user}")
}
