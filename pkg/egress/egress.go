// Package egress makes connections to addresses that users give: container registries, Git servers.
//
// A user who gives an address makes this server connect to it, from its own network. So services near the server that trust their
// neighbours (the machine itself, the metadata services of clouds) can't be reached this way, whatever a name resolves to and wherever a
// redirect points: the address is checked when it is dialled, after the name was resolved, and that is the address that is used. Private
// networks can be reached, because a cluster's registries are there.
package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"kapis.dev/ks-apiserver/pkg/clusterdns"
)

const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
	idleTimeout      = 30 * time.Second
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 64 << 10
)

// ErrRefused is the error of a connection to an address that is not for users.
var ErrRefused = errors.New("this server connects to no loopback, link-local, multicast or metadata address for a user")

// Options configure a transport.
type Options struct {
	// AllowLoopback allows addresses of this machine: for tests and local debugging.
	AllowLoopback bool
	// SkipVerify accepts any certificate of a server: for servers that a user declared insecure.
	SkipVerify bool
	// RootCAs are the authorities of servers; nil for those of the machine.
	RootCAs *x509.CertPool
	// Refuse reports whether an address is not to be connected to, besides those that no user may reach; nil for none.
	Refuse func(netip.AddrPort) bool
	// HeaderTimeout is how long the header of an answer may take.
	HeaderTimeout time.Duration
}

// NewTransport returns a transport that reaches only addresses that users may reach. It uses no proxy, because a proxy would resolve
// names and connect in its place.
func NewTransport(o Options) *http.Transport {
	d := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			return check(network, address, &o)
		}}
	return &http.Transport{
		Proxy:           nil,
		DialContext:     clusterdns.Dial(d.DialContext).Absolute(),
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.SkipVerify, RootCAs: o.RootCAs},
		// InsecureSkipVerify is set only if the user whose data it is asks for it.
		TLSHandshakeTimeout:    handshakeTimeout,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           32,
		MaxIdleConnsPerHost:    2,
		MaxConnsPerHost:        16,
		IdleConnTimeout:        idleTimeout,
	}
}

// check refuses an address that is about to be dialled if users may not reach it.
func check(network, address string, o *Options) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("connect by %s: %w", network, ErrRefused)
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read the address %s: %w", address, err)
	}
	if !Allowed(ap.Addr(), o.AllowLoopback) || o.Refuse != nil && o.Refuse(netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())) {
		return fmt.Errorf("connect to %s: %w", ap.Addr(), ErrRefused)
	}
	return nil
}

// refused are the networks that are not for users (RFC 6890, and the registries of IANA it began).
var refused = prefixes(
	"0.0.0.0/8",       // this network; Linux takes it for loopback
	"169.254.0.0/16",  // link-local, where clouds keep their metadata
	"192.0.0.0/24",    // IETF protocol assignments; metadata of Oracle Cloud
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, and broadcast
	"100.100.100.200", // metadata of Alibaba Cloud
	"168.63.129.16",   // the host agent of Azure
	"::/96",           // unspecified, loopback, IPv4-compatible
	"fe80::/10",       // link-local
	"fec0::/10",       // site-local, withdrawn
	"ff00::/8",        // multicast
	"fd00:ec2::/32",   // metadata of AWS
	"fd20:ce::254",    // metadata of Google Cloud
	"100::/64",        // discard
	"2001::/32",       // Teredo: an IPv4 address in disguise
	"64:ff9b:1::/48",  // local translation: unknown IPv4 addresses
)

func prefixes(all ...string) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(all))
	for _, s := range all {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a := netip.MustParseAddr(s)
			p = netip.PrefixFrom(a, a.BitLen())
		}
		out = append(out, p)
	}
	return out
}

// Networks whose addresses carry an IPv4 address, and the byte at which it starts.
var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixTo4 = netip.MustParsePrefix("2002::/16")    // RFC 3056
)

// Allowed reports whether users may reach an address. Loopback addresses are allowed if loopback is true.
func Allowed(a netip.Addr, loopback bool) bool {
	a = a.Unmap().WithZone("")
	if !a.IsValid() {
		return false
	}
	if a.IsLoopback() {
		return loopback
	}
	for _, p := range refused {
		if p.Contains(a) {
			return false
		}
	}
	raw := a.As16()
	switch {
	case nat64.Contains(a):
		return Allowed(netip.AddrFrom4([4]byte(raw[12:16])), loopback)
	case sixTo4.Contains(a):
		return Allowed(netip.AddrFrom4([4]byte(raw[2:6])), loopback)
	}
	return true
}
