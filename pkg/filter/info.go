package filter

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Info understands what a request asks for, once, and puts it into the context. What can't be
// understood is answered with 400: nothing behind this filter looks at a path that was not parsed.
func Info(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := request.Parse(r)
		if err != nil {
			web.WriteError(w, r, badRequest(err))
			return
		}
		w, r, rec := recorded(w, r)
		if rec.info != nil { // a request within a request is judged by itself
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
