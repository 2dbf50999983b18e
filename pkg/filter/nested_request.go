package filter

import (
	"errors"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// nested begins a request that the handler of another one makes for the same caller, with the same credentials. It is parsed by itself,
// has a record of its own, and nothing of the decision on the other.
func nested(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		outer, found := r.Context().Value(recordKey{}).(*record)
		if !found || outer.user == nil {
			web.WriteError(w, r, errors.New("a request within a request needs one that was authenticated"))
			return
		}
		info, err := request.Parse(r)
		if err != nil {
			web.WriteError(w, r, badRequest(err))
			return
		}
		w, r, rec := newRecord(w, r)
		rec.info, rec.user, rec.credentials, rec.source, rec.asked = info, outer.user, outer.credentials, outer.source, outer.asked
		next.ServeHTTP(w, r)
	})
}
