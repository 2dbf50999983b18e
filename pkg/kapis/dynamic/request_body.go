package dynamic

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	typeJSON           = "application/json"
	typeYAML           = "application/yaml"
	typeJSONPatch      = "application/json-patch+json"
	typeMergePatch     = "application/merge-patch+json"
	typeStrategicPatch = "application/strategic-merge-patch+json"
	typeApplyPatch     = "application/apply-patch+yaml"
)

// maxBody bounds a body once it is JSON, like the server's limit for requests. YAML can grow, by its aliases.
const maxBody = 3 << 20

// maxDepth is how deep a body may be nested: many times as deep as objects are.
const maxDepth = 512

// readBody returns the body of r as valid JSON text, and its media type. For an empty body, the text is empty. No Content-Type means
// the first of the accepted ones.
func readBody(r *http.Request, taken ...string) (text, mediaType string, err error) {
	mediaType = taken[0]
	if header := r.Header.Get("Content-Type"); header != "" {
		if mediaType, _, err = mime.ParseMediaType(header); err != nil {
			return "", "", status.Errorf(http.StatusUnsupportedMediaType, "the Content-Type %.100q can't be read: %v", header, err)
		}
	}
	raw, err := web.ReadBody(r, maxBody)
	if err != nil {
		return "", "", err
	}
	if len(raw) == 0 {
		return "", mediaType, nil
	}
	if !slices.Contains(taken, mediaType) {
		return "", "", status.Errorf(
			http.StatusUnsupportedMediaType,
			"the Content-Type %.100q is not supported here: send %s",
			mediaType,
			strings.Join(taken, " or "),
		)
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return "", "", status.Errorf(http.StatusUnsupportedMediaType, "a body with Content-Encoding %.100q is not supported: send it as it is", e)
	}
	if mediaType == typeYAML || mediaType == typeApplyPatch && raw[0] != '{' && raw[0] != '[' {
		if raw, err = fromYAML(raw); err != nil {
			return "", "", err
		}
	}
	if len(raw) > maxBody {
		return "", "", apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body may have %d bytes at most", maxBody))
	}
	text = string(raw)
	if !rawjson.Valid(text, maxDepth) {
		return "", "", status.BadRequestf("the body is not valid JSON, or is nested too deeply")
	}
	return text, mediaType, nil
}

// fromYAML turns one document of YAML into JSON. Duplicate keys are refused: readers differ in which of them counts.
func fromYAML(raw []byte) ([]byte, error) {
	first := bytes.TrimPrefix(raw, []byte("---"))
	if bytes.Contains(first, []byte("\n---")) {
		return nil, status.BadRequestf("the body has several YAML documents: send one object with each request")
	}
	out, err := boundedyaml.ToJSONStrict(raw)
	if err != nil {
		return nil, status.BadRequestf("the body is not valid YAML: %v", err)
	}
	return out, nil
}
