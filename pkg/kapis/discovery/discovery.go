// Package discovery serves the discovery documents of /kapis and /kapi, in the forms that kube-apiserver has for /apis and /api
// (Kubernetes API concepts, "Unaggregated discovery"): which groups, versions and resources there are, and what can be done with them.
package discovery

import (
	"context"
	"net/http"
	"strings"
	"sync"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	rootGroups = "/kapis"
	rootCore   = "/kapi"
)

// Options are what a Handler needs.
type Options struct {
	// Catalog knows the kinds that kube-apiserver serves, all of which have routes here.
	Catalog *store.Catalog
	// Services are the routes of this server. Those of a group and version under /kapis are resources of it.
	Services []*restful.WebService
	// ByName is the group and version whose routes serve every kind by its plural name alone.
	ByName schema.GroupVersion
	// Extensions returns the routes that extensions have, and what is another value once they change; nil for none.
	Extensions func(context.Context) (routes map[schema.GroupVersion][]extension.Route, of any)
}

// Handler answers discovery from memory. The documents are made when the kinds have changed, and not for a request.
type Handler struct {
	Options
	own routedResources

	mu         sync.Mutex
	of         *store.Served // what documents were made of
	extensions any           // and this
	documents  map[string]*web.Document
}

// New returns a Handler. The error names a route that can't be read.
func New(o Options) (*Handler, error) {
	own, err := ownResources(o.Services)
	return &Handler{Options: o, own: own}, err
}

// IsPath reports whether a path is one of discovery: /kapis, /kapis/{group}, /kapis/{group}/{version}, /kapi or /kapi/{version}.
func IsPath(path string) bool {
	path = strings.TrimSuffix(path, "/")
	if path == rootGroups || path == rootCore {
		return true
	}
	if rest, ok := strings.CutPrefix(path, rootGroups+"/"); ok {
		return rest != "version" && strings.Count(rest, "/") < 2 // /kapis/version is a route of its own
	}
	rest, ok := strings.CutPrefix(path, rootCore+"/")
	return ok && !strings.Contains(rest, "/")
}

// ServeHTTP answers one path: 404 for a group or version that is not served, 503 while kube-apiserver has not told which there are.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, err := h.document(r)
	web.Write(w, r, d, err)
}

func (h *Handler) document(r *http.Request) (*web.Document, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{}, strings.ToLower(r.Method))
	}
	served := h.Catalog.Served()
	if served == nil {
		return nil, status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable, "kube-apiserver has not yet told which kinds it serves"))
	}
	documents, err := h.current(r.Context(), served)
	if err != nil {
		return nil, err
	}
	if d := documents[strings.TrimSuffix(r.URL.Path, "/")]; d != nil {
		return d, nil
	}
	return nil, status.NoResource()
}

// current returns the documents of what is served.
func (h *Handler) current(ctx context.Context, served *store.Served) (map[string]*web.Document, error) {
	var routes map[schema.GroupVersion][]extension.Route
	var extensions any
	if h.Extensions != nil {
		routes, extensions = h.Extensions(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == served && h.extensions == extensions {
		return h.documents, nil
	}
	documents, err := h.build(served, extensionResources(routes))
	if err != nil {
		return nil, err
	}
	h.of, h.extensions, h.documents = served, extensions, documents
	return documents, nil
}
