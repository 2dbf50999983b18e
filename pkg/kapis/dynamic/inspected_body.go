package dynamic

import (
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/status"
)

// scalar is a string in an object.
type scalar struct {
	set   bool
	null  bool // set, but to nothing
	value string
}

// object is what is checked of an object, or of a patch that looks like one.
type object struct {
	text                             string
	apiVersion, kind                 scalar
	name, namespace, resourceVersion scalar
	// workspace is the label of the workspace that the object belongs to.
	workspace scalar
	// directive is the first $patch or $retainKeys that concerns the labels, empty where there is none.
	directive string
}

const workspaceLabel = "kubesphere.io/workspace"

// inspect reads the members that are checked. Readers of JSON differ in what a second member of one name means, and some ignore case;
// so each of them may occur once, in its own spelling.
func inspect(text string) (*object, error) {
	if !strings.HasPrefix(text, "{") {
		return nil, status.BadRequestf("the body must be a JSON object")
	}
	o := &object{text: text}
	var metadata, labels string
	if err := o.read(text, "", map[string]any{"apiVersion": &o.apiVersion, "kind": &o.kind, "metadata": &metadata}); err != nil {
		return nil, err
	}
	if err := o.read(metadata, "metadata.", map[string]any{
		"name": &o.name, "namespace": &o.namespace, "resourceVersion": &o.resourceVersion, "labels": &labels,
	}); err != nil {
		return nil, err
	}
	return o, o.read(labels, "metadata.labels.", map[string]any{workspaceLabel: &o.workspace})
}

// read fills wanted with members of a JSON object: a *scalar, or a *string for the text of an object.
func (o *object) read(text, path string, wanted map[string]any) error {
	seen := map[string]bool{}
	for m := rawjson.Object(text); m.Next(); {
		key := m.Key
		if o.directive == "" && (key == "$patch" || key == "$retainKeys") {
			o.directive = path + key
		}
		into := wanted[key]
		if into == nil {
			for name := range wanted {
				if strings.EqualFold(name, key) && path != "metadata.labels." {
					return status.BadRequestf("the body has %s%s: it is written %s%s", path, key, path, name)
				}
			}
			continue
		}
		if seen[key] {
			return status.BadRequestf("the body has %s%s twice", path, key)
		}
		seen[key] = true
		switch into := into.(type) {
		case *scalar:
			if m.Value != "null" && m.Value[0] != '"' {
				return status.BadRequestf("%s%s in the body must be a string", path, key)
			}
			*into = scalar{set: true, null: m.Value == "null", value: rawjson.Text(m.Value)}
		case *string:
			if m.Value != "null" && m.Value[0] != '{' {
				return status.BadRequestf("%s%s in the body must be an object", path, key)
			}
			*into = m.Value
		}
	}
	return nil
}

// put sets a string in the object.
func (o *object) put(value string, path ...string) { o.text = with(o.text, quote(value), path...) }
