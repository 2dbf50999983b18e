package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// maxPatch bounds the patch of a kind that has secrets: it is the longest body that the server accepts.
const maxPatch = 3 << 20

// maxDepth is how deep such a patch may be nested.
const maxDepth = 512

// checkPatch refuses a JSON patch that would copy a redacted field to where it is shown, or reveal its value by whether it succeeds (S3).
// It reads the body, and puts it back.
func checkPatch(r *http.Request, info *request.Info) error {
	if r.Method != http.MethodPatch || r.Body == nil {
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxPatch+1))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long), len(raw) > maxPatch:
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body may have %d bytes at most", maxPatch))
	case err != nil:
		return apierrors.NewBadRequest("the body can't be read to its end")
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(raw)), int64(len(raw)), nil
	text := string(bytes.TrimSpace(raw))
	if text == "" || text[0] != '[' {
		return nil // only a JSON patch, which is an array, copies values
	}
	if !rawjson.Valid(text, maxDepth) {
		return apierrors.NewBadRequest("the body is not valid JSON, or is nested too deeply")
	}
	gr := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	for e := rawjson.Array(text); e.Next(); {
		if err := checkOperation(gr, e.Value); err != nil {
			return err
		}
	}
	return nil
}

// checkOperation validates one operation of a JSON patch (RFC 6902). It refuses an operation that parsers could understand in different
// ways.
func checkOperation(gr schema.GroupResource, text string) error {
	if text[0] != '{' {
		return apierrors.NewBadRequest("an operation of the JSON patch is not an object")
	}
	is := map[string]string{}
	for m := rawjson.Object(text); m.Next(); {
		if m.Key != "op" && m.Key != "path" && m.Key != "from" {
			continue
		}
		if _, twice := is[m.Key]; twice || m.Value[0] != '"' {
			return status.BadRequestf("%q in an operation of the JSON patch must be one string", m.Key)
		}
		is[m.Key] = rawjson.Text(m.Value)
	}
	for _, path := range []string{is["path"], is["from"]} {
		if path != "" && path[0] != '/' {
			return status.BadRequestf("the path %.200q in the JSON patch must begin with a slash", path)
		}
	}
	source, takes := is["from"], is["op"] == "copy" || is["op"] == "move"
	if is["op"] == "test" {
		source, takes = is["path"], true
	}
	if takes && redaction.Hides(gr, source) {
		return status.BadRequestf("the JSON patch may not %s from %.200q: something of it is not shown", is["op"], source)
	}
	return nil
}
