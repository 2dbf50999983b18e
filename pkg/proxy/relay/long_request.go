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

// IsLong reports whether a request lasts as long as the client, or a workload, likes.
func IsLong(i *request.Info, u *url.URL) bool {
	switch i.Verb {
	case "watch", "proxy":
		return true
	}
	switch i.Subresource {
	case "proxy", "exec", "attach", "portforward":
		return true
	case "log":
		return u.RawQuery != "" && u.Query().Has("follow")
	}
	return false
}
