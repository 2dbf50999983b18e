// Package registry asks container registries, with the credentials that a user chose, about images.
//
// Registries and their answers are not trusted: they are reached by package egress only, every operation is bounded in time, in requests
// and in the length of answers, and nothing of an answer gets into an error. Connections are verified TLS unless the user declared the
// registry insecure. Credentials go to the registry that they are for, and to a token server of the same site
// (https://distribution.github.io/distribution/spec/auth/token/).
package registry

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/status"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// timeout bounds an operation, all its requests together.
	timeout = 10 * time.Second
	// hub is where Docker Hub is searched.
	hub = "https://index.docker.io"
)

// Options are the options of a Client.
type Options struct {
	// AllowLoopback allows requests to this machine: for tests and local debugging.
	AllowLoopback bool
	// Hub is the base of the search of Docker Hub; "" means the real one.
	Hub string
}

// Client sends requests to registries. It is safe for concurrent use.
type Client struct {
	verified, unverified http.RoundTripper
	hub                  string
	closeIdle            func()
}

// New returns a client. Nothing is dialled yet.
func New(o Options) *Client {
	verified := egress.NewTransport(egress.Options{AllowLoopback: o.AllowLoopback, HeaderTimeout: timeout})
	unverified := egress.NewTransport(egress.Options{AllowLoopback: o.AllowLoopback, HeaderTimeout: timeout, SkipVerify: true})
	c := &Client{verified: verified, unverified: unverified, hub: strings.TrimSuffix(o.Hub, "/")}
	if c.hub == "" {
		c.hub = hub
	}
	c.closeIdle = func() {
		verified.CloseIdleConnections()
		unverified.CloseIdleConnections()
	}
	return c
}

// CloseIdleConnections closes the unused connections.
func (c *Client) CloseIdleConnections() { c.closeIdle() }

// Verify logs in to the registry at host. It returns a Status error of code 400 with the reason, in words for users, where that fails.
func (c *Client) Verify(ctx context.Context, host string, who Account, insecure bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	reg, err := registryAt(normal(host), insecure)
	if err != nil {
		return err
	}
	s, err := c.open(ctx, reg, who, insecure, nil)
	if err == nil {
		_, _, err = s.get(ctx, "/v2/", "")
	}
	return failure(ctx, reg.RegistryStr(), "log in", err)
}

// registryAt reads the address of a registry.
func registryAt(host string, insecure bool) (name.Registry, error) {
	reg, err := name.NewRegistry(host, append(options(insecure), name.StrictValidation)...)
	if err != nil || !isAddress(reg.RegistryStr()) {
		return name.Registry{}, status.BadRequestf(
			"%q is not the address of a registry, such as registry.example.com or 10.0.0.8:5000",
			excerpt(host),
		)
	}
	return reg, nil
}

// isAddress reports whether s is a host, by name or IP, with or without a port, and nothing else that a URL could hold.
func isAddress(s string) bool {
	host := s
	if h, port, err := net.SplitHostPort(s); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
		host = h
	} else if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		host = s[1 : len(s)-1]
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return strings.HasPrefix(s, "[") == strings.Contains(host, ":")
	}
	return len(validation.IsDNS1123Subdomain(strings.ToLower(host))) == 0
}

// isRepository reports whether the name of a repository can stand in the path of a URL as it is.
func isRepository(r name.Repository) bool {
	for segment := range strings.SplitSeq(r.RepositoryStr(), "/") {
		if strings.Trim(segment, ".") == "" {
			return false
		}
	}
	return isAddress(r.RegistryStr())
}

func options(insecure bool) []name.Option {
	if insecure {
		return []name.Option{name.Insecure}
	}
	return nil
}

func (a Account) authenticator() authn.Authenticator {
	if a.Username == "" && a.Password == "" {
		return authn.Anonymous
	}
	return &authn.Basic{Username: a.Username, Password: a.Password}
}
