package egress

import (
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// SameSite reports whether the credentials for the host a may be sent to b, both with or without a port: the same host, or one under the
// same registered domain, as registry.example.com and auth.example.com are.
func SameSite(a, b string) bool {
	a, b = hostname(a), hostname(b)
	if a == b {
		return true
	}
	return site(a) != "" && site(a) == site(b)
}

// site returns the registered domain of a host; "" for none.
func site(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	suffix, listed := publicsuffix.PublicSuffix(host)
	if !listed && !strings.Contains(suffix, ".") {
		return "" // names under svc, local or internal are not registered: they may belong to anyone
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil {
		return ""
	}
	return domain
}

func hostname(hostport string) string {
	h := hostport
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		h = host
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(h, "[]"), "."))
}
