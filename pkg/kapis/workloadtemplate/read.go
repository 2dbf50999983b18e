package workloadtemplate

import (
	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// subset is the Secrets that are templates.
var subset = &plan.Subset{
	Name:  plural,
	Label: query.Requirement{Key: label, Op: query.In, Values: []string{labelValue}},
	Holds: func(r *index.Record) bool { return rawjson.GetText(r.JSON.String(), "type") == secretType },
}

// scope returns the scope of a request: the templates at its path that the caller may see.
func scope(r *restful.Request) plan.Scope {
	d := authz.DecisionFrom(r.Request.Context())
	s := plan.Scope{Only: subset, PartialList: d.PartialList(),
		Namespace: r.PathParameter("namespace"), Workspace: r.PathParameter("workspace")}
	s.Data, s.KeyCount = d.Allowed() && s.Namespace != "", d.Allowed() && s.Namespace == ""
	return s
}

func (h *V1alpha1) list(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	q, err := query.Parse(r.Request.URL.Query())
	if err != nil {
		return nil, err
	}
	kind, err := h.Resources.Catalog().Resolve(ctx, secrets)
	if err != nil {
		return nil, err
	}
	return h.Resources.Answer(r.Request, &resource.Listing{
		Kind: kind, Scope: scope(r), Query: q, Watch: request.InfoFrom(ctx).Verb == "watch",
		Streams: h.Streams, AsCaller: h.AsCaller, Form: resource.Items,
	})
}

func (h *V1alpha1) get(r *restful.Request) (any, error) {
	ctx, of, name := r.Request.Context(), scope(r), r.PathParameter("workloadtemplate")
	kind, err := h.Resources.Catalog().Resolve(ctx, secrets)
	if err != nil {
		return nil, err
	}
	found, err := h.Resources.Get(ctx, kind, of, name)
	if err != nil {
		return nil, named(err, name)
	}
	return h.Resources.Tables.Answer(r.Request, kind, of, found)
}
