package filter

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

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
