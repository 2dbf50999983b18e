package dynamic

import (
	"io"
	"strings"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// LegacyVersion are kinds that clients request in a version of their group which no longer has them.
type LegacyVersion struct {
	Group, Version string
	// Now is the present version.
	Now string
	// Cluster are the plurals of the cluster-scoped kinds, Namespaced of the namespaced ones. Those in Gathered, which are Namespaced
	// too, can be listed in a workspace, over its namespaces.
	Cluster, Namespaced, Gathered []string
}

// MountLegacyVersion adds the routes of o to the WebService of its older version. Objects are answered in the present version; the
// apiVersion of a body is ignored, since older clients send that of another group.
func MountLegacyVersion(ws *restful.WebService, o LegacyVersion, h *Handler) {
	for _, at := range [...]struct {
		path    string
		plurals []string
	}{{"", o.Cluster}, {"/namespaces/{namespace}", o.Namespaced}} {
		for _, plural := range at.plurals {
			all := at.path + "/" + plural
			id := "Older" + strings.ToUpper(plural[:1]) + plural[1:]
			for _, route := range []struct {
				*restful.RouteBuilder
				id      string
				handle  web.Handler
				watches bool
			}{
				{ws.GET(all), "list" + id, h.List, true}, {ws.POST(all), "create" + id, h.write, false},
				{ws.GET(all + "/{name}"), "get" + id, h.Get, false}, {ws.PUT(all + "/{name}"), "replace" + id, h.write, false},
				{ws.PATCH(all + "/{name}"), "patch" + id, h.write, false}, {ws.DELETE(all + "/{name}"), "delete" + id, h.write, false},
			} {
				ws.Route(route.To(web.Handle(o.renew(route.handle))).Metadata(web.MetadataWatch, route.watches).
					Operation(route.id).Doc("What " + o.Now + " has of " + plural).
					Param(ws.PathParameter("namespace", "name of the namespace")).Param(ws.PathParameter("name", "name of the object")))
			}
		}
	}
	for _, plural := range o.Gathered {
		ws.Route(ws.GET("/workspaces/{workspace}/"+plural).To(web.Handle(o.renew(h.List))).Metadata(web.MetadataWatch, true).
			Operation("listOlderWorkspace" + strings.ToUpper(plural[:1]) + plural[1:]).
			Doc("What " + o.Now + " has of " + plural + " in the namespaces of a workspace").
			Param(ws.PathParameter("workspace", "name of the workspace")))
	}
}

// renew turns a request for the older version into the same one for the present version. The decision about the older one holds for
// it: roles name no versions.
func (o LegacyVersion) renew(next web.Handler) web.Handler {
	return func(r *restful.Request) (any, error) {
		ctx := r.Request.Context()
		info := request.InfoFrom(ctx)
		root := "/kapis/" + o.Group + "/"
		now := *info
		now.APIVersion, now.Path = o.Now, root+o.Now+"/"+strings.TrimPrefix(info.Path, root+o.Version+"/")
		in := r.Request.WithContext(request.WithInfo(ctx, &now))
		if now.Verb == "create" || now.Verb == "update" {
			text, _, err := readBody(in, typeJSON, typeYAML)
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(text, "{") {
				text = with(text, quote(o.Group+"/"+o.Now), "apiVersion")
			}
			in.Body, in.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
			in.Header = in.Header.Clone()
			in.Header.Set("Content-Type", typeJSON)
		}
		again := restful.NewRequest(in)
		for name, value := range r.PathParameters() {
			again.PathParameters()[name] = value
		}
		return next(again)
	}
}
