package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// hubDomain is the name in the certificates of hubs, and memberDomain ends that of a member, which begins with the UID of its Cluster.
	// They are names within TLS alone: nobody resolves them.
	hubDomain    = "hub.fleet.kapis.dev"
	memberDomain = ".member.fleet.kapis.dev"

	// handshakeTimeout bounds the handshake of a link.
	handshakeTimeout = 10 * time.Second
)

// Identity is what one end of a link proves, and believes.
type Identity struct {
	// Certificate returns this end's certificate. It is called for each link, since certificates are renewed.
	Certificate func() (*tls.Certificate, error)
	// Authorities returns the fleet's authorities.
	Authorities func() *x509.CertPool
}

var (
	errNoIdentity = errors.New("open a link: this end has no certificate, or knows no authority of the fleet")
	errNotHub     = errors.New("the other end of the link is not a hub of this fleet")
	// ErrIdentity says that who was reached is not who it should be: another cluster, or one without a certificate of the fleet.
	ErrIdentity = errors.New("who answers there is not the member of this fleet that it should be")
)

// HubName returns the name that a hub's certificate has to have.
func HubName() string { return hubDomain }

// MemberName returns the name that the certificate of a member has to have; uid is that of its Cluster object.
func MemberName(uid string) string { return strings.ToLower(uid) + memberDomain }

// UIDOf returns the UID of the Cluster whose member has a name, "" for a name that is no member's.
func UIDOf(name string) string {
	uid, found := strings.CutSuffix(name, memberDomain)
	if !found || strings.Contains(uid, ".") {
		return ""
	}
	return uid
}

// explained says what to look at where the certificate of the other end was refused for its time.
func explained(err error) error {
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return fmt.Errorf("%w (do the clocks of the hub and of the member agree?)", err)
	}
	return err
}

// hub is the TLS configuration of a hub on a link to a peer, whose certificate has to have a name.
func (i Identity) hub(name string) (*tls.Config, error) {
	if i.Certificate == nil || i.Authorities == nil || i.Authorities() == nil || name == memberDomain {
		return nil, errNoIdentity
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, RootCAs: i.Authorities(), ServerName: name,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return i.Certificate() },
	}, nil
}

// member is the TLS configuration of a member.
func (i Identity) member() (*tls.Config, error) {
	if i.Certificate == nil || i.Authorities == nil || i.Authorities() == nil {
		return nil, errNoIdentity
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, ClientCAs: i.Authorities(), ClientAuth: tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true, // a resumed session would count for as long as the ticket, not the certificate
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return i.Certificate() },
		VerifyConnection: func(s tls.ConnectionState) error {
			if err := s.PeerCertificates[0].VerifyHostname(hubDomain); err != nil {
				return fmt.Errorf("%w: %w", errNotHub, err)
			}
			return nil
		},
	}, nil
}
