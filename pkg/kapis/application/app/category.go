// Package app serves the applications of the store: their categories, versions and files, and their review.
package app

import (
	restful "github.com/emicklei/go-restful/v3"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Handler serves applications, their versions, categories, reviews and attachments.
type Handler struct {
	Store *scope.Store
}

// Routes adds the routes.
func (h *Handler) Routes(ws *restful.WebService) {
	category := ws.PathParameter("category", "name of the category")
	ws.Route(scope.Listing(ws, ws.GET("/categories").To(web.Handle(h.categories)).Operation("listAppCategories").
		Doc("Categories of applications: filtered, sorted, one page")))
	ws.Route(ws.GET("/categories/{category}").To(web.Handle(h.category)).Operation("getAppCategory").
		Doc("One category").Writes(v2.Category{}).Param(category))
}

func (h *Handler) categories(r *restful.Request) (any, error) {
	return scope.Categories.List(h.Store, r, nil)
}

func (h *Handler) category(r *restful.Request) (any, error) {
	return scope.Categories.Get(h.Store, r, r.PathParameter("category"))
}
