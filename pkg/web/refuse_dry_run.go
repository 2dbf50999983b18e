package web

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RefuseDryRun returns h for a write that does not support dryRun. A request for a dry run, in the query or in the body of a deletion, is
// answered with 400: ignoring it would write.
func RefuseDryRun(h Handler) Handler {
	return func(r *restful.Request) (any, error) {
		dry, err := asksForDryRun(r.Request)
		if err != nil {
			return nil, err
		}
		if dry {
			return nil, apierrors.NewBadRequest("this write does not support dryRun: send it without, and it is done")
		}
		return h(r)
	}
}

func asksForDryRun(r *http.Request) (bool, error) {
	for name := range r.URL.Query() {
		if strings.EqualFold(name, "dryRun") {
			return true, nil
		}
	}
	if r.Method != http.MethodDelete {
		return false, nil
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxOptions+1))
	if err != nil {
		return false, apierrors.NewBadRequest("the body can't be read to its end")
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(raw), r.Body), r.Body}
	d, err := decodeDeleteOptions(bytes.TrimSpace(raw))
	return err == nil && len(d.DryRun) > 0, err
}
