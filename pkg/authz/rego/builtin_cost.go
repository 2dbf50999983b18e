package rego

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

const (
	// maxShift bounds the bits that a number is shifted by, and maxRange the numbers of a range.
	maxShift = 4096
	maxRange = 10_000
	// maxPattern bounds the instructions of a regular expression, and maxCompare the cost of a comparison of all with all, or with a
	// pattern.
	maxPattern = 2_000
	maxCompare = 4 << 20
)

// growth has the functions whose result, or time, is not in proportion to the operands. Each returns how large the result may be, and an
// error if it would take too long. The operands are within their bounds.
var growth = map[string]func(operands []*ast.Term) (int, error){
	"bits.lsh":                         shifted,
	"numbers.range":                    numbersInRange,
	"numbers.range_step":               numbersInRange,
	"concat":                           concatenated,
	"replace":                          replaced,
	"strings.replace_n":                replacedEach,
	"sprintf":                          formatted,
	"regex.match":                      matched,
	"re_match":                         matched,
	"regex.is_valid":                   matched,
	"regex.split":                      matched,
	"regex.find_n":                     matched,
	"regex.find_all_string_submatch_n": submatched,
	"regex.replace":                    regexReplaced,
	"glob.match":                       globMatched,
	"object.subset":                    compared,
	"strings.any_prefix_match":         compared,
	"strings.any_suffix_match":         compared,
}

var (
	errTooLong    = errors.New("it would take too long")
	errTooComplex = fmt.Errorf("the regular expression has more than %d instructions", maxPattern)
)

func weight(t *ast.Term) int { return (&budget{}).weigh(t) }

// str returns a string operand, or "" if it is none; the function itself then refuses it.
func str(t *ast.Term) string {
	s, _ := t.Value.(ast.String)
	return string(s)
}

// times is a product that can't overflow: neither factor is much larger than a weight.
func times(a, b int) int { return int(min(int64(a)*int64(b), 1<<40)) }

func shifted(o []*ast.Term) (int, error) {
	by, ok := o[1].Value.(ast.Number)
	n, small := by.Int64()
	if !ok || !small || n > maxShift {
		return 0, fmt.Errorf("a number is shifted by %d bits at most", maxShift)
	}
	return weight(o[0]) + maxShift/3, nil
}

func numbersInRange(o []*ast.Term) (int, error) {
	var n [3]int64
	n[2] = 1
	for i := range min(len(o), 3) {
		number, ok := o[i].Value.(ast.Number)
		if !ok {
			continue // the rest is where the result goes
		}
		v, small := number.Int64()
		if !small || v > 1<<32 || v < -1<<32 {
			return 0, errors.New("the numbers of a range are integers of 32 bits")
		}
		n[i] = v
	}
	count := max(n[1]-n[0], n[0]-n[1]) + 1
	if n[2] > 0 {
		count = count/n[2] + 1
	}
	if count > maxRange+1 {
		return 0, fmt.Errorf("a range has %d numbers at most", maxRange)
	}
	return int(count) * 4, nil
}

func concatenated(o []*ast.Term) (int, error) {
	return times(len(str(o[0])), length(o[1])) + weight(o[1]), nil
}

// length returns the number of elements of a collection.
func length(t *ast.Term) int {
	if l, ok := t.Value.(interface{ Len() int }); ok {
		return l.Len()
	}
	return 1
}

func replaced(o []*ast.Term) (int, error) {
	return times(len(str(o[0]))+1, len(str(o[2]))+1), nil
}

func replacedEach(o []*ast.Term) (int, error) {
	longest := 0
	if patterns, ok := o[0].Value.(ast.Object); ok {
		patterns.Foreach(func(_, value *ast.Term) { longest = max(longest, len(str(value))) })
	}
	return times(len(str(o[1]))+1, longest+1), nil
}

// formatted bounds a text by its verbs, each of which prints all operands at most, and refuses wide ones.
func formatted(o []*ast.Term) (int, error) {
	format := str(o[0])
	verbs, run := 0, 0
	for i := range len(format) {
		switch c := format[i]; {
		case c == '%':
			verbs++
			run = 0
		case c == '*':
			return 0, errors.New("a width can't be an argument")
		case c >= '0' && c <= '9' && verbs > 0:
			if run++; run > 3 {
				return 0, errors.New("a width has three digits at most")
			}
		default:
			run = 0
		}
	}
	const widest = 1000
	made := len(format)
	if strings.ContainsAny(format, "0123456789") {
		made += times(verbs, widest)
	}
	return made + times(verbs, weight(o[1])), nil
}

// instructions returns the approximate size of a compiled regular expression, in which repetitions are written out.
func instructions(pattern string) (int, error) {
	if len(pattern) > maxPattern {
		return 0, errTooComplex
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, nil //nolint:nilerr // the function refuses it, or says that it isn't one
	}
	n := expanded(re)
	if n > maxPattern {
		return 0, errTooComplex
	}
	return n, nil
}

func expanded(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n = min(n+expanded(sub), 1<<30)
	}
	if re.Op == syntax.OpRepeat {
		n = times(n, max(re.Min, re.Max, 1))
	}
	return min(n, 1<<30)
}

// matched is for functions of a pattern and a text, in this order or the other.
func matched(o []*ast.Term) (int, error) {
	n, err := instructions(str(o[0]))
	if err != nil {
		return 0, err
	}
	longest := 0
	for _, t := range o[1:] {
		longest = max(longest, len(str(t)))
	}
	if times(n, longest) > maxCompare {
		return 0, errTooLong
	}
	return 2 * longest, nil
}

func submatched(o []*ast.Term) (int, error) {
	made, err := matched(o)
	return times(made+1, 1+strings.Count(str(o[0]), "(")), err
}

// regexReplaced is for (text, pattern, replacement): a replacement may name the match, or a group of it, many times.
func regexReplaced(o []*ast.Term) (int, error) {
	n, err := instructions(str(o[1]))
	if err != nil {
		return 0, err
	}
	if times(n, len(str(o[0]))) > maxCompare {
		return 0, errTooLong
	}
	return times(len(str(o[0]))+1, len(str(o[2]))+1), nil
}

// globMatched is for (pattern, delimiters, text): each star of a pattern is tried at each position of the text.
func globMatched(o []*ast.Term) (int, error) {
	const longest = 1024
	pattern, name := str(o[0]), str(o[2])
	if len(pattern) > longest || len(name) > longest {
		return 0, errors.New("patterns and texts have " + strconv.Itoa(longest) + " bytes at most")
	}
	takes := len(pattern) + len(name) + 1
	for i := range len(pattern) {
		if pattern[i] == '*' && (i == 0 || pattern[i-1] != '*') {
			takes = times(takes, len(name)+1)
		}
	}
	if strings.Count(pattern, "{") > 8 || takes > 16*maxCompare {
		return 0, errTooLong
	}
	return 1, nil
}

// compared is for functions that compare each element of one operand with each of the other.
func compared(o []*ast.Term) (int, error) {
	if times(length(o[0]), weight(o[1])) > maxCompare || times(length(o[1]), weight(o[0])) > maxCompare {
		return 0, errTooLong
	}
	return 1, nil
}
