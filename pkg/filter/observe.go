package filter

import (
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

// accessLog is the verbosity from which every request is logged.
const accessLog klog.Level = 4

// Observe counts every request and how long it took, and logs it at verbosity 4: the path only, because a query may have secrets. It is
// the first filter, so that it sees refusals, panics and requests that can't be parsed.
func Observe(m *Metrics) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start := time.Now()
			w, r, rec := recorded(w, r)
			defer func() { // deferred, because http.ErrAbortHandler passes here
				took := time.Since(start)
				m.observe(rec, r, took)
				if log := klog.V(accessLog); log.Enabled() {
					logAccess(log, rec, r, took)
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
}

func logAccess(log klog.Verbose, rec *record, r *http.Request, took time.Duration) {
	name := ""
	if rec.user != nil {
		name = rec.user.GetName()
	}
	log.InfoS("request", "method", r.Method, "path", r.URL.Path, "user", name, "code", rec.code(),
		"bytes", rec.bytes, "took", took, "from", r.RemoteAddr, "protocol", r.Proto)
}
