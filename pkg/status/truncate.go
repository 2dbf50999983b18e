package status

import "strings"

// Clip returns a text as valid UTF-8 with at most so many bytes, for fields that have a bound.
func Clip(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}

// Excerpt is Clip for messages: "..." after the text says that there is more.
func Excerpt(s string, most int) string {
	if len(s) > most {
		return Clip(s, most) + "..."
	}
	return Clip(s, most)
}
