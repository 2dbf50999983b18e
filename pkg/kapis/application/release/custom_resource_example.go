package release

import (
	"encoding/json"
	"slices"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
)

// example returns an object of a kind of an application, with the fields that its schema requires and those that have defaults.
func (h *Handler) example(r *restful.Request) (any, error) {
	app, err := scope.Apps.Get(h.Store, r, r.PathParameter("app"))
	if err != nil {
		return nil, err
	}
	name := r.PathParameter("name")
	plural, group, _ := strings.Cut(name, ".")
	at := slices.IndexFunc(app.Spec.Resources, func(o v2.Resource) bool { return o.Group == group && o.Resource == plural })
	if at < 0 {
		return nil, apierrors.NewNotFound(definitions.GroupResource(), name)
	}
	text, err := h.cached(r, definitions, "", name)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal([]byte(text), crd); err != nil {
		return nil, err
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Name != app.Spec.Resources[at].Version {
			continue
		}
		out := map[string]any{}
		if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			if made, ok := skeleton(v.Schema.OpenAPIV3Schema, 0).(map[string]any); ok {
				out = made
			}
		}
		delete(out, "status")
		out["apiVersion"], out["kind"] = crd.Spec.Group+"/"+v.Name, crd.Spec.Names.Kind
		out["metadata"] = map[string]any{"name": "example"}
		return out, nil
	}
	return nil, apierrors.NewNotFound(definitions.GroupResource(), name)
}

// maxDepth is how deep an example is.
const maxDepth = 12

// skeleton returns a value of a schema: its default, or an object with the properties that are required or have something in them.
func skeleton(s *apiextensionsv1.JSONSchemaProps, depth int) any {
	var value any
	switch {
	case s.Default != nil && json.Unmarshal(s.Default.Raw, &value) == nil:
		return value
	case len(s.Enum) > 0 && json.Unmarshal(s.Enum[0].Raw, &value) == nil:
		return value
	case s.XIntOrString:
		return 0
	}
	switch s.Type {
	case "string":
		return ""
	case "integer", "number":
		return 0
	case "boolean":
		return false
	case "array":
		return []any{}
	}
	out := map[string]any{}
	if depth == maxDepth {
		return out
	}
	for name := range s.Properties {
		p := s.Properties[name]
		made := skeleton(&p, depth+1)
		inner, isObject := made.(map[string]any)
		if slices.Contains(s.Required, name) || p.Default != nil || isObject && (len(inner) > 0 || depth == 0) {
			out[name] = made
		}
	}
	return out
}
