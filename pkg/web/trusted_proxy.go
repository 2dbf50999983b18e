package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

const (
	// maxUserAgent is how much of a User-Agent is stored, in bytes.
	maxUserAgent = 256
	// maxForwarded is how much of X-Forwarded-For is read.
	maxForwarded = 4 << 10
)

// TrustedProxies are the address ranges of the proxies in front of this server whose X-Forwarded-For counts. The zero value trusts none.
type TrustedProxies []netip.Prefix

// ParseTrustedProxies parses address ranges such as 10.244.0.0/16, and addresses.
func ParseTrustedProxies(ranges []string) (TrustedProxies, error) {
	var t TrustedProxies
	for _, s := range ranges {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a, aerr := netip.ParseAddr(s)
			if aerr != nil {
				return nil, fmt.Errorf("%q is neither an address range such as 10.244.0.0/16 nor an address", s)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		t = append(t, p.Masked())
	}
	return t, nil
}

func (t TrustedProxies) has(a netip.Addr) bool {
	for _, p := range t {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Origin returns the address that a request comes from, and its User-Agent. X-Forwarded-For counts only from a trusted proxy: the address
// is the last one in it that is not a trusted proxy's. Entries that are no addresses are skipped.
func (t TrustedProxies) Origin(r *http.Request) (source, userAgent string) {
	return t.origin(r, false)
}

// OriginOfConsole is Origin for a request that the console makes itself to log a user in. Without X-Forwarded-For, X-Client-Ip counts as
// well: the console then says in it where the user is. In other requests the header is untrusted, because the console passes requests of
// browsers on as they are; so it is next to X-Forwarded-For, whose writer passes it on.
func (t TrustedProxies) OriginOfConsole(r *http.Request) (source, userAgent string) {
	return t.origin(r, true)
}

// Claimed returns the user's address that a request claims in X-Client-Ip, or "". The client may write anything there.
func Claimed(r *http.Request) string {
	if a := addressOf(single(r.Header["X-Client-Ip"])); a.IsValid() {
		return a.String()
	}
	return ""
}

func (t TrustedProxies) origin(r *http.Request, console bool) (source, userAgent string) {
	peer := addressOf(r.RemoteAddr)
	if t.has(peer) {
		if forwarded := r.Header["X-Forwarded-For"]; len(forwarded) > 0 {
			peer = t.forwarded(peer, forwarded)
		} else if a := addressOf(single(r.Header["X-Client-Ip"])); console && a.IsValid() {
			peer = a
		}
	}
	if peer.IsValid() {
		source = peer.String()
	}
	return source, clean(r.UserAgent())
}

// forwarded walks from the last hop to the first, as long as each is trusted to name the one before it.
func (t TrustedProxies) forwarded(peer netip.Addr, values []string) netip.Addr {
	all := strings.Join(values, ",")
	if len(all) > maxForwarded {
		all = all[len(all)-maxForwarded:]
	}
	for t.has(peer) && all != "" {
		i := strings.LastIndexByte(all, ',')
		a := addressOf(strings.TrimSpace(all[i+1:]))
		if !a.IsValid() {
			break
		}
		peer, all = a, all[:max(i, 0)]
	}
	return peer
}

func single(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return strings.TrimSpace(values[0])
}

// addressOf parses an address, with a port or without.
func addressOf(s string) netip.Addr {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// clean returns a text that may be stored and shown: printable, and not too long.
func clean(s string) string {
	if len(s) > maxUserAgent {
		s = s[:maxUserAgent]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return -1
		}
		return r
	}, s)
}
