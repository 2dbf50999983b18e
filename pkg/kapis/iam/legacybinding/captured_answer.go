package legacybinding

import (
	"encoding/json"
	"errors"
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

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
