package web

import (
	"net/http"
	"net/url"
	"strings"

	"kapis.dev/ks-apiserver/pkg/status"
)

// impersonate begins the names of the headers by which a client of Kubernetes asks to be another user
// (https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/).
const impersonate = "Impersonate-"

// IsImpersonation reports whether a header asks for impersonation.
func IsImpersonation(header string) bool { return HasPrefixFold(header, impersonate) }

// RefuseImpersonation returns a 403 for a request that asks for impersonation. Without it, kubectl --as would show what the caller may do
// and not what the other may.
func RefuseImpersonation(h http.Header) error {
	for name := range h {
		if IsImpersonation(name) {
			return status.Forbiddenf("impersonation is not offered here: ask kube-apiserver for it")
		}
	}
	return nil
}

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
