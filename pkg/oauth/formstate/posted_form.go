package formstate

import (
	"net/http"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// ReadPost reads the form of a page. Requests from other sites are refused.
func (f *Forms) ReadPost(req *restful.Request) (protocol.Form, error) {
	if err := f.Logins.Cookies.RequireTLS(req.Request); err != nil {
		return nil, err
	}
	return f.ReadAnswer(req)
}

// ReadAnswer reads a form in which the user types no secret, as ReadPost. The console may pass it on over plain http.
func (f *Forms) ReadAnswer(req *restful.Request) (protocol.Form, error) {
	if !f.sameSite(req.Request) {
		return nil, protocol.Problem(http.StatusForbidden, page.Say("error.origin"), nil)
	}
	return protocol.ReadForm(req.Request)
}

// sameSite reports whether a request comes from a page of this server, or of Origins (Fetch Metadata; RFC 6454, 7). The origin is "null"
// for pages without a referrer, such as these: then the form state alone decides.
func (f *Forms) sameSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return true
	case "":
		from := r.Header.Get("Origin")
		if from == "" || from == "null" {
			return true
		}
		return f.Origins.Match(r)
	}
	return false
}
