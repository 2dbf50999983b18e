package filter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Recheck returns a function that checks again, later, a request that passed Authentication and Authorize: with the same credentials, for
// the same user, for the same right. It is for long requests (watches, terminals), which must end soon after the token, the session or
// the right ends, or after their partial list changes. An error says why the request must end. It is 410 (Expired) if only the partial
// list has changed: the client has to list again, because no event tells it of existing objects that it may see now. It may be called
// from any goroutine until long after the handler returned.
func Recheck(a authenticator.Request, z authz.Authorizer) func(context.Context, *http.Request) error {
	return func(ctx context.Context, r *http.Request) error {
		info, before := request.InfoFrom(r.Context()), request.UserFrom(r.Context())
		kept, _ := r.Context().Value(credentialsKey{}).(*credentials)
		if info == nil || before == nil || kept == nil || !kept.authenticated {
			return errors.New("check a request again: it did not pass filter.Authentication")
		}
		again := r.Clone(ctx)
		again.Body = http.NoBody
		setOrDelete(again.Header, "Authorization", kept.authorization)
		setOrDelete(again.Header, "Cookie", kept.cookie)
		maps.Copy(again.Header, kept.stated)
		now, err := authenticate(a, again)
		if err != nil {
			return fmt.Errorf("authenticate again: %w", err)
		}
		if now.GetName() != before.GetName() || now.GetUID() != before.GetUID() {
			return errors.New("authenticate again: the credentials are now another user's")
		}
		d, err := z.Authorize(ctx, now, info)
		if err != nil {
			return fmt.Errorf("authorize again: %w", err)
		}
		was, is := authz.DecisionFrom(r.Context()).PartialList(), d.PartialList()
		switch {
		case !d.Permits(mayBePartial(info)):
			return fmt.Errorf("authorize again: %w", authz.Forbidden(now, info, d))
		case (was == nil) != (is == nil), was != nil && is.Key != was.Key:
			return apierrors.NewResourceExpired("what of the list you may see has changed: list again")
		}
		return nil
	}
}

func setOrDelete(h http.Header, k string, v []string) {
	if v == nil {
		delete(h, k)
		return
	}
	h[k] = v
}
