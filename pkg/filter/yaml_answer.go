package filter

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	mediaYAML = "application/yaml"
	mediaJSON = "application/json"
	// maxJSON is the longest answer, in bytes of JSON, that is written as YAML, and maxYAML the longest YAML: both are all in memory, unlike
	// an answer in JSON.
	maxJSON = 4 << 20
	maxYAML = 16 << 20
	// maxConversions is how many answers become YAML at once, and maxSending how many bytes of YAML are sent at once.
	maxConversions = 8
	maxSending     = 128 << 20
)

var (
	// errYAMLTooLong also stops a handler whose answer is too long.
	errYAMLTooLong = status.Errorf(http.StatusRequestEntityTooLarge,
		"the answer is too long to be written as YAML: ask for application/json, or for pages with limit and page")
	errYAMLBusy = apierrors.NewTooManyRequests("too many answers are being written as YAML: try again, or ask for application/json", 1)
)

// YAML writes answers of /kapis and /kapi as YAML for clients whose Accept header names it and not JSON. next answers in JSON. Streams and
// files are not written so.
func YAML(next http.Handler) http.Handler {
	converting, sending := make(chan struct{}, maxConversions), httpcache.NewResponses(maxSending, maxYAML)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !WantsYAML(r) {
			next.ServeHTTP(w, r)
			return
		}
		select {
		case converting <- struct{}{}:
		default:
			web.WriteError(w, r, errYAMLBusy)
			return
		}
		inJSON := r.Clone(r.Context())
		if r.Method == http.MethodHead { // its length is that of the YAML
			inJSON = r.Clone(web.AsHead(r.Context()))
			inJSON.Method = http.MethodGet
		}
		inJSON.Header.Set("Accept", mediaJSON)
		for _, name := range [...]string{"Accept-Encoding", "If-None-Match", "If-Modified-Since"} {
			inJSON.Header.Del(name) // an entity tag is that of the answer in JSON
		}
		answer := &bufferedAnswer{header: w.Header(), code: http.StatusOK}
		text, err := func() ([]byte, error) {
			defer func() { <-converting }() // a client that reads nothing keeps no others from their YAML
			next.ServeHTTP(answer, inJSON)
			return answer.text()
		}()
		sent := sending.Reserve(r.Context())
		defer sent.Release()
		if err == nil {
			err = sent.Add(int64(len(text)))
		}
		if err != nil {
			answer.header.Del("ETag")
			web.WriteError(w, r, err)
			return
		}
		answer.header.Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(answer.code)
		if r.Method != http.MethodHead {
			httpcache.Write(w, r, text)
		}
	})
}

// WantsYAML reports whether the answer to a read is to be YAML.
func WantsYAML(r *http.Request) bool {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !read || web.Quality(r.Header, mediaYAML) == 0 || web.Quality(r.Header, mediaJSON) > 0 {
		return false
	}
	info := request.InfoFrom(r.Context())
	return info != nil && (info.APIPrefix == "kapis" || info.APIPrefix == "kapi") && info.Verb != "watch" && info.Subresource != "file" &&
		!info.Upgrade && !r.URL.Query().Has("view")
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
	if a.tooBig = a.tooBig || a.body.Len()+len(p) > maxJSON; a.tooBig {
		return 0, errYAMLTooLong
	}
	return a.body.Write(p)
}

// text returns the body, and what is JSON as YAML.
func (a *bufferedAnswer) text() ([]byte, error) {
	if a.tooBig {
		return nil, errYAMLTooLong
	}
	if media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); media != mediaJSON { // "" if it can't be parsed
		return a.body.Bytes(), nil
	}
	text, err := rawjson.YAML(a.body.Bytes(), maxYAML)
	if errors.Is(err, rawjson.ErrLongYAML) {
		return nil, errYAMLTooLong
	}
	if err != nil {
		return nil, err
	}
	a.body = bytes.Buffer{} // sending may take a while
	a.header.Set("Content-Type", mediaYAML)
	a.header.Del("ETag")
	a.header.Add("Vary", "Accept")
	return text, nil
}
