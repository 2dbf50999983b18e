package chart

import (
	"strings"
)

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
