package filter

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Members are the clusters of the fleet besides this one. Nil stands for none.
type Members struct {
	// Has reports whether there is a member of a name. The error is a Status: that this server does not know that yet.
	Has func(name string) (bool, error)
	// MayList reports whether a user may know which clusters there are.
	MayList func(ctx context.Context, u user.Info) bool
	// Handler passes requests on to the member that they name.
	Handler http.Handler
	// Lists returns what answers lists over all clusters, which asks each of them through ask; nil for nothing.
	Lists func(ask http.Handler) http.Handler
}

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
			if info == nil {
				web.WriteError(w, r, errNoInfo)
				return
			}
			switch has, err := m.has(info.Cluster); {
			case local[info.Cluster] || has && err == nil:
				next.ServeHTTP(w, r)
			case err != nil:
				web.WriteError(w, r, err)
			case m != nil && u != nil && !m.MayList(ctx, u):
				web.WriteError(w, r, authz.Forbidden(u, info, authz.Decision{}))
			default:
				web.WriteError(w, r, status.BadRequestf("cluster %q does not exist", info.Cluster))
			}
		})
	}
}

func (m *Members) has(name string) (bool, error) {
	if m == nil || name == "" {
		return false, nil
	}
	return m.Has(name)
}

// Pass passes authorized requests for members on to them. It follows Authorize.
func (m *Members) Pass(next http.Handler) http.Handler {
	if m == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info := request.InfoFrom(r.Context()); info != nil {
			if has, err := m.has(info.Cluster); has && err == nil {
				m.Handler.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Fleet answers lists over all clusters, and lets other requests go on. It follows Authorize and precedes Pass. What such a list asks of a
// cluster is a request of its own, for one of these names (this cluster's) or for a member, and is authorized as if the client had sent it.
func (m *Members) Fleet(a authz.Authorizer, names ...string) Filter {
	return func(next http.Handler) http.Handler {
		if m == nil || m.Lists == nil {
			return next
		}
		lists := m.Lists(Chain(next, nested, m.Cluster(names...), Authorize(a)))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info := request.InfoFrom(r.Context())
			if info == nil || info.Cluster != "" || !isFleetList(info.Path) || !authz.DecisionFrom(r.Context()).Allowed() {
				next.ServeHTTP(w, r)
				return
			}
			lists.ServeHTTP(w, r)
		})
	}
}

// isFleetList reports whether a path is one of lists over all clusters, or of a search. Others below /fleet are those by which clusters
// join.
func isFleetList(path string) bool {
	return path == "/fleet/search" || strings.HasPrefix(path, "/fleet/kapis/") || strings.HasPrefix(path, "/fleet/kapi/")
}
