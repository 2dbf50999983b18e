package filter

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/web"
)

// Recover answers a panic with 500, and logs it with its stack. http.ErrAbortHandler, by which a handler drops the connection, goes on to
// the server; so does a panic after the answer began, because a client must not take half an answer for a whole one.
func Recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, r, rec := recorded(w, r)
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(http.ErrAbortHandler)
			}
			klog.ErrorS(nil, "panic while serving a request", "method", r.Method, "path", r.URL.Path,
				"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			if rec.status != 0 {
				panic(http.ErrAbortHandler)
			}
			h := w.Header()
			for _, k := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Cache-Control"} {
				h.Del(k) // they described the abandoned answer
			}
			s := web.Status(apierrors.NewInternalError(errors.New("see the server's log")))
			web.WriteJSON(w, r, int(s.Code), s)
		}()
		next.ServeHTTP(w, r)
	})
}
