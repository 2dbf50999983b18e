package filter

import (
	"bytes"
	"compress/gzip"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	queryv1alpha1 "kapis.dev/ks-apiserver/pkg/api/query/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/audit/bodyredaction"
	"kapis.dev/ks-apiserver/pkg/request"
)

// maxRecorded is how many bytes of a body are recorded; of a longer one none are.
const maxRecorded = 64 << 10

// unrecordedBodies are the sub-resources whose bodies are no objects, or credentials.
var unrecordedBodies = []string{
	"log", "exec", "attach", "portforward", "proxy", "file", "kubectl", "kubeconfig", "password", "apikeys", "authkey", "token",
}

// hasBodies reports whether the bodies of a request may be recorded: it is for objects of the API, and no stream, file or login.
func hasBodies(i *request.Info, rawQuery string) bool {
	return i != nil && i.IsResource && !i.Upgrade && !lasting(i, rawQuery) && !slices.Contains(unrecordedBodies, i.Subresource) &&
		i.APIGroup != "terminal.kubesphere.io"
}

// recordedBodies are the bodies of a request and its answer, as they pass.
type recordedBodies struct {
	request, response recordedBody
	answers           bool     // the answer is recorded, too
	kinds             []string // the resources that the request is for
}

// recordedBody retains what is written to it, up to maxRecorded bytes. A handler may read a request in another goroutine.
type recordedBody struct {
	mu      sync.Mutex
	text    []byte
	tooLong bool
}

// Write implements io.Writer. It never fails.
func (b *recordedBody) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tooLong = b.tooLong || len(b.text)+len(p) > maxRecorded; b.tooLong {
		b.text = nil
	} else {
		b.text = append(b.text, p...)
	}
	return len(p), nil
}

// take returns what was written, and whether it was too long.
func (b *recordedBody) take() ([]byte, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text, b.tooLong
}

// readRecorded is a body of a request that is recorded as it is read.
type readRecorded struct {
	io.ReadCloser
	into *recordedBody
}

// Read implements io.Reader.
func (b *readRecorded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.into.Write(p[:n])
	return n, err
}

// recordBodies begins to record the bodies of an authorized request at the levels that have them. It returns the request to go on with.
func (e *auditedRequest) recordBodies(rec *record, r *http.Request) *http.Request {
	if e.Level != auditv1.LevelRequest && e.Level != auditv1.LevelRequestResponse || !hasBodies(rec.info, r.URL.RawQuery) {
		return r
	}
	e.recorded = &recordedBodies{kinds: []string{rec.info.Resource}}
	if real := e.realOf(rec.info); real != nil {
		e.recorded.kinds = append(e.recorded.kinds, real.Resource)
	}
	if rec.info.APIGroup == "config.kubesphere.io" { // whichever of its resources it is
		e.recorded.kinds = append(e.recorded.kinds, "platformconfigs")
	}
	// A Query is answered with objects of any kind, which the path does not name.
	e.recorded.answers = e.Level == auditv1.LevelRequestResponse && r.Method != http.MethodHead && rec.info.APIGroup != queryv1alpha1.GroupName
	switch {
	case r.Body == nil, r.Body == http.NoBody, r.Method == http.MethodGet, r.Method == http.MethodHead:
		return r
	}
	out := *r // net/http depends on the type of body that its own request has
	out.Body = &readRecorded{r.Body, &e.recorded.request}
	return &out
}

// describeBodies adds the bodies to the event, if it is one of a level that has them.
func (e *auditedRequest) describeBodies(rec *record, code int) {
	e.Bodies = nil
	if e.recorded == nil || e.Level != auditv1.LevelRequest && e.Level != auditv1.LevelRequestResponse {
		return
	}
	e.Bodies = &audit.Bodies{Request: e.body(rec, &e.recorded.request, e.request.Header, false)}
	if e.Level == auditv1.LevelRequestResponse {
		e.Bodies.Response = e.body(rec, &e.recorded.response, rec.Header(), code >= http.StatusBadRequest)
	}
}

// body returns what is recorded of a body: nil for nothing.
func (e *auditedRequest) body(rec *record, of *recordedBody, h http.Header, failure bool) []byte {
	text, tooLong := of.take()
	if !tooLong {
		text, tooLong = decompressed(text, h.Get("Content-Encoding"))
	}
	if tooLong {
		e.Truncate()
		return nil
	}
	isJSON, isYAML := mediaOf(h.Get("Content-Type"))
	if len(text) == 0 || !isJSON && !isYAML {
		return nil
	}
	out := (&bodyredaction.Body{Text: text, YAML: isYAML, Resources: e.recorded.kinds, Namespace: rec.info.Namespace, Failure: failure}).JSON()
	if len(out) > maxRecorded {
		e.Truncate()
		return nil
	}
	return out
}

// decompressed returns a body without its encoding; nil for one that is not known.
func decompressed(text []byte, encoding string) (out []byte, tooLong bool) {
	switch strings.ToLower(encoding) {
	case "", "identity":
		return text, false
	case "gzip":
	default:
		return nil, false
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, false
	}
	out, err = io.ReadAll(io.LimitReader(z, maxRecorded+1))
	if err != nil {
		return nil, false
	}
	return out, len(out) > maxRecorded
}

// mediaOf returns what a body is written in. One without a type is JSON to kube-apiserver, if it is anything.
func mediaOf(contentType string) (isJSON, isYAML bool) {
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case contentType == "":
		return true, false
	case err != nil:
		return false, false
	}
	isJSON = media == mediaJSON || strings.HasSuffix(media, "+json")
	return isJSON, media == mediaYAML || strings.HasSuffix(media, "+yaml") || media == "text/yaml" || media == "application/x-yaml"
}
