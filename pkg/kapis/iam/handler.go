// Package iam mounts the routes of iam.kubesphere.io that are more than reading or writing an object.
package iam

import (
	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/kapis/iam/credential"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/loginrecord"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/member"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/review"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/roletemplate"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/user"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
)

// Handler serves iam.kubesphere.io: each field has the routes of one feature. The generic routes of kinds are mounted next to them.
type Handler struct {
	Users         *user.Handler
	Credentials   *credential.Handler
	LoginRecords  *loginrecord.Handler
	Members       *member.Handler
	RoleTemplates *roletemplate.Handler
	Reviews       *review.Handler
}

// WebService returns the routes of the current version.
func (h *Handler) WebService() *restful.WebService {
	ws := h.service(wire.Version, "")
	h.Reviews.Mount(ws)
	return ws
}

// OlderWebService returns the routes of OlderVersion, which answer as those of the current one do.
func (h *Handler) OlderWebService() *restful.WebService {
	ws := h.service(wire.OlderVersion, "Older")
	h.RoleTemplates.MountOlder(ws)
	return ws
}

func (h *Handler) service(version, older string) *restful.WebService {
	ws := new(restful.WebService).Path("/kapis/" + wire.Group + "/" + version).Produces(restful.MIME_JSON)
	h.Users.Mount(ws, older)
	h.Credentials.Mount(ws, older)
	h.LoginRecords.Mount(ws, older)
	h.RoleTemplates.Mount(ws, older)
	h.Members.Mount(ws, older)
	return ws
}
