package rawjson

// space returns the position of the first byte from i that is no white space.
func space(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// skip returns the position behind the value that starts at i, -1 where there is no valid one.
func skip(s string, i, depth int) int {
	if i >= len(s) || depth > maxDepth {
		return -1
	}
	switch c := s[i]; c {
	case '"':
		return text(s, i)
	case '{':
		return object(s, i, depth)
	case '[':
		return array(s, i, depth)
	case 't':
		return literal(s, i, "true")
	case 'f':
		return literal(s, i, "false")
	case 'n':
		return literal(s, i, "null")
	default:
		return number(s, i)
	}
}

func object(s string, i, depth int) int {
	i = space(s, i+1)
	if i < len(s) && s[i] == '}' {
		return i + 1
	}
	for {
		if i = text(s, i); i < 0 {
			return -1
		}
		if i = space(s, i); i >= len(s) || s[i] != ':' {
			return -1
		}
		if i = skip(s, space(s, i+1), depth+1); i < 0 {
			return -1
		}
		if i = space(s, i); i >= len(s) {
			return -1
		}
		if s[i] == '}' {
			return i + 1
		}
		if s[i] != ',' {
			return -1
		}
		i = space(s, i+1)
	}
}

func array(s string, i, depth int) int {
	i = space(s, i+1)
	if i < len(s) && s[i] == ']' {
		return i + 1
	}
	for {
		if i = skip(s, i, depth+1); i < 0 {
			return -1
		}
		if i = space(s, i); i >= len(s) {
			return -1
		}
		if s[i] == ']' {
			return i + 1
		}
		if s[i] != ',' {
			return -1
		}
		i = space(s, i+1)
	}
}

// text returns the position behind the string whose quote is at i.
func text(s string, i int) int {
	if i >= len(s) || s[i] != '"' {
		return -1
	}
	for i++; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = escape(s, i+1); i < 0 {
				return -1
			}
		case c < ' ':
			return -1
		}
	}
	return -1
}

// escape returns the position of the last byte of the escape whose letter is at i.
func escape(s string, i int) int {
	if i >= len(s) {
		return -1
	}
	switch s[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		if i+4 >= len(s) {
			return -1
		}
		for _, c := range []byte(s[i+1 : i+5]) {
			if ('0' > c || c > '9') && ('a' > c || c > 'f') && ('A' > c || c > 'F') {
				return -1
			}
		}
		return i + 4
	}
	return -1
}

func literal(s string, i int, word string) int {
	if len(s)-i < len(word) || s[i:i+len(word)] != word {
		return -1
	}
	return i + len(word)
}

func number(s string, i int) int {
	if i < len(s) && s[i] == '-' {
		i++
	}
	if i < len(s) && s[i] == '0' {
		i++
	} else if i = digits(s, i); i < 0 {
		return -1
	}
	if i < len(s) && s[i] == '.' {
		if i = digits(s, i+1); i < 0 {
			return -1
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		return digits(s, i)
	}
	return i
}

// digits returns the position behind at least one digit.
func digits(s string, i int) int {
	start := i
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}
