package relay

import (
	"net"
	"net/http"
	"strings"

	"kapis.dev/ks-apiserver/pkg/web"
)

// CutHeaders removes the headers of a client that kube-apiserver, or a server after it, could take for this server's own: identities,
// forwarded addresses, credentials of this server's own users. Expect is answered here.
func CutHeaders(h http.Header) {
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

// SetPeer tells kube-apiserver, for its audit log, where the request came from: the peer of this connection, whatever the peer itself
// says.
func SetPeer(h http.Header, remoteAddr string) {
	if host, _, err := net.SplitHostPort(remoteAddr); err == nil {
		h["X-Forwarded-For"] = []string{host}
	}
}
