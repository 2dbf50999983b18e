package proxy

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/proxy/relay"
)

// Names of headers in the form that net/http stores them in.
const (
	impersonateUser  = "Impersonate-User"
	impersonateUID   = "Impersonate-Uid"
	impersonateGroup = "Impersonate-Group"
	impersonateExtra = "Impersonate-Extra-"
)

// impersonate sets the headers for the caller: u, in u's groups and the synthetic group of the decision. A group whose name would not
// arrive as it is is not asserted.
//
// Groups that are powerful in themselves are never asserted, whatever named them: system:masters, which kube-apiserver authorizes without
// a role, those of nodes and components, and any synthetic group but the decision's.
func impersonate(h http.Header, u user.Info, decided string) {
	h[impersonateUser] = []string{u.GetName()}
	if uid := u.GetUID(); uid != "" {
		h[impersonateUID] = []string{uid}
	}
	groups := make([]string, 0, len(u.GetGroups())+1)
	for _, g := range u.GetGroups() {
		if relay.Assertable(g) {
			groups = append(groups, g)
		}
	}
	if len(decided) > len(relay.SyntheticGroup) && strings.HasPrefix(decided, relay.SyntheticGroup) {
		groups = append(groups, decided)
	}
	if len(groups) > 0 {
		h[impersonateGroup] = groups
	}
	for k, v := range u.GetExtra() {
		if k != "" && len(v) > 0 {
			setExtra(h, k, v)
		}
	}
}

// setExtra sets the header for one extra of the caller.
func setExtra(h http.Header, key string, values []string) {
	h[http.CanonicalHeaderKey(impersonateExtra+escapeKey(key))] = values
}

// escapeKey returns the key of an extra in a form that can be part of a header's name: bytes that may not be (RFC 9110, 5.6.2), and the
// percent sign, as %XX, which kube-apiserver decodes.
func escapeKey(key string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if isTokenByte(c) && c != '%' {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
