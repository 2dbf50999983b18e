package rawjson

// Cut names members that are left out of an object: one whose own Cut is nil goes whole, another is
// kept without what its Cut names. A value that is no object is kept as it is.
type Cut map[string]Cut

// Cuts makes a Cut of paths.
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
				break // a wider cut is there already
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

// AppendWithout appends the object s without what c names, behind the members in front (JSON text
// such as `"kind":"Pod"`, empty for none). It fails where s is not exactly one valid object, and reads
// s once. What it makes, it leaves as it is: AppendWithout of its own output changes nothing.
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

// cutter copies the members of s that are kept to dst.
type cutter struct {
	s   string
	dst []byte
}

// object copies the object that starts at i, and returns the position behind it, -1 where it is broken.
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
	from, to := -1, 0 // members that stand together, are kept, and are not yet copied
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

// flush copies members, behind a comma where they are not the first. It returns that the next are not.
func (w *cutter) flush(from, to int, first bool) bool {
	if !first {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(w.dst, w.s[from:to]...)
	return false
}
