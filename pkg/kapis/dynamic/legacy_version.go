package dynamic

import (
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// LegacyVersion are kinds that clients request in a version of their group which no longer has them, or in the form of an older release.
type LegacyVersion struct {
	Group, Version string
	// Now is the present version.
	Now string
	// Cluster are the plurals of the cluster-scoped kinds, Namespaced of the namespaced ones.
	Cluster, Namespaced []string
}

// MountLegacyVersion adds the routes of o to the WebService of its older version. Objects are answered in the present version; the
// apiVersion of a body is ignored, since older clients send that of another group.
func MountLegacyVersion(ws *restful.WebService, o LegacyVersion, h *Handler) {
	for _, at := range [...]struct {
		path    string
		plurals []string
	}{{"", o.Cluster}, {"/namespaces/{namespace}", o.Namespaced}} {
		for _, plural := range at.plurals {
			o.Mount(ws, at.path, plural, LegacyHandlers{List: o.Renew(h, h.List), Get: o.Renew(h, h.Get), Write: o.Renew(h, h.write)})
		}
	}
}

// LegacyHandlers answer the requests for one kind. Create is nil where Write answers creations too.
type LegacyHandlers struct{ List, Get, Create, Write web.Handler }

// Mount adds the routes of one kind, whose paths begin with prefix.
func (o LegacyVersion) Mount(ws *restful.WebService, prefix, plural string, h LegacyHandlers) {
	if h.Create == nil {
		h.Create = h.Write
	}
	all := prefix + "/" + plural
	id := "Older" + strings.ToUpper(plural[:1]) + plural[1:]
	for _, route := range []struct {
		*restful.RouteBuilder
		id     string
		handle web.Handler
		lists  bool
	}{
		{ws.GET(all), "list" + id, h.List, true}, {ws.POST(all), "create" + id, h.Create, false},
		{ws.GET(all + "/{name}"), "get" + id, h.Get, false}, {ws.PUT(all + "/{name}"), "replace" + id, h.Write, false},
		{ws.PATCH(all + "/{name}"), "patch" + id, h.Write, false}, {ws.DELETE(all + "/{name}"), "delete" + id, h.Write, false},
	} {
		route.To(web.Handle(route.handle)).Metadata(web.MetadataWatch, route.lists).Metadata(web.MetadataPartialList, route.lists).
			Operation(route.id).Doc("What " + o.Now + " has of " + plural).Param(ws.PathParameter("name", "name of the object"))
		for _, name := range []string{"workspace", "namespace"} {
			if strings.Contains(prefix, "{"+name+"}") {
				route.Param(ws.PathParameter(name, "name of the "+name))
			}
		}
		ws.Route(route.RouteBuilder)
	}
}

// Renew turns a request for the older version into the same one for the present version. The decision about the older one holds for
// it: roles name no versions.
func (o LegacyVersion) Renew(h *Handler, next web.Handler) web.Handler {
	return func(r *restful.Request) (any, error) {
		ctx := r.Request.Context()
		info := request.InfoFrom(ctx)
		root := "/kapis/" + o.Group + "/"
		now := *info
		now.APIVersion, now.Path = o.Now, root+o.Now+"/"+strings.TrimPrefix(info.Path, root+o.Version+"/")
		in := r.Request.WithContext(request.WithInfo(ctx, &now))
		var err error
		switch now.Verb {
		case "create", "update":
			err = o.renewObject(in, h, &now)
		case "patch":
			err = o.renewPatch(in)
		}
		if err != nil {
			return nil, err
		}
		return next(web.WithRequest(r, in))
	}
}

// renewObject sets the apiVersion of a body, and its kind if it has none: the routes of older releases needed neither.
func (o LegacyVersion) renewObject(in *http.Request, h *Handler, now *request.Info) error {
	text, _, err := readBody(in, typeJSON, typeYAML)
	if err != nil {
		return err
	}
	if strings.HasPrefix(text, "{") {
		text = with(text, quote(o.Group+"/"+o.Now), "apiVersion")
		if rawjson.Get(text, "kind") == "" && now.Subresource == "" {
			gvr := schema.GroupVersionResource{Group: now.APIGroup, Version: now.APIVersion, Resource: now.Resource}
			kind, err := h.Resources.Catalog().Resolve(in.Context(), gvr)
			if err != nil {
				return err
			}
			text = with(text, quote(kind.Kind), "kind")
		}
	}
	setBody(in, text, typeJSON)
	return nil
}

// renewPatch sets the apiVersion of a patch that has one.
func (o LegacyVersion) renewPatch(in *http.Request) error {
	text, mediaType, err := readBody(in, typeMergePatch, typeJSON, typeJSONPatch, typeStrategicPatch, typeApplyPatch)
	if err != nil {
		return err
	}
	if strings.HasPrefix(text, "{") && rawjson.Get(text, "apiVersion") != "" {
		text = with(text, quote(o.Group+"/"+o.Now), "apiVersion")
	}
	setBody(in, text, mediaType)
	return nil
}

func setBody(in *http.Request, text, mediaType string) {
	web.SetBody(in, text)
	in.Header = in.Header.Clone()
	in.Header.Set("Content-Type", mediaType)
}
