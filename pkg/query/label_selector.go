package query

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Op is how a Requirement compares.
type Op uint8

// The comparisons. NotIn holds for a missing key, as in Kubernetes; Differs needs the key.
const (
	Exists Op = iota
	Missing
	In
	NotIn
	Differs
	Greater
	Less
)

// Requirement is a condition on one label or annotation. Its values are sorted.
type Requirement struct {
	Key    string
	Op     Op
	Values []string
}

func (r *Requirement) has(value string) bool {
	_, ok := slices.BinarySearch(r.Values, value)
	return ok
}

// Match reports whether the requirement holds for a key that has the value, or that is missing.
func (r *Requirement) Match(value string, found bool) bool {
	switch r.Op {
	case Exists:
		return found
	case Missing:
		return !found
	case In:
		return found && r.has(value)
	case NotIn:
		return !found || !r.has(value)
	case Differs:
		return found && !r.has(value)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if !found || err != nil {
		return false
	}
	bound, _ := strconv.ParseInt(r.Values[0], 10, 64) // labels.Parse has validated it
	return r.Op == Greater && n > bound || r.Op == Less && n < bound
}

// parseAlternatives parses label selectors with `|` between them, of which one must hold.
func parseAlternatives(s string) ([][]Requirement, error) {
	var out [][]Requirement
	total := 0
	for one := range strings.SplitSeq(s, "|") {
		reqs, err := parseSelector(one)
		if err != nil {
			return nil, err
		}
		if total += len(reqs) + 1; total > maxRequirements {
			return nil, fmt.Errorf("more than %d requirements", maxRequirements)
		}
		out = append(out, reqs)
	}
	return out, nil
}

// parseSelector parses one label selector in the syntax of Kubernetes.
func parseSelector(s string) ([]Requirement, error) {
	sel, err := labels.Parse(s)
	if err != nil {
		return nil, err
	}
	reqs, selectable := sel.Requirements()
	if !selectable {
		return nil, errors.New("it can match nothing")
	}
	out := make([]Requirement, 0, len(reqs))
	for _, r := range reqs {
		op, err := opOf(r.Operator())
		if err != nil {
			return nil, err
		}
		values := r.ValuesUnsorted()
		slices.Sort(values)
		out = append(out, Requirement{Key: r.Key(), Op: op, Values: values})
	}
	return out, nil
}

func opOf(op selection.Operator) (Op, error) {
	switch op {
	case selection.Exists:
		return Exists, nil
	case selection.DoesNotExist:
		return Missing, nil
	case selection.Equals, selection.DoubleEquals, selection.In:
		return In, nil
	case selection.NotEquals, selection.NotIn:
		return NotIn, nil
	case selection.GreaterThan:
		return Greater, nil
	case selection.LessThan:
		return Less, nil
	}
	return 0, fmt.Errorf("unknown operator %q", op)
}

// parsePairs parses the filters `label` and `annotation`: a label selector, or one pair whose value may be any text, or `key=*` for an
// existing key. needKey makes `key!=value` require the key.
func parsePairs(s string, needKey bool) ([]Requirement, error) {
	if reqs, err := parseSelector(s); err == nil {
		if len(reqs) > maxRequirements {
			return nil, fmt.Errorf("more than %d requirements", maxRequirements)
		}
		for i := range reqs {
			if needKey && reqs[i].Op == NotIn {
				reqs[i].Op = Differs
			}
		}
		return reqs, nil
	}
	key, value, ok := strings.Cut(s, "=")
	if !ok {
		key, missing := strings.CutPrefix(s, "!")
		if key = strings.TrimSpace(key); key == "" {
			return nil, errors.New("no key")
		}
		if missing {
			return []Requirement{{Key: key, Op: Missing}}, nil
		}
		return []Requirement{{Key: key}}, nil
	}
	op := In
	key, differs := strings.CutSuffix(key, "!")
	switch {
	case differs && needKey:
		op = Differs
	case differs:
		op = NotIn
	default:
		value = strings.TrimPrefix(value, "=")
		if value == "*" {
			op = Exists
		}
	}
	if key = strings.TrimSpace(key); key == "" {
		return nil, errors.New("no key")
	}
	return []Requirement{{Key: key, Op: op, Values: []string{value}}}, nil
}
