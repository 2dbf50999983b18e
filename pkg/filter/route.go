package filter

import (
	"net/http"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// errNoInfo is the error of a filter that precedes Info: nothing is decided on a path that was not parsed.
const errNoInfo = constError("the chain lacks filter.Info")

// Route passes requests for kube-apiserver (/api, /apis) to kube, and lets the rest go on.
func Route(kube http.Handler) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info := request.InfoFrom(r.Context())
			switch {
			case info == nil:
				web.WriteError(w, r, errNoInfo)
			case info.IsKubernetes:
				kube.ServeHTTP(w, r)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}
