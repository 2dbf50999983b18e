package chart

import (
	"fmt"
	"strings"
)

// maxNamed bounds the entries of an index that LeftOut names, and maxReason what it says of each.
const maxNamed, maxReason = 10, 300

// oneLine returns a text without line breaks, for conditions and logs.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Clip returns a text of a chart or an index as one line of UTF-8 with at most about most bytes: what they make this server say is bounded.
func Clip(s string, most int) string {
	s = oneLine(strings.ToValidUTF8(s, "?"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// LeftOut returns a text that says which entries of an index are left out, and why.
func LeftOut(bad []string) string {
	out := fmt.Sprintf("%d entries are left out", len(bad))
	for i, b := range bad[:min(len(bad), maxNamed)] {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		out += separator + Clip(b, maxReason)
	}
	return out
}
