// Package app serves the applications of the store: their versions and files, their review, their categories, and attachments.
package app

import (
	"context"
	"errors"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	annotationAlias       = "kubesphere.io/alias-name"
	annotationDescription = "kubesphere.io/description"
	// readers is how many packages are unpacked at once: one takes up to 64 MiB for a moment.
	readers = 2
)

// Files keeps packages and images, and the names of uploads. file.Files is one.
type Files interface {
	file.Store
	file.Reservations
}

// Handler serves applications, their versions, categories, reviews and attachments.
type Handler struct {
	Store *scope.Store
	Files Files
	// Fetch returns the package of a version of a repository; nil where packages of repositories are not read.
	Fetch func(ctx context.Context, v *v2.ApplicationVersion) ([]byte, error)
	Now   func() time.Time

	images   *images
	reading  chan struct{}
	packages *inflight.Limit[string] // by inflight.OwnerOf the user
}

// New returns a handler.
func New(store *scope.Store, files Files) *Handler {
	return &Handler{Store: store, Files: files, Now: time.Now, images: &images{store, files},
		reading: make(chan struct{}, readers), packages: inflight.NewByUser(maxPackages, maxOfUser)}
}

const multipartForm = "multipart/form-data"

// Routes adds the routes.
func (h *Handler) Routes(ws *restful.WebService) {
	(&categories{h.Store}).routes(ws)
	for _, at := range []scope.Variant{scope.Platform, scope.InWorkspace} {
		h.appRoutes(ws, at)
		h.versionRoutes(ws, at)
		h.images.routes(ws, at)
	}
	ws.Route(ws.POST("/apps/{app}/action").Consumes(restful.MIME_JSON).To(handle(h.appAction)).Operation("actOnApp").
		Doc("Activate or suspend an application, with its versions").Reads(action{}).Param(ws.PathParameter("app", "name of the application")))
	ws.Route(scope.Listing(ws, ws.GET("/reviews").To(web.Handle(h.reviews)).Operation("listAppReviews").
		Doc("Uploaded versions of all applications: filtered, sorted, one page")))
}

// handle returns a function for a write that consists of several requests, so that it can't be a dry run.
func handle(h web.Handler) restful.RouteFunction { return web.Handle(web.RefuseDryRun(h)) }

func (h *Handler) appRoutes(ws *restful.WebService, at scope.Variant) {
	app := ws.PathParameter("app", "name of the application")
	validate := ws.QueryParameter("validate", "true: read the package, say what it is, and write nothing").DataType("boolean")
	ws.Route(at.Document(ws, scope.Listing(ws, ws.GET(at.Path+"/apps").To(web.Handle(h.apps)).Operation("list"+at.ID+"Apps").
		Doc("Applications: filtered, sorted, one page"))))
	for _, b := range []*restful.RouteBuilder{
		ws.POST(at.Path+"/apps").Consumes(restful.MIME_JSON, multipartForm).To(handle(h.bounded(h.createApp))).
			Operation("create" + at.ID + "App").
			Doc("Create an application with its first version: a form with the package as file and the rest as jsonData, or JSON").
			Reads(appRequest{}).Writes(appInfo{}).Param(validate),
		ws.POST(at.Path+"/apps/{app}").Consumes(restful.MIME_JSON, multipartForm).To(handle(h.bounded(h.patchApp))).
			Operation("update" + at.ID + "App").
			Doc("The same as PATCH").Reads(appRequest{}).Param(app),
		ws.PATCH(at.Path+"/apps/{app}").Consumes(restful.MIME_JSON, mergePatch).To(handle(h.bounded(h.patchApp))).
			Operation("patch" + at.ID + "App").
			Doc("Change what an application says of itself: what is absent stays, what is empty is cleared").Reads(appRequest{}).Param(app),
		ws.GET(at.Path + "/apps/{app}").To(web.Handle(h.app)).Operation("get" + at.ID + "App").
			Doc("One application").Writes(v2.Application{}).Param(app),
		ws.DELETE(at.Path + "/apps/{app}").To(web.Handle(h.deleteApp)).Operation("delete" + at.ID + "App").
			Doc("Delete an application that is not active, with its versions and files").Param(app),
	} {
		ws.Route(at.Document(ws, b))
	}
}

const mergePatch = "application/merge-patch+json"

// success is the answer to a write that returns nothing.
var success = map[string]string{"message": "success"}

func isNotFound(err error) bool { return apierrors.IsNotFound(err) }

// now returns the present time as objects have it.
func (h *Handler) now() metav1.Time { return metav1.NewTime(h.Now().Truncate(time.Second)) }

// conflict returns a 409 about an object.
func conflict[O scope.Object](k scope.Kind[O], name, why string) error {
	return apierrors.NewConflict(k.Resource(), name, errors.New(why))
}
