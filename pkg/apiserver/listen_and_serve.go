package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/apiserver/drain"
	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

// The limits of a connection. Nothing here limits how long an answer may take, because watches last.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 3 * time.Minute
	maxHeaderBytes    = 32 << 10
	drainTimeout      = 30 * time.Second
	closeTimeout      = time.Second
)

// Listen configures the ports.
type Listen struct {
	// BindAddress is the address of both ports.
	BindAddress string
	// InsecurePort serves HTTP, SecurePort HTTPS; 0 means not at all.
	InsecurePort, SecurePort int
	// CertFile and KeyFile are PEM files, read again when they change. Where the aggregated API is served, they may be left out: clients
	// of every name then get its certificate.
	CertFile, KeyFile string
	// ShutdownDelay is how long everything is still served once a stop was requested, while /readyz fails: what leads clients here, as a
	// Service of Kubernetes does, needs this long to send them elsewhere. It is what kube-apiserver's flag shutdown-delay-duration is.
	ShutdownDelay time.Duration
}

// open binds the ports. The error names the one that is in use.
func (l Listen) open(ctx context.Context, peers *clientCA, aggregated *aggregatedTLS) (insecure, secure net.Listener, err error) {
	if l.ShutdownDelay < 0 {
		return nil, nil, fmt.Errorf("--shutdown-delay-duration is %v: it must not be negative", l.ShutdownDelay)
	}
	if l.InsecurePort == 0 && l.SecurePort == 0 {
		return nil, nil, errors.New("nothing to serve: --insecure-port and --secure-port are both 0")
	}
	if aggregated.enabled && l.SecurePort == 0 {
		return nil, nil, errors.New("aggregated.enabled: kube-apiserver reaches this server by TLS only: set --secure-port")
	}
	listen := func(port int) (net.Listener, error) {
		var lc net.ListenConfig
		ln, err := lc.Listen(ctx, "tcp", net.JoinHostPort(l.BindAddress, strconv.Itoa(port)))
		if err != nil {
			return nil, fmt.Errorf("listen on port %d: %w", port, err)
		}
		return ln, nil
	}
	if l.InsecurePort != 0 {
		if insecure, err = listen(l.InsecurePort); err != nil {
			return nil, nil, err
		}
		insecure = web.CoalesceWrites(insecure)
	}
	if l.SecurePort == 0 {
		return insecure, nil, nil
	}
	served := (&certificate.File{Certificate: l.CertFile, Key: l.KeyFile, Now: time.Now}).Load
	if aggregated.enabled && l.CertFile == "" && l.KeyFile == "" {
		served = aggregated.certificate
	} else {
		_, err = served()
	}
	if err == nil {
		secure, err = listen(l.SecurePort)
	}
	if err != nil {
		if insecure != nil {
			_ = insecure.Close()
		}
		return nil, nil, err
	}
	return insecure, tls.NewListener(secure, secureConfig(served, peers, aggregated)), nil
}

// secureConfig returns the TLS configuration, which depends on the name that a client asks for.
func secureConfig(certificate func() (*tls.Certificate, error), peers *clientCA, aggregated *aggregatedTLS) *tls.Config {
	served := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if aggregated.enabled && strings.EqualFold(hello.ServerName, inClusterName) {
				return aggregated.certificate() // pods trust its authority
			}
			return certificate()
		},
	}
	served.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if own := aggregated.config(hello, served); own != nil {
			return own, nil
		}
		return peers.config(served), nil
	}
	return served
}

// mostStreams bounds the requests of one HTTP/2 connection at once, and bodyWindow what is received of the body of one before it is read,
// in bytes.
const mostStreams, bodyWindow = 250, 128 << 10

// serve answers requests until ctx is done, then drains. For delay only /readyz fails, and connections are closed after their answer, so
// that load balancers and clients go elsewhere before connections are refused. Then the ports close, streams are ended, and open requests
// may finish for drainTimeout.
func serve(ctx context.Context, handler http.Handler, listeners []net.Listener, d *drain.Drain, delay time.Duration) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler:           web.EndStreams(d.Count(handler)),
		ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    log.New(klogWriter{}, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return filter.CountStrangers(web.CoalesceContext(ctx, c), c)
		},
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: mostStreams,
			// The window of a connection is the sum of those of its streams: a body that nobody reads holds no other. kube-apiserver, and
			// proxies, send the requests of many users over one connection.
			MaxReceiveBufferPerStream: bodyWindow, MaxReceiveBufferPerConnection: mostStreams * bodyWindow,
			// No answer is cut off for a client that reads nothing of its connection: the end of a stream would wait behind what it does not read.
			WriteByteTimeout: stream.DefaultProgress,
		},
	}
	failed := make(chan error, len(listeners))
	for _, ln := range listeners {
		go func() { failed <- srv.Serve(ln) }()
	}
	select {
	case err := <-failed:
		_ = srv.Close()
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	klog.InfoS("stopping: not ready any more, and still serving", "delay", delay)
	d.Announce()
	d.Sleep(delay)
	klog.InfoS("stopping: open requests may finish", "open", d.Open(), "timeout", drainTimeout)
	// Before streams end: a client that continues one then does so on a new connection, which leads to another replica.
	srv.SetKeepAlivesEnabled(false)
	end, stop := context.WithCancel(base)
	defer stop()
	closed := make(chan struct{})
	go func() {
		_ = srv.Shutdown(end)
		close(closed)
	}()
	d.Begin()
	finished := d.Wait(drainTimeout)
	select {
	case <-closed:
	case <-time.After(closeTimeout):
		_ = srv.Close() // connections without a request yet
	}
	if !finished {
		return fmt.Errorf("stop: %d requests were still open after %v", d.Open(), drainTimeout)
	}
	return nil
}

// klogWriter logs what net/http reports about single connections at a low level: a client's broken TLS handshake needs no one's
// attention.
type klogWriter struct{}

func (klogWriter) Write(p []byte) (int, error) {
	klog.V(2).InfoS("connection", "message", strings.TrimSpace(string(p)))
	return len(p), nil
}
