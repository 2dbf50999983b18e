// Package hub lets member clusters into the fleet, and records which of them are linked.
package hub

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"

	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/peer"
)

const (
	// annotationUsed has the hashes of the tokens by which a cluster has joined, as many as may count at a time.
	annotationUsed = "kapis.dev/join-token-used"
	tokensAtMost   = 3
	// certificateLife is how long the certificate of a member counts. It is renewed when a third is left.
	certificateLife = 30 * 24 * time.Hour
	// missed is how long a member may be without a link before its condition says so: its programs dial every five seconds at most. It
	// takes ten seconds more until a silent link is noticed. recordEvery is how often all conditions are checked, and lookEvery how often
	// for overdue members alone, which needs no request.
	missed, recordEvery, lookEvery = 8 * time.Second, 15 * time.Second, time.Second
	// untoldAfter is how long a member that is linked may not be told anything before its conditions say so: three attempts.
	untoldAfter = 15 * time.Second
)

// Options are what a Hub works with.
type Options struct {
	// Clusters reads and writes Cluster objects as this server.
	Clusters dynamic.ResourceInterface
	// Authority is the fleet's. Its certificate has the name link.HubName.
	Authority *certificate.Keeper
	// UID is that of this cluster's kube-system.
	UID string
	// Host is the name of this cluster.
	Host string
	// Leases stores the Lease with the addresses of this hub's replicas. Drain is done when this replica stops.
	Leases peer.Leases
	Drain  context.Context
	Now    func() time.Time
	// Reached returns the https address at which programs reach this hub, and the authorities of its certificate in PEM, nil for those of
	// their system. Nil where Clusters get no kubeconfig.
	Reached func() (server string, authority []byte, err error)
	// Complete returns why there may be Clusters that Members was not told of, or that have changed, and nil while there are none; nil itself
	// for never.
	Complete func() error
}

// Hub lets members in.
type Hub struct {
	Options
	// Members are those of the fleet.
	Members *cluster.Members
	// Peers are the other replicas.
	Peers    *peer.Peers
	tokens   join.Tokens
	changes  chan string
	existing existing

	mu sync.Mutex
	// failures say why direct members are not linked, by the UID of their Cluster.
	failures map[string]string
}

// New returns a Hub.
func New(o Options) *Hub {
	h := &Hub{Options: o, changes: make(chan string, 1024), failures: map[string]string{}}
	h.tokens = join.Tokens{Key: func() ([]byte, error) { return o.Authority.Derive("join tokens") }, Now: o.Now}
	h.Members = &cluster.Members{Host: o.Host, Now: o.Now, Changed: h.changed, Found: h.changed, Told: h.changed, Identity: link.Identity{
		Certificate: func() (*tls.Certificate, error) { return o.Authority.Certificate(nil) }, Authorities: o.Authority.Pool,
	}}
	h.Peers = peer.New(peer.Options{Leases: o.Leases, Identity: h.Members.Identity, Members: h.Members, Drain: o.Drain, Now: o.Now})
	return h
}

// AuthorityOptions are those of the fleet's authority, in a Secret of this server's namespace. Members learn of a new one with
// their next certificate: after the life of one all of them know it, and only then it signs the hub's own.
func AuthorityOptions(secrets certificate.Secrets, now func() time.Time) certificate.Options {
	return certificate.Options{Secrets: secrets, Name: "ks-fleet-authority", Hosts: []string{link.HubName()}, Client: true,
		Settle: certificateLife + 24*time.Hour, Now: now}
}
