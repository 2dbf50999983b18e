package filter

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

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
