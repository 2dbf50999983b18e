package filter

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

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

// Authorize lets a request go on, with the decision in its context, if a allows it, and answers 403 in the words of Kubernetes otherwise.
// A list of this server's own of which the caller may see some goes on too, with a decision that does not allow it: the router refuses
// it, unless its route restricts its answer to the partial list. An error is answered with its own code (503 if it says so, 500 without
// detail for any other), and nothing goes on.
func Authorize(a authz.Authorizer) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w, r, rec := recorded(w, r)
			ctx := r.Context()
			u, info := request.UserFrom(ctx), request.InfoFrom(ctx)
			if info == nil || u == nil {
				web.WriteError(w, r, errors.New("the chain lacks filter.Info or filter.Authentication before filter.Authorize"))
				return
			}
			d, err := a.Authorize(ctx, u, info)
			rec.decision = d
			switch {
			case err != nil:
				web.WriteError(w, r, fmt.Errorf("authorize: %w", err))
			case !d.Permits(mayBePartial(info)):
				if u.GetName() == user.Anonymous { // with a token the answer may be another (RFC 6750, 3; RFC 9110, 11.6.1)
					w.Header().Set("WWW-Authenticate", challenge)
				}
				web.WriteError(w, r, authz.Forbidden(u, info, d))
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}

// mayBePartial reports whether i is a list, or a watch of one, at a path of this server's own, of the cluster or of a workspace: no other
// request is answered with a partial list.
func mayBePartial(i *request.Info) bool {
	return i.IsResource && !i.IsKubernetes && (i.Verb == "list" || i.Verb == "watch") && i.Namespace == "" && i.Name == "" &&
		i.Subresource == ""
}
