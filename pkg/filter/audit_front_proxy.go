package filter

import (
	"net"
	"net/http"
	"strings"

	"kapis.dev/ks-apiserver/pkg/request"
)

// frontAuditID is the annotation with the id by which the log of the front proxy has a request.
const frontAuditID = "kapis.dev/front-proxy-audit-id"

// FrontProxied follows a handler that has authenticated the front proxy, and put the user whom it names into the context: the access log
// and the audit have that user, the audit also the address from which the front proxy was called, and its id of the request. Nothing of it
// is believed before: a peer that is not the front proxy does not come here.
func FrontProxied(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rec, ok := r.Context().Value(recordKey{}).(*record); ok {
			rec.user = request.UserFrom(r.Context())
			if e := rec.audited; e != nil {
				e.Source = calledFrom
				if e.front != "" {
					e.Annotate(frontAuditID, e.front)
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// calledFrom returns the address that the front proxy was called from: the last one, which it has added itself; those before it are what
// its client says.
func calledFrom(r *http.Request) string {
	all := r.Header.Values("X-Forwarded-For")
	if len(all) == 0 {
		return ""
	}
	last := all[len(all)-1]
	if ip := net.ParseIP(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])); ip != nil {
		return ip.String()
	}
	return ""
}
