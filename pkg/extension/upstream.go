package extension

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/egress"
)

const (
	// atMost bounds the requests that one backend has at once, and atMostOfOne those of one user among them.
	atMost, atMostOfOne = 256, 64
)

// Address is where a backend is, and how its certificate is verified.
type Address struct {
	Scheme, Host string
	// Path is that of the endpoint, without a slash at its end.
	Path string
	// Insecure accepts any certificate.
	Insecure bool

	roots  *x509.CertPool
	digest [sha256.Size]byte // of the CA bundle
}

// Hostname is that of Host, without its port.
func (a *Address) Hostname() string { return (&url.URL{Host: a.Host}).Hostname() }

// addressKey is what makes two addresses one.
type addressKey struct {
	scheme, host string
	insecure     bool
	authorities  [sha256.Size]byte
}

func (a *Address) key() addressKey { return addressKey{a.Scheme, a.Host, a.Insecure, a.digest} }

// ParseEndpoint returns the address of an endpoint. Its error says what is wrong with it.
func ParseEndpoint(e *v1alpha1.Endpoint) (*Address, error) {
	a := &Address{Insecure: e.InsecureSkipVerify}
	switch {
	case e.URL != nil && *e.URL != "" && e.Service != nil:
		return nil, errors.New("url and service are both set: a backend is one of them")
	case e.URL != nil && *e.URL != "":
		u, err := url.Parse(*e.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" ||
			u.Fragment != "" {
			return nil, errors.New("url is not an http or https URL of a host, without user, query and fragment")
		}
		a.Scheme, a.Host, a.Path = u.Scheme, strings.ToLower(u.Host), strings.TrimSuffix(u.Path, "/")
	case e.Service != nil:
		s := e.Service
		if len(validation.IsDNS1123Label(s.Namespace)) > 0 || len(validation.IsDNS1035Label(s.Name)) > 0 {
			return nil, fmt.Errorf("service: %.63q in %.63q is not the name of a Service in a namespace", s.Name, s.Namespace)
		}
		port := int32(443)
		if s.Port != nil {
			port = *s.Port
		}
		if a.Scheme = "http"; port == 443 {
			a.Scheme = "https"
		}
		a.Host = s.Name + "." + s.Namespace + ".svc:" + strconv.Itoa(int(port))
		if s.Path != nil {
			a.Path = strings.TrimSuffix(rooted(*s.Path), "/")
		}
	default:
		return nil, errors.New("there is neither a url nor a service")
	}
	if a.Path != "" && !SoundPath(a.Path) {
		return nil, fmt.Errorf("the path %.100q of the endpoint is none", a.Path)
	}
	if len(e.CABundle) > 0 {
		authorities := Decoded(e.CABundle)
		a.roots, a.digest = x509.NewCertPool(), sha256.Sum256(authorities)
		if !a.roots.AppendCertsFromPEM(authorities) {
			return nil, errors.New("caBundle has no PEM certificate")
		}
	}
	return a, nil
}

// Decoded returns content that was written in base64 twice, as some charts do, or once, without the base64 that is left.
func Decoded(content []byte) []byte {
	if inner, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(content))); err == nil && len(inner) > 0 {
		return inner
	}
	return content
}

// Upstream is a backend, whichever objects name it.
type Upstream struct {
	transport *http.Transport // for requests
	upgrading *http.Transport // for requests to upgrade, which HTTP/2 has none of
	breaker   breaker

	mu     sync.Mutex
	all    int
	byUser map[User]int
}

// User is the caller of a backend, as its bounds count them.
type User struct{ UID, Name string }

// Transport returns a transport to the backend, with connections of its own.
func (a *Address) Transport(o egress.Options) *http.Transport {
	o.SkipVerify, o.RootCAs = a.Insecure, a.roots
	return egress.NewTransport(o)
}

func newUpstream(a *Address, o *Options) *Upstream {
	u := &Upstream{byUser: map[User]int{}, transport: a.Transport(o.Egress), upgrading: a.Transport(o.Egress)}
	u.transport.MaxIdleConnsPerHost, u.transport.MaxConnsPerHost = 32, 0 // Enter bounds them
	u.upgrading.MaxConnsPerHost = 0
	u.upgrading.ForceAttemptHTTP2, u.upgrading.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
	for _, t := range []*http.Transport{u.transport, u.upgrading} {
		t.TLSClientConfig.GetClientCertificate = o.ClientCertificate
		t.DisableCompression = true // an answer is passed on as it is
	}
	return u
}

// The errors of Enter.
var (
	ErrBusy     = errors.New("the backend has as many requests as it may have at once")
	ErrBusyUser = errors.New("the user has as many requests to this backend as one may have at once")
)

// Down says that a backend is not asked for a while, since it could not be reached.
type Down struct{ For time.Duration }

// Error says so.
func (d *Down) Error() string {
	return "the backend could not be reached lately, and is not asked for a while"
}

// Enter counts a request of a user, until leave is called once. Its errors are ErrBusy, ErrBusyUser and a Down.
func (u *Upstream) Enter(user User, now time.Time) (leave func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.all >= atMost:
		return nil, ErrBusy
	case u.byUser[user] >= atMostOfOne:
		return nil, ErrBusyUser
	}
	wait, trial := u.breaker.enter(now)
	if wait > 0 {
		return nil, &Down{wait}
	}
	u.all++
	u.byUser[user]++
	return func() {
		if trial {
			u.breaker.left() // it may never have been sent
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.all--
		if u.byUser[user]--; u.byUser[user] == 0 {
			delete(u.byUser, user)
		}
	}, nil
}

// RoundTrip sends a request to the backend, and notes whether it could be reached.
func (u *Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	by := u.transport
	if r.Header.Get("Upgrade") != "" {
		by = u.upgrading
	}
	var sent *watchedBody
	if r.Body != nil && r.Body != http.NoBody {
		sent = &watchedBody{ReadCloser: r.Body}
		r = r.WithContext(r.Context()) // a RoundTripper changes no request
		r.Body = sent
	}
	resp, err := by.RoundTrip(r)
	switch {
	case err == nil:
		u.breaker.worked()
	case r.Context().Err() != nil && !errors.Is(context.Cause(r.Context()), ErrHeaderTimeout), sent != nil && sent.failed.Load():
		u.breaker.left()
	default:
		u.breaker.broke(time.Now())
	}
	return resp, err
}

// watchedBody is the body of a request, which its client may break off or make too large: nothing that the backend is to blame for.
type watchedBody struct {
	io.ReadCloser
	failed atomic.Bool
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.failed.Store(true)
	}
	return n, err
}

// ErrHeaderTimeout is the cause with which a request is ended whose answer has not begun in time.
var ErrHeaderTimeout = errors.New("no answer has begun in time")

// close ends connections that nothing goes over. What is under way goes on.
func (u *Upstream) close() {
	u.transport.CloseIdleConnections()
	u.upgrading.CloseIdleConnections()
}
