// Package loginrecord lists the records of a user's logins.
package loginrecord

import (
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/target"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Handler serves the records of a user's logins.
type Handler struct {
	Target    *target.Users
	Resources *resource.Service
}

// Mount adds the route; older is put into the name of its operation.
func (h *Handler) Mount(ws *restful.WebService, older string) {
	ws.Route(ws.GET("/users/{user}/loginrecords").To(web.Handle(h.list)).Operation("list" + older + "UserLoginRecords").
		Doc("The logins of a user, and what failed").Param(ws.PathParameter("user", "name of the user")))
}

// noRecord is a selector that selects nothing.
const noRecord = iamv1beta1.LabelUserReference + ",!" + iamv1beta1.LabelUserReference

// list lists the records of one user, for any label selector.
func (h *Handler) list(r *restful.Request) (any, error) {
	u, err := h.Target.Named(r)
	if err != nil {
		return nil, err
	}
	values := r.Request.URL.Query()
	for name := range values {
		if strings.EqualFold(name, "labelSelector") || strings.EqualFold(name, "watch") {
			delete(values, name)
		}
	}
	selector := iamv1beta1.LabelUserReference + "=" + u.Name
	if len(validation.IsValidLabelValue(u.Name)) > 0 { // a user of before names were bounded, whose name is on no record
		selector = noRecord
	}
	values.Set("labelSelector", selector)
	q, err := query.Parse(values)
	if err != nil {
		return nil, err
	}
	ctx := r.Request.Context()
	kind, err := h.Resources.Catalog().Resolve(ctx, schema.GroupVersionResource{Group: wire.Group, Version: wire.Version,
		Resource: "loginrecords"})
	if err != nil {
		return nil, err
	}
	page, err := h.Resources.List(ctx, kind, plan.Scope{}, q)
	if err != nil {
		return nil, err
	}
	return page.List(), nil
}
