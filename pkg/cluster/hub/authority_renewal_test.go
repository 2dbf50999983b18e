package hub_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/cluster/hub"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

const day = 24 * time.Hour

// F3, F9: a member, which learns of a new authority of the fleet when it renews its own certificate, is linked all the time.
func TestAMemberKnowsANewAuthorityBeforeItSigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, err := certificate.Open(t.Context(), hub.AuthorityOptions(fake.NewClientset().CoreV1().Secrets("kubesphere-system"), time.Now))
		if err != nil {
			t.Fatal(err)
		}
		former := authority.Bundle()
		var member link.Identity
		for string(authority.Bundle()) == string(former) { // the member joins the day before
			member = joined(t, authority)
			passDay(t, authority)
		}
		for at := 1; at <= 60; at++ {
			if at%20 == 0 {
				member = joined(t, authority)
			}
			if err := answers(t, authority, member); err != nil {
				t.Fatalf("day %d of the new authority: %v", at, err)
			}
			passDay(t, authority)
		}
		own, err := authority.Certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := own.Leaf.Verify(x509.VerifyOptions{Roots: poolOf(t, former)}); err == nil {
			t.Error("the hub's certificate is not of the new authority")
		}
	})
}

func passDay(t *testing.T, authority *certificate.Keeper) {
	t.Helper()
	time.Sleep(day)
	if err := authority.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func poolOf(t *testing.T, bundle []byte) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatal("there is no authority")
	}
	return pool
}

const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"

// joined returns what a member has that gets its certificate now.
func joined(t *testing.T, authority *certificate.Keeper) link.Identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := authority.Sign(&key.PublicKey, link.MemberName(uid), 30*day)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(signed)
	own, pool := &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}, poolOf(t, authority.Bundle())
	return link.Identity{Certificate: func() (*tls.Certificate, error) { return own, nil }, Authorities: func() *x509.CertPool { return pool }}
}

// answers returns nil if a member answers over a new link, which is closed then.
func answers(t *testing.T, authority *certificate.Keeper, member link.Identity) error {
	t.Helper()
	one, other := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- (&link.Handler{Identity: member, Handler: http.NotFoundHandler()}).Serve(t.Context(), other, 0)
	}()
	defer func() { <-served }()
	l, err := link.Open(t.Context(), one, uid, link.Identity{
		Certificate: func() (*tls.Certificate, error) { return authority.Certificate(nil) }, Authorities: authority.Pool})
	if err != nil {
		return err
	}
	defer l.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://member/api", nil)
	if err != nil {
		return err
	}
	resp, err := l.RoundTrip(r)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
