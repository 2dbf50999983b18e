package backends

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// ownAddresses returns a function that reports whether an address is kube-apiserver's, whose URL is host, or one at which this server
// listens: neither is a backend.
func ownAddresses(host string, listeners []net.Listener) func(netip.AddrPort) bool {
	kube := []string{"kubernetes.default.svc:443"}
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		kube = append(kube, u.Host)
	}
	var refused []netip.AddrPort
	for _, host := range kube {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = host, "443"
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", name) // without DNS, only addresses are known
		cancel()
		for _, ip := range found {
			refused = append(refused, netip.AddrPortFrom(ip.Unmap(), uint16(n)))
		}
	}
	var listens []uint16
	for _, ln := range listeners {
		if at, ok := ln.Addr().(*net.TCPAddr); ok {
			listens = append(listens, uint16(at.Port))
		}
	}
	return func(to netip.AddrPort) bool {
		return slices.Contains(refused, to) || slices.Contains(listens, to.Port()) && isOwn(to.Addr())
	}
}

// isOwn reports whether an address is one of this machine.
func isOwn(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(all, func(own net.Addr) bool {
		prefix, err := netip.ParsePrefix(own.String())
		return err == nil && prefix.Addr().Unmap() == a
	})
}
