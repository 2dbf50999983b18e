package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

const (
	// maxUserAgent is as much as is kept of what a client calls itself, in bytes.
	maxUserAgent = 256
	// maxForwarded is as much as is read of X-Forwarded-For.
	maxForwarded = 4 << 10
)

// TrustedProxies are the proxies in front of this server whose word on where a request comes from counts, as address ranges. The
// zero value trusts nobody.
type TrustedProxies []netip.Prefix

// ParseTrustedProxies reads address ranges such as 10.244.0.0/16, and addresses.
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

// Origin returns the address that a request comes from, and what its client calls itself. What X-Forwarded-For says of the
// address counts only from a trusted proxy: the last one that is not a trusted proxy's. What is no address is passed over.
func (t TrustedProxies) Origin(r *http.Request) (source, userAgent string) {
	return t.origin(r, false)
}

// OriginOfConsole is Origin of a request that the console makes itself to log somebody in. Where there is no X-Forwarded-For,
// X-Client-Ip counts as well, in which it then says where the person is. The console passes requests of browsers on as they are, so in
// those the header is anybody's; and so it is beside X-Forwarded-For, whose writer passes it on.
func (t TrustedProxies) OriginOfConsole(r *http.Request) (source, userAgent string) {
	return t.origin(r, true)
}

// Claimed returns the address that a request says in X-Client-Ip that its person is at; "" for none. Whoever sends the request may write
// there what he likes.
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

// addressOf reads an address, with a port or without.
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

// clean cuts a text to what may be kept and shown: printable, and not too long.
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
