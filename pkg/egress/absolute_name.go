package egress

import (
	"net"
	"os"
	"strings"
	"sync"
)

// clusterDomain is the domain of the cluster that this program runs in; "" outside of one. It is the same for as long as the pod is there.
var clusterDomain = sync.OnceValue(func() string {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return ""
	}
	return domainOf(string(text))
})

// Absolute returns an address to dial, in which the name of a Service in this cluster (shop.extension-shop.svc) is absolute. Resolvers try
// the search list of the pod first for others: shop.extension-shop.svc.svc.cluster.local is a pod of the namespace svc.
func Absolute(address string) string { return absolute(address, clusterDomain()) }

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
