package helm

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// hidden is what is said in the place of a text of the values.
const hidden = "(value)"

// redactor replaces the texts of the values in what a child says: a template may print them, and errors of kube-apiserver quote them.
// Texts of fewer than eight characters stay, since they are words of every message; those of SecretValues from four on are replaced.
type redactor struct{ replacer *strings.Replacer }

func newRedactor(r *Request) (*redactor, error) {
	found := map[string]bool{}
	for _, from := range []struct {
		name  string
		text  []byte
		least int
	}{{"values", r.Values, 8}, {"secret values", r.SecretValues, 4}} {
		var v map[string]any
		if err := yaml.Unmarshal(from.text, &v); err != nil {
			// The parser's error quotes what it read.
			return nil, &Error{Reason: ReasonInvalid, Message: fmt.Sprintf("Helm operation: the %s are not a YAML mapping", from.name)}
		}
		texts(v, func(s string) {
			for _, part := range append(strings.Split(s, "\n"), s) {
				if part = strings.TrimSpace(part); len(part) < from.least || part == r.Name || part == r.Namespace {
					continue
				}
				quoted := strconv.Quote(part)
				found[part], found[quoted[1:len(quoted)-1]] = true, true
			}
			if len(s) >= from.least {
				found[base64.StdEncoding.EncodeToString([]byte(s))] = true
			}
		})
	}
	for _, s := range []string{r.Cluster.Token, string(r.Cluster.Key)} {
		if s != "" {
			found[s] = true
		}
	}
	// The longest first: one text may be a part of another.
	all := make([]string, 0, len(found))
	for s := range found {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(all))
	for _, s := range all {
		pairs = append(pairs, s, hidden)
	}
	return &redactor{strings.NewReplacer(pairs...)}, nil
}

func (r *redactor) text(s string) string { return r.replacer.Replace(s) }

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
