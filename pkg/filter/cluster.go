package filter

import (
	"net/http"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Cluster lets a request go on if it names no cluster, or this one by one of the names given (its name, its alias). Any other is answered
// with 400.
func Cluster(names ...string) Filter { return (*Members)(nil).Cluster(names...) }

// Cluster is the function Cluster, which lets requests for members go on, too. Whoever may not know which clusters there are is refused
// one that does not exist like one that they may not enter (F14).
func (m *Members) Cluster(names ...string) Filter {
	local := map[string]bool{"": true}
	for _, name := range names {
		local[name] = true
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := r.Context()
			info, u := request.InfoFrom(ctx), request.UserFrom(ctx)
			switch {
			case info == nil:
				web.WriteError(w, r, errNoInfo)
			case local[info.Cluster] || m.has(info.Cluster):
				next.ServeHTTP(w, r)
			case m != nil && u != nil && !m.MayList(ctx, u):
				web.WriteError(w, r, authz.Forbidden(u, info, authz.Decision{}))
			default:
				web.WriteError(w, r, status.BadRequestf("cluster %q does not exist", info.Cluster))
			}
		})
	}
}
