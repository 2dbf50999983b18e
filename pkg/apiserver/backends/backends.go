// Package backends says what the backends of extensions must not be, and reads what files of their bundles are made of.
package backends

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/proxy/backend"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Options are what the backends of extensions take.
type Options struct {
	// Roots are the paths of this server's own routes: no extension takes their groups.
	Roots []string
	// Host is the URL of kube-apiserver, and Listeners are those of this server: neither is a backend.
	Host      string
	Listeners []net.Listener
	// AllowLoopback allows backends on this machine.
	AllowLoopback bool
	// Proof is what this server proves itself with to backends.
	Proof *ClientCertificate

	Caches  *store.Store
	Client  kubernetes.Interface
	Users   *iam.UserIndex
	Streams *stream.Guard
	Issuer  *token.Issuer
}

// New returns the handler that passes requests on to extensions.
func New(o Options) *backend.Handler {
	index := extension.NewIndex(extension.Options{Taken: OwnGroups(o.Roots), ClientCertificate: o.Proof.Get, Egress: egress.Options{
		AllowLoopback: o.AllowLoopback, Refuse: ownAddresses(o.Host, o.Listeners),
	}})
	for gvr, sink := range index.Sinks() {
		o.Caches.Feed(gvr, sink)
	}
	return backend.New(backend.Options{
		Index: index, Files: extension.NewFiles(index, extension.Keys{Client: o.Client}, time.Now), Streams: o.Streams,
		Issuer: o.Issuer, Now: time.Now,
		Email: func(u user.Info) string {
			if of := o.Users.ByName(u.GetName()); of != nil && of.UID == u.GetUID() {
				return of.Email
			}
			return ""
		},
	})
}

// OwnGroups returns a function that reports whether a group and version is served at one of these root paths.
func OwnGroups(roots []string) func(schema.GroupVersion) bool {
	own := map[schema.GroupVersion]bool{}
	for _, root := range roots {
		if parts := strings.Split(strings.TrimPrefix(root, "/kapis/"), "/"); len(parts) > 1 {
			own[schema.GroupVersion{Group: parts[0], Version: parts[1]}] = true
		}
	}
	return func(gv schema.GroupVersion) bool { return own[gv] || strings.HasSuffix(gv.Group, ".kapis.dev") }
}

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
