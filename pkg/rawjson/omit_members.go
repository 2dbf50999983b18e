package rawjson

// Cut names members that are left out of an object: one whose own Cut is nil is left out as a whole; in another one, its Cut is applied.
// A value that is no object is copied as it is.
type Cut map[string]Cut

// Cuts returns a Cut of paths.
func Cuts(paths ...[]string) Cut {
	root := Cut{}
	for _, path := range paths {
		at := root
		for i, step := range path {
			if i == len(path)-1 {
				at[step] = nil
				break
			}
			below, ok := at[step]
			if ok && below == nil {
				break // a wider cut is already there
			}
			if !ok {
				below = Cut{}
				at[step] = below
			}
			at = below
		}
	}
	return root
}

// AppendWithout appends the object s without the members that c names, after the members in front (JSON text such as `"kind":"Pod"`,
// empty for none). It fails if s is not exactly one valid object, and reads s once. It is idempotent: applied to its own output, it
// changes nothing.
func AppendWithout(dst []byte, s, front string, c Cut) ([]byte, error) {
	w := cutter{s: s, dst: dst}
	i := space(s, 0)
	if i < len(s) && s[i] == '{' {
		i = w.object(i, 0, front, c)
	} else {
		i = -1
	}
	if i < 0 || space(s, i) != len(s) {
		return w.dst, ErrSyntax
	}
	return w.dst, nil
}

// cutter copies the remaining members of s to dst.
type cutter struct {
	s   string
	dst []byte
}

// object copies the object that starts at i, and returns the position after it, or -1 if it is broken.
func (w *cutter) object(i, depth int, front string, c Cut) int {
	if depth > maxDepth {
		return -1
	}
	s := w.s
	w.dst = append(append(w.dst, '{'), front...)
	first := front == ""
	i = space(s, i+1)
	if i < len(s) && s[i] == '}' {
		w.dst = append(w.dst, '}')
		return i + 1
	}
	from, to := -1, 0 // adjacent members that remain and are not yet copied
	for {
		key, start := i, member(s, i)
		if start < 0 || start >= len(s) {
			return -1
		}
		below, named := c[name(s, key)]
		nested := named && below != nil && s[start] == '{'
		plain := !named || below != nil && !nested
		if from >= 0 && (!plain || key != to+1) {
			first = w.flush(from, to, first)
			from = -1
		}
		if nested {
			first = w.flush(key, start, first)
			i = w.object(start, depth+1, "", below)
		} else {
			i = skip(s, start, depth+1)
		}
		if i < 0 {
			return -1
		}
		if plain {
			if from < 0 {
				from = key
			}
			to = i
		}
		if i = space(s, i); i >= len(s) || s[i] != ',' {
			break
		}
		i = space(s, i+1)
	}
	if i >= len(s) || s[i] != '}' {
		return -1
	}
	if from >= 0 {
		w.flush(from, to, first)
	}
	w.dst = append(w.dst, '}')
	return i + 1
}

// flush copies members, after a comma if they are not the first. It returns whether the next ones are the first: always false.
func (w *cutter) flush(from, to int, first bool) bool {
	if !first {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(w.dst, w.s[from:to]...)
	return false
}
