package proxy

import (
	"net"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/web"
)

// syntheticGroup begins the names of the groups that only this server asserts, and only as the result of a decision: they stand for the
// role that allowed the request.
const syntheticGroup = "kapis:"

// Names of headers in the form that net/http stores them in.
const (
	impersonateUser  = "Impersonate-User"
	impersonateUID   = "Impersonate-Uid"
	impersonateGroup = "Impersonate-Group"
	impersonateExtra = "Impersonate-Extra-"
)

// cutHeaders removes the headers of a client that kube-apiserver, or a server after it, could take for this server's own: identities,
// forwarded addresses, credentials of this server's own users. Expect is answered here.
func cutHeaders(h http.Header) {
	for k := range h {
		if !passes(k) {
			delete(h, k)
		}
	}
}

func passes(header string) bool {
	if header == "" {
		return false
	}
	switch header[0] | 0x20 {
	case 'a':
		return !strings.EqualFold(header, "Authorization")
	case 'c':
		return !strings.EqualFold(header, "Cookie")
	case 'e':
		return !strings.EqualFold(header, "Expect")
	case 'f':
		return !strings.EqualFold(header, "Forwarded")
	case 'i':
		return !web.IsImpersonation(header)
	case 'o':
		return !strings.EqualFold(header, "Origin")
	case 'r':
		return !strings.EqualFold(header, "Referer")
	case 'x':
		return !web.HasPrefixFold(header, "X-Remote-") && !web.HasPrefixFold(header, "X-Forwarded-") &&
			!web.HasPrefixFold(header, "X-Kubesphere-") && !strings.EqualFold(header, "X-Real-Ip")
	}
	return true
}

// setPeer tells kube-apiserver, for its audit log, where the request came from: the peer of this connection, whatever the peer itself
// says.
func setPeer(h http.Header, remoteAddr string) {
	if host, _, err := net.SplitHostPort(remoteAddr); err == nil {
		h["X-Forwarded-For"] = []string{host}
	}
}

// survives reports whether a header's value arrives as it is sent: receivers strip blanks at the ends (RFC 9110, 5.5), so that "
// system:masters" would arrive as another name, and control characters fail the request or begin another line.
func survives(value string) bool {
	return strings.TrimSpace(value) == value && strings.IndexFunc(value, unicode.IsControl) < 0 && utf8.ValidString(value)
}

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
		if assertable(g) {
			groups = append(groups, g)
		}
	}
	if len(decided) > len(syntheticGroup) && strings.HasPrefix(decided, syntheticGroup) {
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

func assertable(group string) bool {
	switch {
	case group == "" || strings.HasPrefix(group, syntheticGroup) || !survives(group):
		return false
	case !strings.HasPrefix(group, "system:"):
		return true
	}
	return group == user.AllAuthenticated || group == user.AllUnauthenticated ||
		group == "system:serviceaccounts" || strings.HasPrefix(group, "system:serviceaccounts:")
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
