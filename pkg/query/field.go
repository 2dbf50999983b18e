package query

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// FieldOp is how a FieldRequirement compares.
type FieldOp uint8

// The comparisons of fields. A field that is not there has the value "".
const (
	Is FieldOp = iota
	IsNot
	// IsFold is equality in any case.
	IsFold
)

// FieldRequirement is a condition on one field of the object.
type FieldRequirement struct {
	Path  Path
	Op    FieldOp
	Value string
}

// Match reports whether the requirement holds for a field with that value.
func (f *FieldRequirement) Match(value string) bool {
	switch f.Op {
	case IsNot:
		return value != f.Value
	case IsFold:
		return strings.EqualFold(value, f.Value)
	default:
		return value == f.Value
	}
}

// Path is the path of a field in an object: the names of members, and the indices of array elements.
type Path []string

// String returns the path in a form that ParsePath reads, and that can be part of a list and of a field selector.
func (p Path) String() string {
	var b strings.Builder
	for _, step := range p {
		if step == "" || strings.ContainsFunc(step, isSpecial) {
			b.WriteString("['" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(step) + "']")
			continue
		}
		b.WriteString("." + step)
	}
	return b.String()
}

// isSpecial reports whether a step with c in it is written in quotes.
func isSpecial(c rune) bool {
	return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
}

// Is reports whether p has exactly these steps.
func (p Path) Is(steps ...string) bool { return slices.Equal(p, steps) }

// maxSteps bounds the length of a path.
const maxSteps = 32

// ParsePath parses a path such as `metadata.name`, `.spec.replicas`, `status.conditions[0].type`,
// `metadata.labels['kubesphere.io/workspace']`. A leading `$` and braces around it, as in JSONPath, are allowed.
func ParsePath(s string) (Path, error) {
	text := s
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		if text, ok = strings.CutSuffix(inner, "}"); !ok {
			return nil, fmt.Errorf("path %q: no closing brace", s)
		}
	}
	text = strings.TrimPrefix(text, "$")
	if text != "" && text[0] != '.' && text[0] != '[' {
		text = "." + text
	}
	var p Path
	for text != "" {
		step, rest, err := nextStep(text)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", s, err)
		}
		if p, text = append(p, step), rest; len(p) > maxSteps {
			return nil, fmt.Errorf("path %q: more than %d steps", s, maxSteps)
		}
	}
	if len(p) == 0 {
		return nil, errors.New("empty path")
	}
	return p, nil
}

// nextStep parses one step of a path that begins with a dot or a bracket.
func nextStep(s string) (step, rest string, err error) {
	switch {
	case strings.HasPrefix(s, "['"), strings.HasPrefix(s, `["`):
		return quotedStep(s)
	case s[0] == '[':
		end := strings.IndexByte(s, ']')
		if end < 2 || strings.Trim(s[1:end], "0123456789") != "" {
			return "", "", errors.New("want [number] or ['name']")
		}
		return s[1:end], s[end+1:], nil
	case s[0] == '.':
		end := strings.IndexAny(s[1:], ".[")
		if end < 0 {
			end = len(s) - 1
		}
		if end == 0 {
			return "", "", errors.New("an empty step")
		}
		return s[1 : end+1], s[end+1:], nil
	}
	return "", "", fmt.Errorf("unexpected %q", s[0])
}

func quotedStep(s string) (step, rest string, err error) {
	quote := s[1]
	var b strings.Builder
	for i := 2; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == quote:
			if i+1 >= len(s) || s[i+1] != ']' {
				return "", "", errors.New("want a bracket after the quote")
			}
			return b.String(), s[i+2:], nil
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", errors.New("no closing quote")
}

// parseFields parses a field selector: conditions joined by commas. A backslash removes the special meaning of the byte after it, as in
// the field selectors of Kubernetes.
func parseFields(s string) ([]FieldRequirement, error) {
	var out []FieldRequirement
	for rest := s; rest != ""; {
		var one string
		if one, rest = cutTerm(rest); one == "" {
			continue
		}
		f, err := parseField(one)
		if err != nil {
			return nil, err
		}
		if out = append(out, f); len(out) > maxFields {
			return nil, fmt.Errorf("more than %d requirements", maxFields)
		}
	}
	return out, nil
}

// cutTerm cuts s at its first comma that no backslash precedes and that is not in a bracket of the path.
func cutTerm(s string) (term, rest string) {
	path := true
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			if path { // in a value it is text
				i = bracketEnd(s, i)
			}
		case '=':
			path = false
		case ',':
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// bracketEnd returns the position of the last byte of the bracket that begins at i, or len(s) if it has no end.
func bracketEnd(s string, i int) int {
	if i+1 < len(s) && (s[i+1] == '\'' || s[i+1] == '"') {
		quote := s[i+1]
		for i += 2; i < len(s) && s[i] != quote; i++ {
			if s[i] == '\\' {
				i++
			}
		}
	}
	for i < len(s) && s[i] != ']' {
		i++
	}
	return i
}

func parseField(s string) (FieldRequirement, error) {
	at := operatorAt(s)
	if at < 0 {
		return FieldRequirement{}, fmt.Errorf("%q has no operator", s)
	}
	var f FieldRequirement
	key, value := s[:at], s[at:]
	switch {
	case strings.HasPrefix(value, "!="):
		f.Op, value = IsNot, value[2:]
	case strings.HasPrefix(value, "=="):
		value = value[2:]
	default:
		value = value[1:]
	}
	if folded, ok := strings.CutPrefix(value, "~"); ok && f.Op == Is {
		f.Op, value = IsFold, folded
	}
	p, err := ParsePath(strings.TrimSpace(key))
	if err != nil {
		return f, err
	}
	f.Path, f.Value = p, unescape(value)
	return f, nil
}

// operatorAt returns where the operator after the path begins.
func operatorAt(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '[':
			i = bracketEnd(s, i)
		case '=':
			return i
		case '!':
			if strings.HasPrefix(s[i:], "!=") {
				return i
			}
		}
	}
	return -1
}

func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		out = append(out, s[i])
	}
	return string(out)
}
