// Package git asks a Git server whether a repository exists for an account.
//
// It sends the one request that this takes, the reference discovery of Git's smart HTTP protocol
// (https://git-scm.com/docs/http-protocol), with nothing but net/http: a Git library brings SSH, signatures and file systems for a
// question that the first line of one answer settles. Repositories over SSH are not supported: without a known host key, the account
// would be sent to any server that answers.
package git

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// timeout bounds a request, redirects included.
	timeout      = 10 * time.Second
	maxRedirects = 5
	maxURL       = 2048
	// service is the Git service that reads a repository.
	service = "git-upload-pack"
)

// Account is a user name and a password; the zero Account is anonymous. It does not show its password in any format.
type Account struct {
	Username, Password string
}

// String hides the password.
func (a Account) String() string { return "account of " + a.Username }

// GoString hides the password.
func (a Account) GoString() string { return a.String() }

// Options are the options of a Client.
type Options struct {
	// AllowLoopback allows requests to this machine: for tests and local debugging.
	AllowLoopback bool
}

// Client sends requests to Git servers. It is safe for concurrent use.
type Client struct {
	transport *http.Transport
}

// New returns a client. Nothing is dialled yet.
func New(o Options) *Client {
	return &Client{egress.NewTransport(egress.Options{AllowLoopback: o.AllowLoopback, HeaderTimeout: timeout})}
}

// CloseIdleConnections closes the unused connections.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }

// Verify checks that the account can read the repository at an http or https address. Its errors are a Status, with a message for users:
// 404 where there is no such repository for the account, 400 otherwise.
func (c *Client) Verify(ctx context.Context, address string, who Account) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u, err := parse(address)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return status.BadRequestf("the address of the repository can't be asked for")
	}
	if who != (Account{}) {
		req.SetBasicAuth(who.Username, who.Password)
	}
	// Servers answer with HTML pages to clients that they don't know to be Git.
	req.Header.Set("User-Agent", "git/2.0 (ks-apiserver)")
	resp, err := (&http.Client{Transport: c.transport, CheckRedirect: follow}).Do(req)
	if err != nil {
		return failure(ctx, u.Host, err)
	}
	defer resp.Body.Close()
	return checkResponse(u.Host, resp)
}

// parse reads the address of a repository, and returns that of its references.
func parse(address string) (*url.URL, error) {
	if strings.HasPrefix(address, "ssh://") || !strings.Contains(address, "://") && strings.Contains(address, "@") {
		return nil, status.BadRequestf("repositories over SSH can't be checked: give the https address of the repository")
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || len(address) > maxURL || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, status.BadRequestf("the address of the repository is not an https URL such as https://git.example.com/team/app.git")
	case u.User != nil:
		return nil, status.BadRequestf("the address of the repository has credentials in it: put them into a Secret, and name that as secretRef")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, status.BadRequestf("the address of the repository has a query or a fragment")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	u = u.JoinPath("info", "refs")
	u.RawQuery = "service=" + service
	return u, nil
}

// The errors of follow.
var (
	errRedirects = errors.New("too many redirects")
	errDowngrade = errors.New("a redirect away from TLS")
)

// follow follows redirects, and sends the account to no other server.
func follow(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	switch {
	case len(via) > maxRedirects:
		return errRedirects
	case first.Scheme == "https" && r.URL.Scheme != "https":
		return errDowngrade
	case !strings.EqualFold(r.URL.Host, first.Host):
		r.Header.Del("Authorization")
	}
	return nil
}

// checkResponse returns the error for an answer that is not that of a Git server with the repository.
func checkResponse(host string, resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return status.BadRequestf("the Git server %s refuses the credentials, or there are none for this repository", host)
	case http.StatusNotFound, http.StatusGone:
		return status.Errorf(http.StatusNotFound, "the Git server %s has no such repository, or does not show it to this account", host)
	default:
		return status.BadRequestf("the Git server %s answers %d", host, resp.StatusCode)
	}
	// A length in four hexadecimal digits, then the line itself.
	const line = "001e# service=" + service + "\n"
	begin := make([]byte, len(line))
	if _, err := io.ReadFull(resp.Body, begin); err != nil || string(begin) != line {
		return status.BadRequestf("%s does not answer as a Git server does: is that the address of a repository?", host)
	}
	return nil
}

// failure describes an error in our own words: network errors contain addresses.
func failure(ctx context.Context, host string, err error) error {
	var unknown *net.DNSError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.Is(err, egress.ErrRefused):
		return status.BadRequestf("the Git server %s: %v", host, egress.ErrRefused)
	case errors.Is(err, errRedirects), errors.Is(err, errDowngrade):
		return status.BadRequestf("the Git server %s sends the request to where it is not followed", host)
	case errors.As(err, &untrusted):
		return status.BadRequestf("the certificate of the Git server %s is not trusted", host)
	case errors.Is(err, http.ErrSchemeMismatch):
		return status.BadRequestf("the Git server %s does not speak TLS", host)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return status.BadRequestf("there is no host %s", host)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return context.Canceled
	}
	return status.BadRequestf("the Git server %s can't be reached, or does not answer in time", host)
}
