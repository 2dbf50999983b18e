// Package agent joins a member cluster to its hub, and keeps links to it.
package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

const (
	// secretName is the Secret with the member's identity.
	secretName = "ks-fleet-member"
	keyUID     = "cluster-uid"
	keyCA      = "ca.crt"

	// joinTimeout bounds a join, and dialTimeout the dialling of a link.
	joinTimeout, dialTimeout = 30 * time.Second, 10 * time.Second
	// grace is how long open requests may take when this server stops.
	grace = 20 * time.Second
	// links is how many links are kept, to different replicas of the hub if it has several. dials is how often another replica is tried,
	// since a load balancer may choose the same one again.
	links, dials = 2, 8
	// maxAnswer bounds the answer to a join, in bytes.
	maxAnswer = 64 << 10
)

// redial is how the hub is dialled: the agent never gives up.
var redial = link.Redial{Least: 200 * time.Millisecond, Most: 5 * time.Second, Jitter: true}

// Secrets reads and writes Secrets of this server's namespace. client-go's SecretInterface is one.
type Secrets interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
	Create(ctx context.Context, s *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error)
	Update(ctx context.Context, s *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error)
}

// Options are what an Agent works with.
type Options struct {
	Secrets Secrets
	// Hub is the https address of the hub, CA the PEM of the authorities that its certificate is verified with; nil for the system's.
	Hub *url.URL
	CA  []byte
	// Token returns the join token, "" for none. It is called where this cluster has not joined, or was forgotten.
	Token func() (string, error)
	// UID is that of kube-system; KubernetesVersion and Version are those of Kubernetes and of this software.
	UID, KubernetesVersion, Version string
	// Handler answers the requests of the hub.
	Handler http.Handler
	// Drain ends the links that a hub has dialled when it is done.
	Drain context.Context
	Now   func() time.Time
}

// Agent keeps this cluster in the fleet.
type Agent struct {
	Options
	client   *http.Client
	identity atomic.Pointer[identity]
	joining  sync.Mutex
	// forgotten is the UID of this cluster's former Cluster, which the hub no longer has.
	forgotten atomic.Pointer[string]
	replicas  replicas
}

// New returns an Agent, or an error for a wrong configuration.
func New(o Options) (*Agent, error) {
	if o.Hub.Scheme != "https" || o.Hub.Host == "" {
		return nil, fmt.Errorf("the address of the hub is %q, and not one that begins with https://: tokens would cross the network"+
			" in the clear", o.Hub)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(o.CA) {
			return nil, errors.New("the authorities of the hub are no certificates in PEM")
		}
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout,
		DialContext: link.Corked((&net.Dialer{}).DialContext), Protocols: new(http.Protocols)}
	t.Protocols.SetHTTP1(true) // WebSockets
	return &Agent{Options: o, client: &http.Client{Transport: link.FrameTransport{RoundTripper: t},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the hub redirects, which a hub does not")
		}}}, nil
}

// Run keeps links until ctx ends.
func (a *Agent) Run(ctx context.Context) {
	var all sync.WaitGroup
	for range links {
		all.Go(func() { a.keep(ctx) })
	}
	all.Wait()
}

// keep keeps one link.
func (a *Agent) keep(ctx context.Context) {
	redial.Keep(ctx, func() error {
		for again := 0; ; again++ {
			err := a.link(ctx, again < dials)
			if !errors.Is(err, errMet) || ctx.Err() != nil {
				return err
			}
		}
	}, func(err error, news bool) {
		if news {
			klog.ErrorS(err, "This cluster has no link to its hub; it is tried again all the time", "hub", a.Hub.Host)
		}
	})
}

// link opens one link, and returns when it has ended. If another replica of the hub is wanted, the error for one that this cluster is
// linked to already is errMet.
func (a *Agent) link(ctx context.Context, another bool) error {
	id, err := a.identify(ctx)
	if err != nil {
		return err
	}
	at := *a.Hub
	at.Path = strings.TrimSuffix(at.Path, "/") + join.PathLinks + id.uid
	over := &link.Addresses{}
	dial, cancel := context.WithTimeout(over.Record(ctx), dialTimeout)
	defer cancel()
	conn, resp, err := websocket.Dial(dial, at.String(), &websocket.DialOptions{HTTPClient: a.client}) //nolint:bodyclose // Dial has read it
	if err != nil {
		if resp != nil && resp.StatusCode == http.StatusGone {
			a.forgotten.Store(&id.uid)
			a.identity.CompareAndSwap(id, nil)
			return errors.New("the hub has removed this cluster from the fleet: it joins again with a new token")
		}
		return undialled(err, resp)
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	leave, met := a.replicas.meet(resp.Header, another)
	if met {
		return errMet
	}
	defer leave()
	h := a.linkHandler(id)
	life, end := context.WithCancel(ctx)
	defer end()
	// A link that is older than the certificate is opened again with the next one.
	timer := time.AfterFunc(max(time.Minute, a.renewAt(id).Sub(a.Now())), end)
	defer timer.Stop()
	by := over.Of(websocket.NetConn(context.WithoutCancel(ctx), conn, websocket.MessageBinary))
	klog.InfoS("Linked to the hub", "hub", a.Hub.Host, "address", by.RemoteAddr())
	return h.Serve(life, by, grace)
}

// undialled returns why the hub was not dialled, with what to look at.
func undialled(err error, resp *http.Response) error {
	wrong := (*tls.CertificateVerificationError)(nil)
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("dial the hub: what answers at its address has no certificate of the hub's (fleet.hub.caFile): %w", err)
	case resp == nil:
		return fmt.Errorf("dial the hub: it is not reached (fleet.hub.url; HTTPS_PROXY, where there is one): %w", err)
	case resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("dial the hub: it is busy, or has just been started (%d)", resp.StatusCode)
	}
	return fmt.Errorf("dial the hub: what answers there is no hub, or something in between takes WebSockets away (%d)", resp.StatusCode)
}

// linkHandler returns what serves a link.
func (a *Agent) linkHandler(id *identity) *link.Handler {
	return &link.Handler{Handler: a.Handler, Identity: link.Identity{
		Certificate: func() (*tls.Certificate, error) { return &id.certificate, nil },
		Authorities: func() *x509.CertPool { return id.pool },
	}}
}
