package relay

import (
	"net/http"
	"net/url"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Guarded passes on a long request, and ends it with the right to it.
func Guarded(by *stream.Guard, w http.ResponseWriter, r *http.Request, pass func(*stream.Stream, *http.Request)) {
	s, again, err := by.Over(w, r)
	if err != nil {
		if request.IsUpgrade(r.Header) {
			w.Header()["Connection"] = ConnClose
		}
		web.WriteError(w, r, err)
		return
	}
	defer s.Stop()
	pass(s, again)
}

// Paced returns the writer of an answer whose client has a bounded time to receive each write. A connection that was taken over has no such
// bound: it holds nobody else up, and a person may have stopped what reads it.
func Paced(by *stream.Guard, w http.ResponseWriter, i *request.Info) *stream.ProgressWriter {
	if i.Subresource == "log" {
		return by.Patience(w)
	}
	return by.Progress(w)
}

// IsLong reports whether a request lasts as long as the client, or a workload, likes.
func IsLong(i *request.Info, u *url.URL) bool {
	switch {
	case i.Lasts(u.RawQuery):
		return true
	case i.Subresource == "log":
		return u.RawQuery != "" && u.Query().Has("follow")
	}
	return isFile(i)
}

// isFile reports whether a request transfers files of a container.
func isFile(i *request.Info) bool {
	return i != nil && i.Subresource == "file" && i.APIGroup == "terminal.kubesphere.io"
}
