package query

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

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
