package request

import (
	"net/url"
	"strings"
)

// Lasts reports whether the length of a request is the choice of its client, or of a workload. Of a list, the query says whether it is a
// live page.
func (i *Info) Lasts(rawQuery string) bool {
	switch i.Subresource {
	case "exec", "attach", "portforward", "proxy":
		return true
	}
	switch i.Verb {
	case "watch", "proxy":
		return true
	case "list": // kube-apiserver has no live pages
		return !i.IsKubernetes && first(rawQuery, "view") == "live"
	}
	return false
}

// first returns the first value of a parameter, which lists use. It allocates only if the value is percent-encoded.
func first(rawQuery, name string) string {
	for rawQuery != "" {
		var pair string
		pair, rawQuery, _ = strings.Cut(rawQuery, "&")
		key, value, _ := strings.Cut(pair, "=")
		if key, err := url.QueryUnescape(key); err != nil || key != name {
			continue
		}
		value, err := url.QueryUnescape(value)
		if err != nil {
			continue // as url.ParseQuery does
		}
		return value
	}
	return ""
}
