package rawjson

// Span returns the start and end of the value at path in s, whose steps are names of members; ok is false if there is none.
func Span(s string, path ...string) (start, end int, ok bool) {
	end = len(s)
	for _, step := range path {
		m := Object(s[start:end])
		for m.Next() && m.Key != step { //nolint:revive // Next does it
		}
		if m.Value == "" {
			return 0, 0, false
		}
		end = start + m.at
		start = end - len(m.Value)
	}
	return start, end, true
}
