package query

import (
	"fmt"
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
