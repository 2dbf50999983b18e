// Package review answers who may do what: access reviews, explanations of a decision, and who can do something.
package review

import (
	"iter"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Bounds of reviews: how long a body is, in bytes, and how many reviews are in one.
const (
	maxReviewBody = 1 << 20
	maxReviews    = 500
)

// Handler answers what a user may do, and why. Every user of the routes may ask about themselves; asking about another user takes the
// right to create subjectaccessreviews on the platform, by that user's name.
type Handler struct {
	// May decides, as it does about requests.
	May authz.Authorizer
	// Grants returns the bindings that a decision by roles results from.
	Grants Grants
	// Alias returns the request whose right is as good as the one in question; nil where there is none. See authz.Aliases.
	Alias func(*request.Info) *request.Info
	// Users has the groups of the users in question.
	Users *iam.UserIndex
}

// Grants returns the bindings that bear on a request. rbac.Index has them.
type Grants interface {
	Meets(r *request.Info) []authz.BindingScope
	Explain(u user.Info, r *request.Info) []authz.Grant
	WhoCan(requests ...*request.Info) iter.Seq[authz.Grant]
}

// Mount adds the routes.
func (v *Handler) Mount(ws *restful.WebService) {
	ws.Route(ws.POST("/subjectaccessreviews").To(web.Handle(v.review)).Operation("createSubjectAccessReview").
		Doc("What a user may do: one SubjectAccessReview, or a list of them, answered in its order"))
	ws.Route(ws.POST("/accessexplanations").To(web.Handle(v.explain)).Operation("createAccessExplanation").
		Doc("Which binding and rule allow a request, or what is missing at each scope"))
	ws.Route(ws.POST("/whocan").To(web.Handle(v.whoCan)).Operation("createWhoCan").Doc("Who may do something, by which binding"))
	ws.Route(ws.GET("/whocan").To(web.Handle(v.whoCan)).Operation("listWhoCan").Doc("Who may do something, by which binding").
		Param(ws.QueryParameter("verb", "verb, or method of a path")).
		Param(ws.QueryParameter("group", "API group")).
		Param(ws.QueryParameter("resource", "resource")).
		Param(ws.QueryParameter("subresource", "sub-resource")).
		Param(ws.QueryParameter("name", "name of the object")).
		Param(ws.QueryParameter("namespace", "namespace")).
		Param(ws.QueryParameter("workspace", "workspace")).
		Param(ws.QueryParameter("path", "path that is no resource's, in the place of all of these")).
		Param(ws.QueryParameter("limit", "subjects on a page: 100, and 1000 at most").DataType("integer")).
		Param(ws.QueryParameter("page", "page, from 1").DataType("integer")))
}
