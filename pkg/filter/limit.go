package filter

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// MaxBody is how many bytes the body of a request may have: as many as kube-apiserver and etcd accept.
const MaxBody = 3 << 20

// Limit refuses bodies of more than maxBody bytes with 413: at once if the length is declared, otherwise when a read passes the limit. A
// body that is streamed through kube-apiserver to a workload (the proxy sub-resource) is not an object of the API, and has no limit and
// no timeout here. Requests for which exempt is true have a limit of their own; exempt may be nil.
func Limit(maxBody int64, exempt func(*request.Info) bool) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body == nil || r.Body == http.NoBody {
				next.ServeHTTP(w, r)
				return
			}
			info := request.InfoFrom(r.Context())
			if streamed(info) {
				if b, ok := r.Body.(*awaited); ok {
					b.loosen()
				}
				next.ServeHTTP(w, r)
				return
			}
			if info != nil && exempt != nil && exempt(info) {
				next.ServeHTTP(w, r)
				return
			}
			if r.ContentLength > maxBody {
				w.Header().Set("Connection", "close") // the body is not going to be read
				web.WriteError(w, r, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body may have %d bytes at most", maxBody)))
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			next.ServeHTTP(w, r)
		})
	}
}

func streamed(i *request.Info) bool {
	return i != nil && i.IsKubernetes && i.IsResource && (i.Subresource == "proxy" || i.Verb == "proxy")
}
