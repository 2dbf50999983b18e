package web

import (
	"net/url"
	"strings"
)

// HasPrefixFold reports whether the name of a header begins with a prefix, in whatever case.
func HasPrefixFold(header, prefix string) bool {
	return len(header) >= len(prefix) && strings.EqualFold(header[:len(prefix)], prefix)
}

// ExtraKey returns the key of the extra that a header states whose name begins with a prefix, as kube-apiserver reads the headers of
// authenticating proxies: the rest of the name in lower case, and then percent-decoded, since not all characters can be in such a name.
func ExtraKey(name, prefix string) (key string, states bool) {
	if !HasPrefixFold(name, prefix) {
		return "", false
	}
	key = strings.ToLower(name[len(prefix):])
	if decoded, err := url.PathUnescape(key); err == nil {
		key = decoded
	}
	return key, true
}
