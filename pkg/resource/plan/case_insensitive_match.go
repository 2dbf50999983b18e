package plan

import (
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// word is a text that is looked for in any case. Of words in ASCII, which most are, only the letters A to Z have
// two cases, and looking for them allocates nothing.
type word struct {
	lower string
	ascii bool
	// plain says that no JSON escape and no structure of JSON can be taken for the word, or hide it: where a JSON text has
	// no backslash, it contains the word if its value does.
	plain bool
}

func wordOf(text string) word {
	w := word{lower: strings.ToLower(text), ascii: true, plain: strings.Trim(text, "{}:,") != ""}
	for i := range len(text) {
		w.ascii = w.ascii && text[i] < 0x80
		w.plain = w.plain && text[i] > ' ' && text[i] < 0x7f && !strings.ContainsRune(`"\<>&`, rune(text[i]))
	}
	return w
}

// in reports whether s contains the word.
func (w *word) in(s string) bool {
	if !w.ascii {
		return strings.Contains(strings.ToLower(s), w.lower)
	}
	n := len(w.lower)
	if n == 0 {
		return true
	}
	first, upper := w.lower[0], w.lower[0]
	if 'a' <= first && first <= 'z' {
		upper -= 'a' - 'A'
	}
	for i := 0; i+n <= len(s); i++ {
		if s[i] != first && s[i] != upper {
			continue
		}
		j := 1
		for j < n && lower(s[i+j]) == w.lower[j] {
			j++
		}
		if j == n {
			return true
		}
	}
	return false
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// inPairs reports whether a key or a value contains the word.
func (w *word) inPairs(p index.Pairs) bool {
	if w.plain {
		if !w.in(string(p)) {
			return false
		}
		if strings.IndexByte(string(p), '\\') < 0 {
			return true // only keys and values are between quotes, and the word has no quote
		}
	}
	for m := rawjson.Object(string(p)); m.Next(); {
		if w.in(m.Key) || (!w.plain || w.in(m.Value)) && w.in(rawjson.Text(m.Value)) {
			return true
		}
	}
	return false
}

// inRecord reports whether the name, a label or an annotation contains the word; the alias is an annotation.
func (w *word) inRecord(r *index.Record) bool {
	return w.in(r.Name) || w.inPairs(r.Labels) || w.inPairs(r.Annotations)
}
