package login

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// maxAnswer bounds how much of an answer is read, in bytes.
const maxAnswer = 1 << 20

// provider is the metadata of the issuer (OpenID Connect Discovery 1.0, 3; RFC 8414, 2).
type provider struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Device        string   `json:"device_authorization_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	UserInfo      string   `json:"userinfo_endpoint"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	// NamesItself says that each authorization response has the issuer (RFC 9207, 3).
	NamesItself bool `json:"authorization_response_iss_parameter_supported"`
}

// Discover returns the issuer that a server names; it trusts the server's certificate for that. Callers have to ask that
// issuer again, as New does: other servers' statements are not used.
func Discover(ctx context.Context, server string, roots *x509.CertPool, insecure bool) (issuer string, err error) {
	p, err := fetch(ctx, newHTTP(roots, insecure), server)
	if err != nil {
		return "", err
	}
	if u, err := url.Parse(p.Issuer); err != nil || u.Host == "" {
		return "", fmt.Errorf("ask %s for its issuer: it names %q, which is no URL", server, plain(p.Issuer))
	}
	return p.Issuer, nil
}

// discover reads the issuer's metadata.
func (s *Session) discover(ctx context.Context) (*provider, error) {
	p, err := fetch(ctx, s.http, s.Issuer)
	if err != nil {
		return nil, s.explain(err)
	}
	if p.Issuer != s.Issuer { // RFC 8414, 3.3
		return nil, fmt.Errorf("the server at %s calls itself %q: use that address as the issuer, letter by letter", s.Issuer, plain(p.Issuer))
	}
	for name, address := range map[string]string{
		"token_endpoint": p.Token, "authorization_endpoint": p.Authorization, "device_authorization_endpoint": p.Device,
		"revocation_endpoint": p.Revocation, "userinfo_endpoint": p.UserInfo,
	} {
		u, err := url.Parse(address)
		if address == "" && name != "token_endpoint" {
			continue
		}
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !IsLoopback(u.Hostname())) {
			return nil, fmt.Errorf("the issuer %s has a %s that is not an https URL", s.Issuer, name)
		}
	}
	return p, nil
}

func fetch(ctx context.Context, client *http.Client, issuer string) (*provider, error) {
	address := strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s what it offers: %w", issuer, err)
	}
	var p provider
	if err := call(client, req, &p); err != nil {
		return nil, fmt.Errorf("ask %s what it offers: %w", issuer, err)
	}
	return &p, nil
}

// config returns how a client without a secret uses the provider.
func (p *provider) config(s *Session) *oauth2.Config {
	return &oauth2.Config{ClientID: s.Client, Scopes: s.Scopes, Endpoint: oauth2.Endpoint{
		AuthURL: p.Authorization, TokenURL: p.Token, DeviceAuthURL: p.Device, AuthStyle: oauth2.AuthStyleInParams}}
}

// client returns a context whose requests use the session's HTTP client.
func (s *Session) client(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, s.http)
}

// newHTTP returns a client that follows no redirects: no endpoint of a provider redirects, and tokens are not sent on.
func newHTTP(roots *x509.CertPool, insecure bool) *http.Client {
	return &http.Client{
		Timeout:       requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: insecure}},
		//nolint:gosec // New refuses it but for this machine
	}
}

// errRefused is the error for a token that is not accepted.
var errRefused = errors.New("the server does not accept the token")

// statusError is the error for a response that is not a success.
type statusError struct {
	code       int
	name, text string
}

func (e *statusError) Error() string {
	out := fmt.Sprintf("the server answers %d", e.code)
	if e.name != "" {
		out += " " + plain(e.name)
	}
	if e.text != "" {
		out += ": " + plain(e.text)
	}
	return out
}

func (e *statusError) Is(target error) bool {
	return target == errRefused && e.code == http.StatusUnauthorized
}

// call sends a request and decodes its answer as JSON into v, which may be nil.
func call(client *http.Client, req *http.Request, v any) error {
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK {
		var e struct {
			Name string `json:"error"`
			Text string `json:"error_description"`
		}
		if kind == "application/json" {
			_ = json.Unmarshal(body, &e) // without JSON, it has no reason
		}
		return &statusError{resp.StatusCode, e.Name, e.Text}
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return errors.New("the answer is not the JSON that was expected: is the address right?")
	}
	return nil
}

// isOver reports whether a refresh has failed finally: the session has ended (RFC 6749, 5.2).
func isOver(err error) bool {
	var e *oauth2.RetrieveError
	return errors.As(err, &e) && e.ErrorCode == "invalid_grant"
}

// explain describes what an error means, and what to do about it.
func (s *Session) explain(err error) error {
	var status *statusError
	var e *oauth2.RetrieveError
	code, name, text := 0, "", ""
	switch {
	case errors.As(err, &e) && e.Response != nil:
		code, name, text = e.Response.StatusCode, e.ErrorCode, e.ErrorDescription
	case errors.As(err, &status):
		code, name, text = status.code, status.name, status.text
	}
	says := strings.TrimSpace(plain(name) + ": " + plain(text))
	says = strings.Trim(says, ": ")
	switch {
	case code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests:
		return &wordedError{fmt.Sprintf("%s can't do it at the moment (%d %s); nothing is lost: try again in a moment", s.Issuer, code, says),
			err}
	case slices.Contains([]string{"invalid_client", "unauthorized_client"}, name):
		return &wordedError{fmt.Sprintf("%s does not let the OAuth client %q in (%s): see --client-id", s.Issuer, s.Client, says), err}
	case name == "access_denied":
		return &wordedError{fmt.Sprintf("the login at %s was refused (%s)", s.Issuer, says), err}
	case e != nil && code != 0: // the library's own text quotes the whole answer
		return &wordedError{fmt.Sprintf("%s answers %d %s", s.Issuer, code, says), err}
	}
	return err
}

// wordedError is an error with another text.
type wordedError struct {
	text string
	err  error
}

func (e *wordedError) Error() string { return e.text }
func (e *wordedError) Unwrap() error { return e.err }

// plain makes a text of a server short, and safe to be shown on a terminal.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), 300)]
}
