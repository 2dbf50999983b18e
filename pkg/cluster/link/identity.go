package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
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
	// silence is after what time without a frame the other end is asked whether it is there, and answerTimeout how long it has to answer.
	silence, answerTimeout = 5 * time.Second, 5 * time.Second
	// mostStreams bounds the requests of one link that run at once.
	mostStreams = 4000
	// The flow-control windows, in bytes: towards the hub, which reads answers, and towards the member. That of a connection is so many
	// times that of a stream that slow readers leave room for others.
	toHub, toMember       = 256 << 10, 64 << 10
	toHubAll, toMemberAll = 4<<20 - 1, 2 << 20
	// longestFrame is how long a frame may be. Each wakes who reads it, who then says that the window is open again: with the 16 KiB of
	// HTTP/2 that is several times for one page. A link keeps a buffer of this length.
	longestFrame = 64 << 10
	// mostHeader bounds the header of an answer, in bytes: a member is not trusted.
	mostHeader = 1 << 20
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

// http2 returns the settings of one end, whose windows for what it receives are given.
func http2(stream, all int) *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: mostStreams, StrictMaxConcurrentRequests: true,
		MaxReceiveBufferPerStream: stream, MaxReceiveBufferPerConnection: all, MaxReadFrameSize: longestFrame,
		SendPingTimeout: silence, PingTimeout: answerTimeout,
	}
}

func onlyHTTP2() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP2(true)
	return p
}
