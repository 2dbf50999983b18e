// Package backends says what the backends of extensions must not be, and reads what files of their bundles are made of.
package backends

import (
	"net"
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

	Caches *store.Store
	Client kubernetes.Interface
	Users  *iam.UserIndex
	// GroupsOf returns the groups of a user that backends may be told.
	GroupsOf func(user.Info) []string
	Streams  *stream.Guard
	Issuer   *token.Issuer
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
		Issuer: o.Issuer, Now: time.Now, GroupsOf: o.GroupsOf,
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
