package filter

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Members are the clusters of the fleet besides this one. Nil stands for none.
type Members struct {
	// Has reports whether there is a member of a name.
	Has func(name string) bool
	// MayList reports whether a user may know which clusters there are.
	MayList func(ctx context.Context, u user.Info) bool
	// Handler passes requests on to the member that they name.
	Handler http.Handler
	// Lists returns what answers lists over all clusters, which asks each of them through ask; nil for nothing.
	Lists func(ask http.Handler) http.Handler
}

func (m *Members) has(name string) bool { return m != nil && name != "" && m.Has(name) }

// Pass passes authorized requests for members on to them. It follows Authorize.
func (m *Members) Pass(next http.Handler) http.Handler {
	if m == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info := request.InfoFrom(r.Context()); info != nil && m.has(info.Cluster) {
			m.Handler.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
