// Package openapi serves the OpenAPI documents: kube-apiserver's together with this server's own.
package openapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Options configure New.
type Options struct {
	// Config reaches kube-apiserver with this server's own identity, which may read the documents as every authenticated user may.
	Config *rest.Config
	// WebServices are the routes that this server's own documents are generated from.
	WebServices []*restful.WebService
	// Extensions returns the groups and versions that extensions have, nil for none. It is called for each question.
	Extensions func() []Extension
	// Title and Version describe this server in its documents.
	Title, Version string
	// FreshFor is how long a document is served without asking kube-apiserver whether it changed; 1 s if it is zero. Without readers,
	// nothing is requested.
	FreshFor time.Duration
	// Now returns the time; time.Now if it is nil.
	Now func() time.Time
}

// Handler answers /openapi/v2, /openapi/v3 and the paths below /openapi/v3.
type Handler struct {
	v2         map[format]*fresh[*document]
	v3         *v3
	extensions *extensions
}

// New returns the handler. The documents of this server are generated, and those of kube-apiserver fetched, when somebody asks: they take a
// seventh of the processor time of a start.
func New(o Options) (*Handler, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FreshFor <= 0 {
		o.FreshFor = time.Second
	}
	up, err := newUpstream(o.Config)
	if err != nil {
		return nil, err
	}
	added := newExtensions(o.Extensions, sync.OnceValues(o.generate), o.Now)
	h := &Handler{v2: map[format]*fresh[*document]{}, v3: newV3(up, added.current, o), extensions: added}
	for _, f := range []format{asJSON, asProtobuf} {
		h.v2[f] = &fresh[*document]{load: loadV2(up, added.current, f), now: o.Now, keep: o.FreshFor}
	}
	return h, nil
}

// Routes returns the routes that the backends of extensions describe, by group and version, and what is another value once they change. It
// asks backends as rarely as readers of documents do, and waits for a new one a second at most.
func (h *Handler) Routes(ctx context.Context) (all map[schema.GroupVersion][]extension.Route, of any) {
	return h.extensions.routes(ctx)
}

// generate describes the routes; an error names the route or type that can't be described.
func (o Options) generate() (*documents, error) {
	own, err := generate(o.WebServices, o.Title, o.Version)
	if err != nil {
		err = fmt.Errorf("generate the OpenAPI documents: %w", err)
		klog.ErrorS(err, "There are no OpenAPI documents")
	}
	return own, err
}

// ServeHTTP answers GET and HEAD.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		web.WriteError(w, r, status.Errorf(http.StatusMethodNotAllowed, "OpenAPI documents can be read only"))
		return
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case path == "/openapi/v2":
		h.serveV2(w, r)
	case path == "/openapi/v3":
		h.v3.serveIndex(w, r)
	case strings.HasPrefix(path, "/openapi/v3/"):
		h.v3.serve(w, r, strings.TrimPrefix(path, "/openapi/v3/"))
	default:
		web.WriteError(w, r, notFound(path))
	}
}

func (h *Handler) serveV2(w http.ResponseWriter, r *http.Request) {
	f, ok := accepted(r, "v2")
	if !ok {
		web.WriteError(w, r, errNotAcceptable)
		return
	}
	doc, err := h.v2[f].current(r.Context())
	if err != nil {
		web.WriteError(w, r, unavailable(err))
		return
	}
	serveDocument(w, r, doc)
}

// format is how a document is written.
type format uint8

const (
	asJSON format = iota
	asProtobuf
)

// mediaType returns kube-apiserver's media type for f in version v2 or v3.
func (f format) mediaType(version string) string {
	if f == asJSON {
		return "application/json"
	}
	return "application/com.github.proto-openapi.spec." + version + ".v1.0+protobuf"
}

// accepted returns the format that r prefers. Older clients ask for it with an @ in the name, which no media type may have.
func accepted(r *http.Request, version string) (format, bool) {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return asJSON, true
	}
	protobuf := "com.github.proto-openapi.spec." + version + ".v1.0+protobuf"
	older := "com.github.proto-openapi.spec." + version + "@v1.0+protobuf"
	for _, clause := range goautoneg.ParseAccept(accept) {
		if clause.Q == 0 || clause.Type != "application" && clause.Type != "*" {
			continue
		}
		switch clause.SubType {
		case "json", "*":
			return asJSON, true
		case protobuf, older:
			return asProtobuf, true
		}
	}
	return asJSON, false
}

// document is one document in one format.
type document struct {
	body        []byte
	contentType string
	etag        string // quoted
	modified    time.Time
	upstream    string     // the ETag of kube-apiserver's part
	added       *documents // the other part
}

// serveDocument writes d, or 304 if the client has it.
func serveDocument(w http.ResponseWriter, r *http.Request, d *document) {
	h := w.Header()
	h.Set("Content-Type", d.contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Etag", d.etag)
	h.Set("Vary", "Accept")
	defer web.WriteDeadline(w, r, int64(len(d.body)))()
	http.ServeContent(w, r, "", d.modified, bytes.NewReader(d.body))
}

var errNotAcceptable = status.Errorf(http.StatusNotAcceptable, "OpenAPI documents are served as application/json and as protobuf")

func notFound(what string) error {
	return status.Errorf(http.StatusNotFound, "there is no OpenAPI document %q", what)
}

// unavailable returns the error if kube-apiserver's part can't be had now. An error that is a Status says more.
func unavailable(err error) error {
	var s apierrors.APIStatus
	if errors.As(err, &s) {
		return err
	}
	e := apierrors.NewServiceUnavailable("kube-apiserver's OpenAPI document can't be had now: try again shortly")
	e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return e
}
