package frontproxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/informer"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Authenticator authenticates the front proxy, and the users that it names. Until Run has read the ConfigMap, and while there is none,
// it authenticates nobody.
type Authenticator struct {
	// Now is the clock.
	Now func() time.Time

	state atomic.Pointer[state]
}

// state is the last configuration, or why there is none.
type state struct {
	configuration *configuration
	fault         error
}

var _ authenticator.Request = (*Authenticator)(nil)

// errUnread is a Status: who asks before the ConfigMap is read tries again.
var errUnread error = status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable,
	"the ConfigMap %s/%s is not read yet", Namespace, Name))

// Run follows the ConfigMap until ctx ends.
func (a *Authenticator) Run(ctx context.Context, client informer.Client[*corev1.ConfigMapList]) {
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", Name).String()}
	informer.Run(ctx, client, only, informer.Handler[*corev1.ConfigMap]{
		Set: func(m *corev1.ConfigMap) { a.set(m.Name, m.Data) },
		Delete: func(_, name string) {
			if name == Name {
				a.state.Store(&state{fault: errMissing})
			}
		},
		Synced: func() { a.state.CompareAndSwap(nil, &state{fault: errMissing}) },
	})
}

var errMissing = fmt.Errorf("there is no ConfigMap %s/%s", Namespace, Name)

// set takes over the ConfigMap. One that can't be read authenticates nobody: what it was before may be what was withdrawn.
func (a *Authenticator) set(name string, data map[string]string) {
	if name != Name {
		return
	}
	c, err := parse(data)
	if err != nil {
		err = fmt.Errorf("the ConfigMap %s/%s: %w", Namespace, Name, err)
		klog.ErrorS(err, "Nobody is authenticated at the aggregated API")
	}
	a.state.Store(&state{configuration: c, fault: err})
}

// Fault returns why nobody can be authenticated, or nil.
func (a *Authenticator) Fault() error {
	if s := a.state.Load(); s != nil {
		return s.fault
	}
	return errUnread
}

func (a *Authenticator) configuration() *configuration {
	if s := a.state.Load(); s != nil {
		return s.configuration
	}
	return nil
}

// Authorities returns the certificate authorities of the front proxy, nil if there are none.
func (a *Authenticator) Authorities() []*x509.Certificate {
	if c := a.configuration(); c != nil {
		return c.authorities
	}
	return nil
}

// AuthenticateRequest returns the user that the front proxy names. For any other peer it returns none, without a look at the headers.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	c, err := a.verified(r)
	if err != nil {
		return nil, false, err
	}
	u := c.user(r.Header)
	if u == nil {
		return nil, false, errors.New("the front proxy names no user")
	}
	return &authenticator.Response{User: u}, true, nil
}

// Verify returns why the peer of a request is not the front proxy, or nil.
func (a *Authenticator) Verify(r *http.Request) error {
	_, err := a.verified(r)
	return err
}

// verified returns the configuration by which the peer of a request is the front proxy.
func (a *Authenticator) verified(r *http.Request) (*configuration, error) {
	c := a.configuration()
	switch {
	case c == nil && a.state.Load() == nil:
		return nil, errUnread
	case c == nil:
		return nil, errors.New("nobody can be authenticated: see /readyz")
	case r.TLS == nil || len(r.TLS.PeerCertificates) == 0:
		return nil, errors.New("the peer has no certificate")
	}
	return c, c.verify(r.TLS.PeerCertificates, a.Now())
}

// verify returns why a peer is not the front proxy, or nil. The certificate is verified for each request: its authority may have been
// replaced, and the certificate may have expired, since the connection was opened.
func (c *configuration) verify(chain []*x509.Certificate, now time.Time) error {
	options := x509.VerifyOptions{
		Roots: c.pool, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, between := range chain[1:] {
		options.Intermediates.AddCert(between)
	}
	if _, err := chain[0].Verify(options); err != nil {
		return fmt.Errorf("the client certificate is not of the front proxy's authority: %w", err)
	}
	if len(c.names) > 0 && !slices.Contains(c.names, chain[0].Subject.CommonName) {
		return fmt.Errorf("the client certificate is for %.100q, which is not among the names of the front proxy", chain[0].Subject.CommonName)
	}
	return nil
}

// user returns the user that headers name, nil for none. The first header with a name counts, and all groups do.
func (c *configuration) user(h http.Header) *user.DefaultInfo {
	u := &user.DefaultInfo{Name: first(h, c.username), UID: first(h, c.uid), Groups: []string{}, Extra: map[string][]string{}}
	if u.Name == "" {
		return nil
	}
	for _, name := range c.group {
		for _, group := range h[name] {
			if group != "" {
				u.Groups = append(u.Groups, group)
			}
		}
	}
	for _, prefix := range c.extra {
		for name, values := range h {
			if key, states := web.ExtraKey(name, prefix); states {
				u.Extra[key] = append(u.Extra[key], values...)
			}
		}
	}
	return u
}

func first(h http.Header, names []string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// Cut removes every header by which a peer states an identity, the front proxy too. Handlers after the authentication see none.
func (a *Authenticator) Cut(h http.Header) {
	c := a.configuration()
	if c == nil {
		return
	}
	for _, list := range [][]string{c.username, c.uid, c.group} {
		for _, name := range list {
			h.Del(name)
		}
	}
	for name := range h {
		if slices.ContainsFunc(c.extra, func(prefix string) bool { return web.HasPrefixFold(name, prefix) }) {
			delete(h, name)
		}
	}
}
