package aggregated

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	queryv1alpha1 "kapis.dev/ks-apiserver/pkg/api/query/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/boundedyaml"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// longestQuery bounds the body of a Query, in bytes.
	longestQuery = 64 << 10
	// queryLimit is the limit of a Query that names none, and mostOfQuery the highest: the answer is one object, and is in memory as a whole.
	queryLimit  = "500"
	mostOfQuery = 5000
	// maxAnswer bounds the bytes of one page, and maxAnswers those of all that are being made or sent: each is in memory several times.
	maxAnswer, maxAnswers = 16 << 20, 64 << 20
)

// create answers a Query with a page in its status.
func (h *Handler) create(r *http.Request, u user.Info) (any, error) {
	q, err := readQuery(r)
	if err != nil {
		return nil, err
	}
	values, err := valuesOf(q.Spec)
	if err != nil {
		return nil, err
	}
	a := &access{user: u, verb: "list", namespace: values.Get("namespace")}
	name := values.Get("resource")
	if name == "" {
		return nil, query.Invalid("spec.resource", name, "the plural of a kind, as discovery names it")
	}
	values.Del("resource")
	values.Del("namespace")
	if a.kind, err = h.kind(r.Context(), name); err != nil {
		return nil, err
	}
	if values, err = parameters(values, a); err != nil {
		return nil, err
	}
	if !values.Has("limit") {
		values.Set("limit", queryLimit)
	}
	parsed, err := query.Parse(values)
	if err != nil {
		return nil, err
	}
	if name := h.Resources.UnknownParameter(a.kind, parsed); name != "" {
		return nil, query.Invalid("spec."+name, values.Get(name), "a parameter of docs/queries.md that the kind has")
	}
	if parsed.Limit == query.All || parsed.Limit > mostOfQuery {
		return nil, query.Invalid("spec.limit", values.Get("limit"), fmt.Sprintf("at most %d", mostOfQuery))
	}
	if err := h.authorize(r.Context(), a); err != nil {
		return nil, err
	}
	p, err := h.Resources.List(r.Context(), a.kind, h.scope(a), parsed)
	if err != nil {
		return nil, err
	}
	reserved := h.answers.Reserve(r.Context())
	written := recorder{reserved: &reserved}
	inner := &http.Request{Method: http.MethodGet, URL: r.URL, Header: http.Header{}}
	p.Native("").Respond(&written, inner.WithContext(web.WithoutConnection(r.Context())))
	if written.err != nil || written.code >= http.StatusBadRequest {
		reserved.Release()
		return &written, written.err
	}
	var list struct {
		Metadata   struct{ ResourceVersion string }
		TotalItems int
		Facets     json.RawMessage
		Items      json.RawMessage
	}
	if err := json.Unmarshal(written.body.Bytes(), &list); err != nil {
		reserved.Release()
		return nil, fmt.Errorf("read the page of a Query: %w", err)
	}
	q.Status = &queryv1alpha1.QueryStatus{ResourceVersion: list.Metadata.ResourceVersion, TotalItems: list.TotalItems, Partial: p.Partial,
		Facets: list.Facets, Items: list.Items}
	return created{q, &reserved}, nil
}

// readQuery reads the body, in JSON or YAML.
func readQuery(r *http.Request) (*queryv1alpha1.Query, error) {
	body, err := web.ReadBody(r, longestQuery)
	if err != nil {
		return nil, err
	}
	if strings.Contains(r.Header.Get("Content-Type"), "yaml") {
		if body, err = boundedyaml.ToJSONStrict(body); err != nil {
			return nil, status.BadRequestf("the body is no YAML: %v", err)
		}
	}
	q := &queryv1alpha1.Query{}
	if err := json.Unmarshal(body, q); err != nil {
		return nil, status.BadRequestf("the body is no Query: %v", err)
	}
	if q.APIVersion != queryv1alpha1.APIVersion || q.Kind != "Query" {
		return nil, status.BadRequestf("the body must have apiVersion %s and kind Query, it has apiVersion %.100q and kind %.100q",
			queryv1alpha1.APIVersion, q.APIVersion, q.Kind)
	}
	q.Status = nil
	return q, nil
}

// valuesOf returns the members of a spec as the parameters of a path. A list is its elements, joined by commas.
func valuesOf(spec map[string]any) (url.Values, error) {
	out := url.Values{}
	for name, v := range spec {
		switch name {
		case "watch", "view", "continue":
			return nil, query.Invalid("spec."+name, fmt.Sprint(v), "none: a Query is answered once")
		}
		text, err := textOf(v)
		if err != nil {
			return nil, query.Invalid("spec."+name, fmt.Sprintf("%.100v", v), "a text, a number, true, false, or a list of texts")
		}
		out.Set(name, text)
	}
	return out, nil
}

func textOf(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			text, ok := one.(string)
			if !ok {
				return "", status.BadRequestf("no text")
			}
			parts[i] = text
		}
		return strings.Join(parts, ","), nil
	}
	return "", status.BadRequestf("no value")
}

// created is an object that is answered with 201, and what is reserved for that.
type created struct {
	v        any
	reserved *httpcache.Reservation
}

// Respond implements web.Responder.
func (c created) Respond(w http.ResponseWriter, r *http.Request) {
	defer c.reserved.Release()
	text, err := json.Marshal(c.v)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusCreated)
	httpcache.Write(w, r, text)
}

// recorder is an answer in memory, whose bytes are counted as they come.
type recorder struct {
	header   http.Header
	code     int
	body     bytes.Buffer
	reserved *httpcache.Reservation
	err      error // says why the answer has not all of its bytes
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(code int) { r.code = code }

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.err == nil {
		r.err = r.reserved.Add(int64(len(b)))
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.body.Write(b)
}

// Respond implements web.Responder.
func (r *recorder) Respond(w http.ResponseWriter, _ *http.Request) {
	for name, values := range r.header {
		w.Header()[name] = values
	}
	w.WriteHeader(r.code)
	_, _ = w.Write(r.body.Bytes())
}
