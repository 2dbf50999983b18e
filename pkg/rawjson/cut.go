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
// such as `"kind":"Pod"`, empty for none). It fails where s is not exactly one valid object.
// What it makes, it leaves as it is: AppendWithout of its own output changes nothing.
func AppendWithout(dst []byte, s, front string, c Cut) ([]byte, error) {
	dst = append(dst, '{')
	dst = append(dst, front...)
	first := front == ""
	m := Object(s)
	for m.Next() {
		below, named := c[m.Key]
		if named && below == nil {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if !named || m.Value[0] != '{' {
			dst = append(dst, s[m.key:m.at]...)
			continue
		}
		dst = append(dst, s[m.key:m.at-len(m.Value)]...)
		var err error
		if dst, err = AppendWithout(dst, m.Value, "", below); err != nil {
			return dst, err
		}
	}
	if m.Err() != nil || space(s, m.at) != len(s) {
		return dst, ErrSyntax
	}
	return append(dst, '}'), nil
}
