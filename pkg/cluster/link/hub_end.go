package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
)

// Link is the hub's end of a link. It may be used by any number of goroutines.
type Link struct {
	conn     *http.ClientConn
	upgrades upgrading
	ended    chan struct{}
	closed   chan struct{} // closed when the connection is
	fewer    chan struct{} // gets something when a request may have ended
	once     sync.Once
	local    net.Addr
	remote   net.Addr
}

// Open makes a link of a connection to the member whose Cluster has a UID, and owns the connection from then on. It fails where the other
// end does not prove to be that member, or refuses this one.
func Open(ctx context.Context, conn net.Conn, uid string, i Identity) (*Link, error) {
	l, err := open(ctx, conn, MemberName(uid), i)
	if err != nil {
		return nil, fmt.Errorf("open a link to the cluster with the UID %s: %w", uid, err)
	}
	return l, nil
}

// OpenPeer makes a link of a connection to another replica of this hub, which serves it by a Handler with the hub's identity.
func OpenPeer(ctx context.Context, conn net.Conn, i Identity) (*Link, error) {
	l, err := open(ctx, conn, hubDomain, i)
	if err != nil {
		return nil, fmt.Errorf("open a link to another replica of the hub: %w", err)
	}
	return l, nil
}

func open(ctx context.Context, conn net.Conn, name string, i Identity) (*Link, error) {
	config, err := i.hub(name)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	watched := &closeNotifier{Conn: conn, closed: make(chan struct{})}
	secured := tls.Client(watched, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if wrong := (*tls.CertificateVerificationError)(nil); errors.As(err, &wrong) {
			err = fmt.Errorf("%w: %w", ErrIdentity, explained(err))
		}
		return nil, err
	}
	if p := secured.ConnectionState().NegotiatedProtocol; p != "h2" {
		_ = conn.Close()
		return nil, fmt.Errorf("it speaks %q, not HTTP/2", p)
	}
	l := &Link{ended: make(chan struct{}), closed: watched.closed, fewer: make(chan struct{}, 1), local: conn.LocalAddr(), remote: conn.RemoteAddr()}
	t := &http.Transport{
		Protocols: onlyHTTP2(), HTTP2: http2(toHub, toHubAll), DisableCompression: true, MaxResponseHeaderBytes: mostHeader,
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return secured, nil },
	}
	if l.conn, err = t.NewClientConn(ctx, "https", config.ServerName+":443"); err != nil {
		_ = conn.Close()
		return nil, err
	}
	l.conn.SetStateHook(func(c *http.ClientConn) {
		select {
		case l.fewer <- struct{}{}:
		default:
		}
		if c.Err() != nil {
			l.end()
		}
	})
	connect := func(ctx context.Context, _, _ string) (net.Conn, error) { return l.connect(ctx) }
	l.upgrades = upgrading{&http.Transport{DialContext: connect, DialTLSContext: connect, DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: mostHeader}}
	if err := l.accepted(ctx); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// accepted returns nil once the other end has answered something. In TLS 1.3 the handshake is over here before the other end has verified
// this one's certificate: a member that refuses that, and dials again, would count as linked each time. OPTIONS * (RFC 9110, 9.3.7) is
// answered by net/http itself, also in members of older releases.
func (l *Link) accepted(ctx context.Context) error {
	r := &http.Request{Method: http.MethodOptions, URL: &url.URL{Scheme: "https", Host: streamHost, Path: "*"}, Header: http.Header{}}
	resp, err := l.conn.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("the other end has refused it, or has gone: %w", err)
	}
	return resp.Body.Close()
}

// RoundTrip sends a request to the member. Its URL has the path and the query; host and scheme are not used. Where the answer is cut off,
// reading its body fails.
func (l *Link) RoundTrip(r *http.Request) (*http.Response, error) { return l.conn.RoundTrip(r) }

// Upgrading returns the transport for requests that ask for an upgrade, each on a stream of its own.
func (l *Link) Upgrading() http.RoundTripper { return l.upgrades }

// Ended is closed when the link can carry no more requests.
func (l *Link) Ended() <-chan struct{} { return l.ended }

// Available returns how many more requests can be sent now; 0 also after the end.
func (l *Link) Available() int {
	select {
	case <-l.ended:
		return 0
	default:
		return l.conn.Available()
	}
}

// Finish returns when nothing runs on the link any more, when its connection is closed, or when ctx ends. The caller sends nothing more.
func (l *Link) Finish(ctx context.Context) {
	for l.conn.InFlight() > 0 {
		select {
		case <-l.fewer:
		case <-l.closed: // a request that was given up, and not acknowledged, counts as one that runs until a PING is answered
			return
		case <-ctx.Done():
			return
		}
	}
}

// Close ends the link, and whatever it carries.
func (l *Link) Close() error {
	l.end()
	return l.conn.Close()
}

func (l *Link) end() { l.once.Do(func() { close(l.ended) }) }

// dialledFor is the key of the context of the request that a stream is opened for.
type dialledFor struct{}

// upgrading sends each request on a stream of its own.
type upgrading struct{ t *http.Transport }

// RoundTrip implements http.RoundTripper. When a request is given up, net/http dials on for the next one. Here that has a stream of its
// own, so connect is told whose it opens.
func (u upgrading) RoundTrip(r *http.Request) (*http.Response, error) {
	return u.t.RoundTrip(r.WithContext(context.WithValue(r.Context(), dialledFor{}, r.Context())))
}

// connect opens a stream for HTTP/1.1.
func (l *Link) connect(ctx context.Context) (net.Conn, error) {
	if of, ok := ctx.Value(dialledFor{}).(context.Context); ok {
		ctx = of
	}
	read, write := io.Pipe()
	// The stream outlives ctx, by which it is opened alone.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	r := (&http.Request{
		Method: http.MethodConnect, URL: &url.URL{Scheme: "https", Host: streamHost}, Host: streamHost, Header: http.Header{}, Body: read,
		ContentLength: -1,
	}).WithContext(life)
	stop := context.AfterFunc(ctx, end)
	resp, err := l.conn.RoundTrip(r)
	if err == nil && !stop() {
		err = context.Cause(ctx)
		_ = resp.Body.Close()
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("open a stream on a link: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		end()
		return nil, errors.Join(fmt.Errorf("open a stream on a link: the member answered %d", resp.StatusCode), resp.Body.Close())
	}
	all := func() { _ = write.Close(); _ = resp.Body.Close(); end() }
	conn, over := newStream(resp.Body, write, all, l.local, l.remote)
	return &hubStream{Conn: conn, over: over, end: all}, nil
}

// closeNotifier is a connection that says when it is closed.
type closeNotifier struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

// Close implements net.Conn.
func (c *closeNotifier) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
