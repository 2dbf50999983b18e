package bodyredaction

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Redacted is what stands for a secret.
const Redacted = "REDACTED"

// Body is what a request or an answer has.
type Body struct {
	Text []byte
	// YAML says that it is YAML, and not JSON.
	YAML bool
	// Resources are the names of the resource that the request is for, of all kinds that it is an alias of.
	Resources []string
	// Namespace is that of the request; empty for none.
	Namespace string
	// Failure says that it is an answer that refuses the request.
	Failure bool
}

// JSON returns the body as JSON without its secrets, or nil for one that can't be parsed.
func (b *Body) JSON() []byte {
	text := b.Text
	if b.YAML {
		// A few anchors make a document of gigabytes.
		if bytes.IndexByte(text, '&') >= 0 && bytes.IndexByte(text, '*') >= 0 {
			return nil
		}
		var err error
		if text, err = yaml.YAMLToJSON(text); err != nil {
			return nil
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	if _, err := d.Token(); err != io.EOF { //nolint:errorlint // it is not wrapped
		return nil
	}
	switch v.(type) {
	case map[string]any, []any:
	default: // no object of the API
		return nil
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(b.redact(v)) != nil {
		return nil
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'})
}

func (b *Body) redact(v any) any {
	if b.Failure {
		if _, ok := v.(map[string]any); !ok {
			return Redacted
		}
		return clean(v, failure)
	}
	var f *fields
	for _, resource := range b.Resources {
		f = f.and(ofResource(resource))
		if fold(resource) == "configmaps" && b.Namespace == platformNamespace {
			f = f.and(configuration)
		}
	}
	if all, ok := v.([]any); ok {
		for n := range all {
			all[n] = operation(all[n], f)
		}
		return all
	}
	return clean(v, f)
}

// clean replaces the secrets within v, of which f are fields that are hidden.
func clean(v any, f *fields) any {
	switch v := v.(type) {
	case map[string]any:
		return object(v, f)
	case []any:
		for n := range v {
			if n > 0 && isFlag(v[n-1]) {
				v[n] = seal(v[n])
				continue
			}
			v[n] = clean(v[n], f)
		}
		return v
	case string:
		if hasSecret(v) || hasSecret(fromBase64(v)) {
			return Redacted
		}
	}
	return v
}

// fromBase64 returns the text that another is in base64, "" for none.
func fromBase64(s string) string {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil || !utf8.Valid(raw) {
		return ""
	}
	return string(raw)
}

// isFlag reports whether v is an argument whose value, a secret, is the next one.
func isFlag(v any) bool {
	s, ok := v.(string)
	return ok && flag.MatchString(s) && isSecret(fold(s))
}

func object(m map[string]any, f *fields) any {
	named := false // it is a name and a value, as in the environment of a container
	for key, v := range m {
		s, ok := v.(string)
		if !ok {
			continue
		}
		switch fold(key) {
		case "kind":
			f = f.and(ofKind(s))
		case "name", "key":
			named = named || isSecret(fold(s))
		}
	}
	if isConfiguration(m) {
		f = f.and(configuration)
	}
	for key, v := range m {
		name := fold(key)
		below := f.at(name)
		if name == "items" || name == "object" { // of a list, and of the row of a Table
			below = below.and(f)
		}
		switch {
		case below != nil && below.all:
			m[key] = whole(v)
		case name == "managedfields":
			delete(m, key) // they repeat the elements of sets
		case name == "kubectl.kubernetes.io/last-applied-configuration", named && name == "value":
			m[key] = whole(v)
		case isSecret(name):
			m[key] = sealed(v, strings.HasSuffix(name, "ref"))
		default:
			m[key] = clean(v, below)
		}
	}
	return m
}

// isConfiguration reports whether an object, which has no kind as an item of a list, is a ConfigMap of the platform.
func isConfiguration(m map[string]any) bool {
	meta, _ := m["metadata"].(map[string]any)
	if meta["namespace"] != platformNamespace {
		return false
	}
	return m["data"] != nil || m["binaryData"] != nil
}

// whole hides a value with everything in it, but shows that there is none.
func whole(v any) any {
	if v == nil {
		return nil
	}
	return Redacted
}

func seal(v any) any { return sealed(v, false) }

// sealed hides a value under the name of a secret. Of an object, members stay that say where the secret is; ref is whether the name ends
// in Ref.
func sealed(v any, ref bool) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case map[string]any:
		for key, x := range v {
			if _, nested := x.(map[string]any); !nested && isReference(fold(key), ref) {
				v[key] = clean(x, nil)
				continue
			}
			v[key] = sealed(x, ref)
		}
		return v
	case []any:
		for n := range v {
			v[n] = sealed(v[n], ref)
		}
		return v
	}
	return Redacted
}
