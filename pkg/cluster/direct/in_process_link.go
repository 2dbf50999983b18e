package direct

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

const (
	// askEvery is how often a member that is served within this process is asked whether it still may be; one that misses missesAtMost of
	// these in a row is not.
	askEvery, missesAtMost = 5 * time.Second, 2
	// grace is how long what runs may take when such a link ends.
	grace = 5 * time.Second
)

// Admit lets a member in, which has answered its invitation: it signs the certificate of the member.
type Admit func(ctx context.Context, m *cluster.Member, r *join.Request) (*join.Answer, error)

// WithinProcess returns what proves, at the member's end of a link that does not leave this process, that it is this member: a certificate
// that the hub signs for a key of this process, as for any member. The hub checks that it is the same cluster as before.
func (admit Admit) WithinProcess(ctx context.Context, m *cluster.Member, r *join.Request) (link.Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return link.Identity{}, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return link.Identity{}, fmt.Errorf("make a certificate request: %w", err)
	}
	r.CSR = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	answer, err := admit(ctx, m, r)
	if err != nil {
		return link.Identity{}, err
	}
	block, _ := pem.Decode([]byte(answer.Certificate))
	pool := x509.NewCertPool()
	if block == nil || !pool.AppendCertsFromPEM([]byte(answer.Authorities)) {
		return link.Identity{}, errors.New("the certificate of the link can't be read")
	}
	pair := &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
	return link.Identity{Certificate: func() (*tls.Certificate, error) { return pair, nil },
		Authorities: func() *x509.CertPool { return pool }}, nil
}

// ServeWithinProcess serves a member by a link that does not leave this process, whose member's end is h. It returns when the link has
// ended, or isOver says that the member may not be served on; an error of isOver alone is a miss.
func ServeWithinProcess(ctx context.Context, members *cluster.Members, m *cluster.Member, h *link.Handler,
	isOver func(ctx context.Context) (over bool, err error),
) error {
	life, end := context.WithCancel(ctx)
	defer end()
	hub, member := net.Pipe()
	over := make(chan error, 1)
	go func() { over <- untilOver(life, isOver); end() }()
	go func() {
		if err := h.Serve(life, member, grace); err != nil {
			klog.V(2).InfoS("The link of a member cluster that is served within this process has ended", "cluster", m.Name,
				"reason", err.Error())
		}
	}()
	err := members.Serve(life, hub, m.UID, func() {})
	end()
	return errors.Join(<-over, err)
}

// untilOver asks until ctx ends, isOver says so, or it has failed too often in a row.
func untilOver(ctx context.Context, isOver func(ctx context.Context) (over bool, err error)) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for misses := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		over, err := isOver(ctx)
		switch {
		case over:
			return err
		case ctx.Err() != nil:
			return nil
		case err == nil:
			misses = 0
		default:
			if misses++; misses >= missesAtMost {
				return err
			}
		}
	}
}
