// Package filter has the filters that a request passes through. Those that only parse and hand on are here: Info and Route.
package filter

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Filter is one step: it lets a request go on to next, perhaps with more in its context, or answers it and stops.
type Filter func(next http.Handler) http.Handler

// Chain puts filters before h, in the order in which a request passes them.
func Chain(h http.Handler, filters ...Filter) http.Handler {
	for i := len(filters) - 1; i >= 0; i-- {
		h = filters[i](h)
	}
	return h
}

// Info parses what a request asks for, once, and puts it into the context. A request that can't be parsed is answered with 400: no later
// filter sees a path that was not parsed.
func Info(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := request.Parse(r)
		if err != nil {
			web.WriteError(w, r, badRequest(err))
			return
		}
		w, r, rec := recorded(w, r)
		if rec.info != nil { // a request within a request is authorized by itself
			w, r, rec = newRecord(w, r)
		}
		rec.info = info
		next.ServeHTTP(w, r)
	})
}

func badRequest(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return apierrors.NewBadRequest(err.Error())
}

// errNoInfo is the error of a filter that precedes Info: nothing is decided on a path that was not parsed.
const errNoInfo = constError("the chain lacks filter.Info")

// Route passes requests for kube-apiserver (/api, /apis) to kube, and lets the rest go on.
func Route(kube http.Handler) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info := request.InfoFrom(r.Context())
			switch {
			case info == nil:
				web.WriteError(w, r, errNoInfo)
			case info.IsKubernetes:
				kube.ServeHTTP(w, r)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}
