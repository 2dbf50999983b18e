package rawjson

import "math/bits"

// space returns the position of the first byte from i that is no white space.
func space(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// skip returns the position after the value that starts at i, or -1 if there is no valid one.
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

// text returns the position after the string whose quote is at i.
func text(s string, i int) int {
	if i >= len(s) || s[i] != '"' {
		return -1
	}
	for i++; ; i++ {
		i = plain(s, i)
		if i >= len(s) {
			return -1
		}
		switch s[i] {
		case '"':
			return i + 1
		case '\\':
			if i = escape(s, i+1); i < 0 {
				return -1
			}
		default: // a control character
			return -1
		}
	}
}

// Words of eight equal bytes.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// plain returns the position of the first byte from i that is not an ordinary one of a string: a quote, a backslash or a control
// character. It processes eight bytes at a time.
func plain[T string | []byte](s T, i int) int {
	for ; i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		quote, backslash := w^'"'*ones, w^'\\'*ones
		// The high bit of a byte that is zero, or less than a space. The borrow of a subtraction can
		// only mark a byte above one that is marked rightly, so that the lowest mark is right.
		if m := ((quote-ones)&^quote | (backslash-ones)&^backslash | (w-' '*ones)&^w) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return i
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

// digits returns the position after at least one digit.
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
