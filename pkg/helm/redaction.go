package helm

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
)

const (
	// hidden is what is said in the place of a text of the values.
	hidden = "(value)"
	// leastInName is how long a secret text has to be to be replaced in names, which consist of words.
	leastInName = 6
	// maxHidden bounds the bytes of the texts that are replaced.
	maxHidden = 8 << 20
)

// Hidden are texts that nothing may say. Its zero value has none.
type Hidden struct {
	texts, names map[string]bool
	size         int
}

// Add adds a text, and each of its lines, that has at least so many bytes, except for what everybody knows: the words of known.
func (h *Hidden) Add(s string, least int, known ...string) {
	for _, part := range append(strings.Split(s, "\n"), s) {
		if part = strings.TrimSpace(part); len(part) < least || slices.Contains(known, part) {
			continue
		}
		quoted := strconv.Quote(part)
		h.text(part)
		h.text(quoted[1 : len(quoted)-1])
	}
	if len(s) >= least && !slices.Contains(known, s) {
		h.text(base64.StdEncoding.EncodeToString([]byte(s)))
	}
}

// AddSecret is Add for a text that is replaced in names of objects, too, in whatever case it is there.
func (h *Hidden) AddSecret(s string, least int, known ...string) {
	h.Add(s, least, known...)
	for part := range strings.SplitSeq(s, "\n") {
		if part = strings.ToLower(strings.TrimSpace(part)); len(part) >= leastInName && len(part) <= 253 && !slices.Contains(known, part) {
			if h.names == nil {
				h.names = map[string]bool{}
			}
			h.names[part] = true
		}
	}
}

func (h *Hidden) text(s string) {
	if h.texts == nil {
		h.texts = map[string]bool{}
	}
	if !h.texts[s] && h.size+len(s) <= maxHidden {
		h.texts[s] = true
		h.size += len(s)
	}
}

// Redactor returns a Redactor that replaces these texts.
func (h *Hidden) Redactor() *Redactor {
	return &Redactor{replacerOf(h.texts), replacerOf(h.names)}
}

// replacerOf replaces texts, the longest first: one may be a part of another.
func replacerOf(texts map[string]bool) *strings.Replacer {
	all := make([]string, 0, len(texts))
	for s := range texts {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(all))
	for _, s := range all {
		pairs = append(pairs, s, hidden)
	}
	return strings.NewReplacer(pairs...)
}

// Redactor replaces texts in what a child says: a template may print values, and errors of kube-apiserver quote them.
type Redactor struct{ texts, names *strings.Replacer }

// Clean replaces the texts in all that a line has for people. Objects that are no more than named for them keep their names, except for
// secret texts in these.
func (r *Redactor) Clean(l *Line) {
	short := func(s *string) { *s = Clip(r.texts.Replace(*s), maxMessage) }
	short(&l.Message)
	if l.Error != nil {
		short(&l.Error.Message)
	}
	if l.Result == nil {
		return
	}
	l.Result.Manifest = r.texts.Replace(l.Result.Manifest)
	for i := range l.Result.Changes {
		c := &l.Result.Changes[i]
		short(&c.Problem)
		c.Object.Name, c.Object.Namespace = r.names.Replace(c.Object.Name), r.names.Replace(c.Object.Namespace)
		for f := range c.Fields {
			short(&c.Fields[f])
		}
	}
	for i := range l.Result.Kept {
		short(&l.Result.Kept[i])
	}
	if l.Result.Release != nil {
		short(&l.Result.Release.Description)
	}
}

func (r *Redactor) text(s string) string { return r.texts.Replace(s) }

// newRedactor returns a redactor that replaces the texts of the values. Those of fewer than eight characters stay, since they are words of
// every message; those of SecretValues are replaced from four characters on.
func newRedactor(r *Request) (*Redactor, error) {
	h := &Hidden{}
	for _, from := range []struct {
		name string
		text []byte
		add  func(string)
	}{
		{"values", r.Values, func(s string) { h.Add(s, 8, r.Name, r.Namespace) }},
		{"secret values", r.SecretValues, func(s string) { h.AddSecret(s, 4, r.Name, r.Namespace) }},
	} {
		var v map[string]any
		if err := boundedyaml.Unmarshal(from.text, &v); err != nil {
			// The parser's error quotes what it read.
			return nil, &Error{Reason: ReasonInvalid, Message: fmt.Sprintf("Helm operation: the %s are not a YAML mapping", from.name)}
		}
		texts(v, from.add)
	}
	for _, s := range []string{r.Cluster.Token, string(r.Cluster.Key)} {
		if s != "" {
			h.text(s)
		}
	}
	return h.Redactor(), nil
}

// texts calls f with all strings in a value.
func texts(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, e := range v {
			texts(e, f)
		}
	case map[string]any:
		for _, e := range v {
			texts(e, f)
		}
	}
}
