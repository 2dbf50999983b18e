package filter

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Cluster lets a request go on if it names no cluster, or this one by one of the names given (its name, its alias). Any other is answered
// with 400.
func Cluster(names ...string) Filter {
	local := map[string]bool{"": true}
	for _, name := range names {
		local[name] = true
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info := request.InfoFrom(r.Context())
			if info == nil {
				web.WriteError(w, r, errNoInfo)
				return
			}
			if !local[info.Cluster] {
				web.WriteError(w, r, apierrors.NewBadRequest(fmt.Sprintf("cluster %q does not exist", info.Cluster)))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
