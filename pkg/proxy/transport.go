package proxy

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
	// headerTimeout exceeds kube-apiserver's own limit for an ordinary request, 60 s, so that it is kube-apiserver that reports when a
	// request takes too long.
	headerTimeout = 75 * time.Second
)

type transports struct {
	ordinary, streams, upgrades http.RoundTripper
	closeIdle                   func()
}

// newTransports returns the three transports to kube-apiserver, each with the credentials of cfg. The credentials are set by client-go's
// own wrappers, which read a token's file again when it changes, for upgrades too.
func newTransports(cfg *rest.Config) (*transports, error) {
	// The caller's identity is set on each request; one in the configuration would overwrite it.
	cfg = rest.CopyConfig(cfg)
	cfg.Impersonate = rest.ImpersonationConfig{}

	ordinary, err := newTransport(cfg)
	if err != nil {
		return nil, err
	}
	ordinary.ResponseHeaderTimeout = headerTimeout

	streams, err := newTransport(cfg)
	if err != nil {
		return nil, err
	}

	upgrades, err := newTransport(cfg)
	if err != nil {
		return nil, err
	}
	upgrades.ResponseHeaderTimeout = headerTimeout
	upgrades.DisableKeepAlives = true // a connection is never used again after a failed upgrade
	upgrades.ForceAttemptHTTP2 = false
	upgrades.HTTP2 = nil
	upgrades.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	if upgrades.TLSClientConfig != nil {
		upgrades.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}

	t := &transports{closeIdle: func() {
		for _, base := range []*http.Transport{ordinary, streams, upgrades} {
			base.CloseIdleConnections()
		}
	}}
	for _, way := range []struct {
		to   *http.RoundTripper
		base http.RoundTripper
	}{{&t.ordinary, ordinary}, {&t.streams, streams}, {&t.upgrades, upgrades}} {
		if *way.to, err = rest.HTTPWrappersForConfig(cfg, way.base); err != nil {
			return nil, fmt.Errorf("prepare the credentials for kube-apiserver: %w", err)
		}
	}
	return t, nil
}

// answerWindow is how much of an answer is received from kube-apiserver before the client has taken it, in bytes.
const answerWindow = 128 << 10

func newTransport(cfg *rest.Config) (*http.Transport, error) {
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("prepare TLS for kube-apiserver: %w", err)
	}
	dial := (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	if cfg.Dial != nil {
		dial = cfg.Dial
	}
	proxy := http.ProxyFromEnvironment
	if cfg.Proxy != nil {
		proxy = cfg.Proxy
	}
	return &http.Transport{
		Proxy:               proxy,
		DialContext:         dial,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: handshakeTimeout,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        0, // no limit but the one per host: there is one host
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true, // compressed answers pass as they are
		HTTP2: &http.HTTP2Config{
			// Pings find a connection that died silently (a node that lost its power).
			SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second,
			// What a client does not read waits at kube-apiserver: of each answer this much is in memory here. All share a connection, whose
			// window is large enough for any number of them (net/http has 1 GiB).
			MaxReceiveBufferPerStream: answerWindow,
		},
	}, nil
}
