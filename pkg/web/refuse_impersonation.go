package web

import (
	"net/http"

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
