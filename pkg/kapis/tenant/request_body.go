package tenant

import (
	"fmt"
	"mime"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// maxBody bounds a body, in bytes.
const maxBody = 1 << 20

const (
	typeMergePatch = "application/merge-patch+json"
	typeJSONPatch  = "application/json-patch+json"
)

// readObject reads an object of a kind, of any group that it says: the route decides. Only metadata and spec are used: clients send
// other members along, and only the system writes status. What was read here is what is sent, so that no other reader finds something
// else in it.
func readObject(r *http.Request, apiVersion, kind string) (*unstructured.Unstructured, error) {
	raw, err := web.ReadBody(r, maxBody)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(raw, &all); err != nil || all == nil {
		return nil, status.BadRequestf("the body is not a JSON object: send a %s", kind)
	}
	if k, set := all["kind"]; set && k != kind {
		return nil, status.BadRequestf("the body is a %.100q: send a %s", fmt.Sprint(k), kind)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{}}}
	for _, member := range []string{"metadata", "spec"} {
		v, set := all[member]
		if !set || v == nil {
			continue
		}
		if _, ok := v.(map[string]any); !ok {
			return nil, status.BadRequestf("%s in the body must be an object", member)
		}
		o.Object[member] = v
	}
	for _, path := range [][]string{{"metadata", "labels"}, {"metadata", "annotations"}} {
		if v, set, _ := unstructured.NestedFieldNoCopy(o.Object, path...); set && v == nil {
			unstructured.RemoveNestedField(o.Object, path...)
		}
		if _, _, err := unstructured.NestedStringMap(o.Object, path...); err != nil {
			return nil, status.BadRequestf("%s in the body must be an object of strings", strings.Join(path, "."))
		}
	}
	for _, path := range [][]string{{"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "resourceVersion"}} {
		if _, _, err := unstructured.NestedString(o.Object, path...); err != nil {
			return nil, status.BadRequestf("%s in the body must be a string", strings.Join(path, "."))
		}
	}
	if o.GetNamespace() != "" {
		return nil, status.BadRequestf("metadata.namespace in the body is %.100q, but a %s is in no namespace", o.GetNamespace(), kind)
	}
	if o.GetName() == "" {
		return nil, status.BadRequestf("metadata.name is missing: it is the name of the %s", kind)
	}
	return o, nil
}

// named refuses a body with another name than the path.
func named(o *unstructured.Unstructured, name string) error {
	if o.GetName() != name {
		return status.BadRequestf("metadata.name in the body is %.260q, in the path it is %q: they must be the same", o.GetName(), name)
	}
	return nil
}

// readPatch reads a patch: an array is a JSON patch under any media type, an object is a merge patch.
func readPatch(r *http.Request) (body []byte, mediaType string, err error) {
	if body, err = web.ReadBody(r, maxBody); err != nil {
		return nil, "", err
	}
	declared, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case len(body) > 0 && body[0] == '[':
		return body, typeJSONPatch, nil
	case len(body) == 0 || body[0] != '{':
		return nil, "", status.BadRequestf("the body is no patch: send a JSON patch (an array) or a merge patch (an object)")
	case declared == typeJSONPatch:
		return nil, "", status.BadRequestf("a JSON patch is an array of operations; an object is a merge patch: send it as %s", typeMergePatch)
	case declared != "" && declared != typeMergePatch && declared != "application/json" &&
		declared != "application/strategic-merge-patch+json":
		return nil, "", status.Errorf(http.StatusUnsupportedMediaType,
			"a %.100q is not supported here: send %s or %s", declared, typeMergePatch, typeJSONPatch)
	}
	return body, typeMergePatch, nil
}
