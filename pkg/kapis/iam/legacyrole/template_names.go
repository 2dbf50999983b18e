package legacyrole

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// maxTemplates is how many templates a role can have (AggregationRoleTemplates).
const maxTemplates = 1024

// olderPrefix begins the names that templates had: role-template-<verb>-<module>.
const olderPrefix = "role-template-"

// object is a JSON object whose members are read one by one. Of members with the same name the last one counts, and is the only one sent.
type object map[string]json.RawMessage

// member returns a member that is an object, an empty one if it is missing or null.
func (o object) member(name string) (object, error) {
	m := object{}
	if raw := o[name]; len(raw) > 0 && string(raw) != "null" {
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, status.BadRequestf("%s in the body must be an object", name)
		}
	}
	return m, nil
}

// translate returns the body of a write whose annotation names templates with these names in aggregationRoleTemplates. Its rules are not
// read then: they are those of the templates. An update keeps them where the body says, as it was read, which of them came from templates.
func (h *Handler) translate(ctx context.Context, k Kind, verb, text string) (string, error) {
	role := object{}
	if err := json.Unmarshal([]byte(text), &role); err != nil {
		return "", status.BadRequestf("the body must be a JSON object")
	}
	metadata, err := role.member("metadata")
	if err != nil {
		return "", err
	}
	annotations, err := metadata.member("annotations")
	if err != nil {
		return "", err
	}
	value, named := annotations[AnnotationKey]
	if !named || string(value) == "null" && verb != "patch" {
		return text, nil
	}
	names := []string{}
	if string(value) != "null" {
		if names, err = h.names(ctx, k, value); err != nil {
			return "", err
		}
		annotations[AnnotationKey] = encode(string(encode(names)))
	}
	templates, err := role.member("aggregationRoleTemplates")
	if err != nil {
		return "", err
	}
	templates["templateNames"] = encode(names)
	role["aggregationRoleTemplates"] = encode(templates)
	if _, recorded := annotations[iamv1beta1.AnnotationAggregated]; verb != "update" || !recorded {
		delete(role, "rules")
	}
	metadata["annotations"] = encode(annotations)
	role["metadata"] = encode(metadata)
	return string(encode(role)), nil
}

// names reads the annotation: a JSON array of names of templates of the scope, as a string.
func (h *Handler) names(ctx context.Context, k Kind, annotation json.RawMessage) ([]string, error) {
	var text string
	var given []string
	if json.Unmarshal(annotation, &text) != nil || json.Unmarshal([]byte(text), &given) != nil || len(given) > maxTemplates {
		return nil, status.BadRequestf(`the annotation %s must be a JSON array of the names of at most %d role templates, in a string:`+
			` "[\"name\"]"`, AnnotationKey, maxTemplates)
	}
	snap, err := h.Caches.Snapshot(ctx, wire.Resource("roletemplates"))
	if err != nil {
		return nil, err
	}
	var older map[module][]string
	names := make([]string, 0, len(given))
	for _, name := range given {
		if r, ok := snap.Get("", name); !ok || !isOf(r, k.Templates) {
			if older == nil {
				older = modules(snap, k.Templates)
			}
			if name, err = presentName(older, k.Templates, name); err != nil {
				return nil, err
			}
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// module is what pages show by a template: one entry of its annotation role-template-rules.
type module struct{ name, verb string }

// modules returns the names of the templates of a scope that are for one module alone, by it.
func modules(snap *index.Snapshot, scope string) map[module][]string {
	out := map[module][]string{}
	snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		r := snap.Record(ref)
		text, _ := r.Annotations.Get(iamv1beta1.AnnotationRoleTemplateRules)
		entries := rawjson.Object(text)
		if !isOf(r, scope) || !entries.Next() {
			return true
		}
		m := module{entries.Key, rawjson.Text(entries.Value)}
		if !entries.Next() {
			out[m] = append(out[m], r.Name)
		}
		return true
	})
	return out
}

func isOf(template *index.Record, scope string) bool {
	of, _ := template.Labels.Get(iamv1beta1.LabelScope)
	return of == scope
}

// presentName returns the name of the template that an older name means: the one of the scope for that module and verb. Of several it
// is the one that is named after them.
func presentName(older map[module][]string, scope, name string) (string, error) {
	rest, isOlder := strings.CutPrefix(name, olderPrefix)
	verb, of, _ := strings.Cut(rest, "-")
	found := older[module{of, verb}]
	switch named := scope + "-" + verb + "-" + of; {
	case !isOlder || len(found) == 0:
		return "", status.BadRequestf("the annotation %s: there is no role template %.100q of the scope %s", AnnotationKey, name, scope)
	case len(found) == 1:
		return found[0], nil
	case slices.Contains(found, named):
		return named, nil
	}
	return "", status.BadRequestf("the annotation %s: %.100q is one of the role templates %s: name it", AnnotationKey, name,
		strings.Join(found, ", "))
}
