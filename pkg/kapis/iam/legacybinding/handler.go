// Package legacybinding serves the bindings and groups of iam.kubesphere.io/v1alpha2 as clients of release 3.4 write and read them: several
// bindings in one request, arrays in place of lists, and groups whose name is unique in the workspace. Each write is one of today's
// handler, which makes the checks.
package legacybinding

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Handler translates requests for bindings and groups.
type Handler struct {
	Users  *iam.UserIndex
	Caches binding.Caches
}

// errLong is the error of an answer that is longer than an array may be.
var errLong = errors.New("the answer is too long")

// maxArray bounds an answer that is written at once, in bytes.
const maxArray = 16 << 20

// captured is an answer that is not sent yet. It is a web.Responder, which sends it.
type captured struct {
	code   int
	header http.Header
	body   []byte
}

// Header implements http.ResponseWriter.
func (c *captured) Header() http.Header { return c.header }

// WriteHeader implements http.ResponseWriter.
func (c *captured) WriteHeader(code int) { c.code = code }

// Write implements http.ResponseWriter.
func (c *captured) Write(b []byte) (int, error) {
	if len(c.body)+len(b) > maxArray {
		return 0, errLong
	}
	c.body = append(c.body, b...)
	return len(b), nil
}

// Respond implements web.Responder.
func (c *captured) Respond(w http.ResponseWriter, _ *http.Request) {
	for name, values := range c.header {
		w.Header()[name] = values
	}
	w.WriteHeader(c.code)
	_, _ = w.Write(c.body) // the client is gone
}

// capture returns the answer of a handler. A Status is its error.
func capture(r *restful.Request, today web.Handler) (*captured, error) {
	v, err := today(r)
	if err != nil {
		return nil, err
	}
	c := &captured{code: http.StatusOK, header: http.Header{}}
	web.Write(c, r.Request, v, nil)
	if c.code < http.StatusMultipleChoices {
		return c, nil
	}
	s := &apierrors.StatusError{}
	if err := json.Unmarshal(c.body, &s.ErrStatus); err != nil || s.ErrStatus.Code == 0 {
		return nil, status.Errorf(http.StatusBadGateway, "a write was answered with %d", c.code)
	}
	return nil, s
}

// with returns a request like r with another body, and with the parameter dryRun=All if that is asked for.
func with(r *restful.Request, body string, dryRun bool) *restful.Request {
	in := r.Request.WithContext(r.Request.Context())
	web.SetBody(in, body)
	if dryRun {
		u := *in.URL
		query := u.Query()
		query.Set("dryRun", "All")
		u.RawQuery, in.URL = query.Encode(), &u
	}
	return web.WithRequest(r, in)
}

// await waits until the cache of the requested kind has what an answer to a write says, so that the next request sees it. A cache that
// lags does not fail the write.
func (h *Handler) await(ctx context.Context, answer string) {
	if v := rawjson.GetText(answer, "metadata", "resourceVersion"); v != "" {
		_, _ = h.Caches.SnapshotAt(ctx, wire.Resource(request.InfoFrom(ctx).Resource), v)
	}
}

// Array returns a handler that answers a list as a bare array. Streams are those of today.
func Array(today web.Handler) web.Handler {
	return func(r *restful.Request) (any, error) {
		if request.InfoFrom(r.Request.Context()).Verb != "list" || slices.Contains(r.Request.URL.Query()["view"], "live") {
			return today(r)
		}
		in := r.Request.WithContext(r.Request.Context())
		in.Header = in.Header.Clone()
		in.Header.Set("Accept", restful.MIME_JSON)
		for _, name := range []string{"Accept-Encoding", "If-None-Match"} {
			in.Header.Del(name)
		}
		c, err := capture(web.WithRequest(r, in), today)
		if err != nil {
			return nil, err
		}
		items := rawjson.Get(string(c.body), "items")
		if items == "" {
			return nil, status.Errorf(http.StatusRequestEntityTooLarge, "there are more than an array can have: ask for pages by limit and page")
		}
		return wire.Private{Value: json.RawMessage(items)}, nil
	}
}

// CreateGroup returns a handler that creates a group, unless the workspace has one of the same generateName: that is what older clients
// call a group.
func (h *Handler) CreateGroup(today web.Handler) web.Handler {
	return func(r *restful.Request) (any, error) {
		raw, err := web.ReadBody(r.Request, maxBindings)
		if err != nil {
			return nil, err
		}
		ctx, text := r.Request.Context(), string(raw)
		if name := rawjson.GetText(text, "metadata", "generateName"); name != "" && rawjson.GetText(text, "metadata", "name") == "" {
			taken, err := h.isTaken(ctx, r.PathParameter("workspace"), name)
			if err != nil {
				return nil, err
			}
			if taken {
				return nil, apierrors.NewAlreadyExists(wire.Resource("groups").GroupResource(), name)
			}
		}
		c, err := capture(with(r, text, false), today)
		if err != nil {
			return nil, err
		}
		if !r.Request.URL.Query().Has("dryRun") {
			h.await(ctx, string(c.body))
		}
		return c, nil
	}
}

// isTaken reports whether a group of a workspace has a generateName.
func (h *Handler) isTaken(ctx context.Context, workspace, name string) (bool, error) {
	snap, err := h.Caches.Snapshot(ctx, wire.Resource("groups"))
	if err != nil {
		return false, err
	}
	taken := false
	snap.ByCreated(index.HasLabel(plan.WorkspaceLabel, workspace)).Walk(0, false, func(ref *index.Ref) bool {
		taken = snap.Record(ref).JSON.GetText("metadata", "generateName") == name
		return !taken
	})
	return taken, nil
}
