package filter

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	mediaYAML = "application/yaml"
	mediaJSON = "application/json"
	// maxYAML is the longest answer, in bytes of JSON, that is written as YAML: it is all in memory, unlike one in JSON.
	maxYAML = 4 << 20
)

// errYAMLTooLong stops a handler whose answer is too long.
var errYAMLTooLong = status.Errorf(http.StatusRequestEntityTooLarge,
	"the answer is too long to be written as YAML: ask for application/json, or for pages with limit and page")

// YAML writes answers as YAML for clients whose Accept header asks for it and not for JSON. next answers in JSON. Streams are not written
// so.
func YAML(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !wantsYAML(r) {
			next.ServeHTTP(w, r)
			return
		}
		inJSON := r.Clone(r.Context())
		inJSON.Header.Set("Accept", mediaJSON)
		for _, name := range [...]string{"Accept-Encoding", "If-None-Match", "If-Modified-Since"} {
			inJSON.Header.Del(name) // an entity tag is that of the answer in JSON
		}
		answer := &bufferedAnswer{header: w.Header(), code: http.StatusOK}
		next.ServeHTTP(answer, inJSON)
		answer.send(w, r)
	})
}

// wantsYAML reports whether the answer to a read is to be YAML.
func wantsYAML(r *http.Request) bool {
	accept := r.Header["Accept"]
	if len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == mediaJSON) || r.Method != http.MethodGet {
		return false
	}
	info := request.InfoFrom(r.Context())
	if info == nil || info.Verb == "watch" || request.IsUpgrade(r.Header) || r.URL.Query().Has("view") {
		return false
	}
	found := false
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, _, err := mime.ParseMediaType(part)
		if err == nil && media == mediaJSON {
			return false
		}
		found = found || err == nil && media == mediaYAML
	}
	return found
}

// bufferedAnswer is an answer in JSON that is to be written as YAML.
type bufferedAnswer struct {
	header http.Header
	code   int
	body   bytes.Buffer
	tooBig bool
}

// Header implements http.ResponseWriter.
func (a *bufferedAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *bufferedAnswer) WriteHeader(code int) { a.code = code }

// Write implements http.ResponseWriter.
func (a *bufferedAnswer) Write(p []byte) (int, error) {
	if a.tooBig = a.tooBig || a.body.Len()+len(p) > maxYAML; a.tooBig {
		return 0, errYAMLTooLong
	}
	return a.body.Write(p)
}

// send writes the answer.
func (a *bufferedAnswer) send(w http.ResponseWriter, r *http.Request) {
	if a.tooBig {
		a.header.Del("ETag")
		web.WriteError(w, r, errYAMLTooLong)
		return
	}
	text := a.body.Bytes()
	if media, _, err := mime.ParseMediaType(a.header.Get("Content-Type")); err == nil && media == mediaJSON {
		written, err := rawjson.YAML(text)
		if err != nil {
			web.WriteError(w, r, errors.Join(errors.New("write an answer as YAML"), err))
			return
		}
		text = written
		a.header.Set("Content-Type", mediaYAML)
		a.header.Del("ETag")
		a.header.Add("Vary", "Accept")
	}
	a.header.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(a.code)
	_, _ = w.Write(text) // the client is gone
}
