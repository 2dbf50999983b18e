package filter

import (
	"net/http"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// errNoInfo is what a filter says that stands before Info: nothing is decided on a path that was
// not parsed.
const errNoInfo = constError("the chain lacks filter.Info")

// Route hands what is kube-apiserver's (/api, /apis) to kube, and lets the rest go on.
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
