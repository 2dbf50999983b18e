package bodyredaction

import "strings"

// maxSteps bounds the path of an operation that is followed.
const maxSteps = 100

// operation replaces the secrets in an element of a list that is a body: an operation of a JSON patch (RFC 6902), or else an object.
func operation(v any, f *fields) any {
	m, ok := v.(map[string]any)
	if !ok {
		return clean(v, f)
	}
	for key := range m {
		if fold(key) != "path" {
			continue
		}
		path, ok := m[key].(string)
		out := clean(without(m, "value"), f)
		for name, value := range m {
			if fold(name) != "value" {
				continue
			}
			if !ok {
				value = whole(value)
			} else {
				value = at(path, value, f)
			}
			out.(map[string]any)[name] = value //nolint:errcheck,forcetypeassert // clean returns an object for one
		}
		return out
	}
	return clean(v, f)
}

// without returns a copy without the members of a name.
func without(m map[string]any, name string) map[string]any {
	out := make(map[string]any, len(m))
	for key, v := range m {
		if fold(key) != name {
			out[key] = v
		}
	}
	return out
}

// at returns the value that is written at a JSON pointer (RFC 6901) without its secrets: what is left of it in an object that has nothing
// else.
func at(pointer string, value any, f *fields) any {
	if pointer == "" {
		return clean(value, f)
	}
	steps := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	if len(steps) > maxSteps || unnamed(steps) {
		return whole(value)
	}
	for n := len(steps) - 1; n >= 0; n-- {
		steps[n] = strings.NewReplacer("~1", "/", "~0", "~").Replace(steps[n])
		value = map[string]any{steps[n]: value}
	}
	value = clean(value, f)
	for _, step := range steps {
		m, ok := value.(map[string]any)
		if !ok {
			return Redacted
		}
		if value, ok = m[step]; !ok {
			return Redacted
		}
	}
	return value
}

// unnamed reports whether the path leads to a value whose name the patch does not tell: that of an environment variable, or an argument.
func unnamed(steps []string) bool {
	last := len(steps) - 1
	if last < 1 {
		return false
	}
	if fold(steps[last]) == "value" {
		return true
	}
	parent := fold(steps[last-1])
	return parent == "args" || parent == "command"
}
