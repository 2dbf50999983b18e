// Package clusterdns dials Services of the cluster by names that no search list completes: in a pod, shop.extension-shop.svc is looked up
// as shop.extension-shop.svc.svc.cluster.local first, which a pod in a namespace svc may be called.
package clusterdns

import (
	"context"
	"net"
	"os"
	"strings"
	"sync"
)

// Domain returns the domain of the cluster that this program runs in; "" outside of one. It is the same for as long as the pod is there.
// Only tests set it.
var Domain = sync.OnceValue(func() string {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return ""
	}
	return domainOf(string(text))
})

// Dial dials an address, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Absolute returns d with the names of Services made absolute. What is above the connection (URL, Host, the name in TLS) stays.
func (d Dial) Absolute() Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return d(ctx, network, Absolute(address))
	}
}

// Absolute returns an address to dial, in which the name of a Service in this cluster (shop.extension-shop.svc) is absolute.
func Absolute(address string) string { return absolute(address, Domain()) }

func absolute(address, domain string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || domain == "" {
		return address
	}
	switch of := strings.ToLower(host); {
	case strings.HasSuffix(of, ".svc"):
		return net.JoinHostPort(host+"."+domain+".", port)
	case strings.HasSuffix(of, ".svc."+domain):
		return net.JoinHostPort(host+".", port)
	}
	return address
}

// domainOf returns the domain of the cluster by a resolv.conf as pods have it, with the domain of all Services in its search list; "" for
// others.
func domainOf(resolvConf string) (domain string) {
	for line := range strings.Lines(resolvConf) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "search" {
			continue
		}
		domain = "" // the last list counts
		for _, entry := range words[1:] {
			if of, ok := strings.CutPrefix(strings.ToLower(strings.TrimSuffix(entry, ".")), "svc."); ok {
				domain = of
				break
			}
		}
	}
	return domain
}
