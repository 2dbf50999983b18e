package legacyrole

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/roletemplate"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// selectsTemplates reports whether a query selects roles that are templates, and replaces that by the selection of templates of a scope.
func selectsTemplates(values url.Values, scope string) bool {
	selects := false
	for _, param := range []string{"label", "labelSelector"} {
		terms := strings.Split(values.Get(param), ",")
		for i, term := range terms {
			key, value, _ := strings.Cut(term, "=")
			if strings.TrimSpace(key) == iamv1beta1.LabelRoleTemplate && strings.TrimSpace(strings.TrimPrefix(value, "=")) == "true" {
				terms[i], selects = iamv1beta1.LabelScope+"="+scope, true
			}
		}
		if values.Has(param) {
			values.Set(param, strings.Join(terms, ","))
		}
	}
	return selects
}

// templates lists the templates of a scope as roles. It needs the right to list templates, which everyone who is logged in has by default.
func (h *Handler) templates(r *restful.Request, k Kind, values url.Values) (any, error) {
	ctx := r.Request.Context()
	gvr := wire.Resource("roletemplates")
	if request.InfoFrom(ctx).Verb != "list" || slices.Contains(values["view"], "live") {
		return nil, apierrors.NewMethodNotSupported(gvr.GroupResource(), "watch")
	}
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "/kapis/"+wire.Group+"/"+wire.Version+"/"+gvr.Resource, nil)
	if err != nil {
		return nil, err
	}
	if ask, err = authz.Permit(h.May, ask); err != nil {
		return nil, err
	}
	values.Del("managedFields")
	q, err := query.Parse(values)
	if err != nil {
		return nil, err
	}
	kind, err := h.Resources.Catalog().Resolve(ctx, gvr)
	if err != nil {
		return nil, err
	}
	page, err := h.Resources.List(ask.Context(), kind, plan.Scope{}, q)
	if err != nil {
		return nil, err
	}
	modules, err := roletemplate.Modules(ctx, h.Caches)
	if err != nil {
		return nil, err
	}
	items := make([]roletemplate.OlderRole, 0, page.Len())
	for i := range page.Len() {
		items = append(items, roletemplate.AsRole(page.Object(i).String(), k.Scope, modules))
	}
	return wire.Private{Value: struct {
		Items      []roletemplate.OlderRole `json:"items"`
		TotalItems int                      `json:"totalItems"`
	}{items, page.Total}}, nil
}
