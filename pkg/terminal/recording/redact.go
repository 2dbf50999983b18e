package recording

import (
	"bytes"
	"regexp"
	"slices"
	"time"
)

const (
	// redacted takes the place of what a pattern matches.
	redacted = "REDACTED"
	// lineEnds are the bytes that end a line.
	lineEnds = "\r\n"
	// hold is how long the beginning of a line waits for its rest.
	hold = time.Second
	// maxLine is how much of a line waits, in bytes, and lineContext how much of a longer one is still matched with what follows.
	maxLine     = 16 << 10
	lineContext = 1 << 10
)

// redactor replaces in each line what patterns match. The end of a line waits for its rest; what has been passed on of it is matched with
// the rest, so that a text which was cut in two is replaced from the cut on.
type redactor struct {
	patterns []*regexp.Regexp
	line     []byte // the line that has not ended
	passed   int    // how much of it was passed on
}

// add returns what is known to be redacted after p came.
func (r *redactor) add(p []byte) []byte {
	var out []byte
	for len(p) > 0 {
		n := bytes.IndexAny(p, lineEnds) + 1
		if n == 0 {
			r.line = append(r.line, p...)
			break
		}
		r.line = append(r.line, p[:n]...)
		p = p[n:]
		out = append(out, r.flush()...)
		r.line, r.passed = r.line[:0], 0
	}
	if len(r.line) > maxLine {
		out = append(out, r.flush()...)
		r.line = append(r.line[:0], r.line[len(r.line)-lineContext:]...)
		r.passed = len(r.line)
	}
	return out
}

// waiting reports whether the beginning of a line waits for its rest.
func (r *redactor) waiting() bool { return r.passed < len(r.line) }

// flush returns the text that waits for the end of its line.
func (r *redactor) flush() []byte {
	if !r.waiting() {
		return nil
	}
	var out []byte
	at := r.passed
	for _, m := range r.matches() {
		if m[1] <= at {
			continue
		}
		out = append(append(out, r.line[at:max(at, m[0])]...), redacted...)
		at = m[1]
	}
	out = append(out, r.line[at:]...)
	r.passed = len(r.line)
	return out
}

// matches returns what the patterns match in the line, in order. What overlaps is one match.
func (r *redactor) matches() [][2]int {
	end := bytes.TrimRight(r.line, lineEnds)
	var all [][2]int
	for _, p := range r.patterns {
		for _, m := range p.FindAllIndex(end, -1) {
			if m[0] < m[1] {
				all = append(all, [2]int{m[0], m[1]})
			}
		}
	}
	slices.SortFunc(all, func(a, b [2]int) int { return a[0] - b[0] })
	merged := all[:0]
	for _, m := range all {
		if last := len(merged) - 1; last >= 0 && m[0] < merged[last][1] {
			merged[last][1] = max(merged[last][1], m[1])
			continue
		}
		merged = append(merged, m)
	}
	return merged
}
