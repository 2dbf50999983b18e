package browser

import (
	"crypto/rand"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"strings"

	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// The cookies. Over https their names have a prefix by which browsers accept them only from this host and with Secure (RFC
// 6265bis, 4.1.3.2). Over http, on loopback only, they have none.
const (
	SessionCookie = "ks-session" // names the browser's session, sealed
	BindingCookie = "ks-login"   // binds form states to this browser
	HostPrefix    = "__Host-"
)

// Cookies makes cookies for browsers, and knows their names.
type Cookies struct {
	// Issuer is the URL of the server.
	Issuer string
}

// encrypted reports whether the browser uses https, with this server or with the proxy at the issuer's address.
func (c *Cookies) encrypted(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(c.Issuer, "https:")
}

// RequireTLS returns an error for requests over plain http, except on loopback.
func (c *Cookies) RequireTLS(r *http.Request) error {
	if c.encrypted(r) || loopback(r.Host) {
		return nil
	}
	return protocol.Problem(http.StatusForbidden, page.Say("error.https"), nil)
}

// loopback reports whether a host is a loopback address or name.
func loopback(hostport string) bool {
	u := url.URL{Host: hostport}
	if u.Hostname() == "localhost" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}

// Name returns the name of a cookie as the request's browser sends it.
func (c *Cookies) Name(r *http.Request, name string) string {
	if c.encrypted(r) {
		return HostPrefix + name
	}
	return name
}

// New returns a cookie that lasts until the browser is closed. SameSite=Lax sends it when the user follows a link from another site,
// not with forms or scripts of other sites.
func (c *Cookies) New(r *http.Request, name, value string) *http.Cookie {
	return &http.Cookie{Name: c.Name(r, name), Value: value, Path: "/", Secure: c.encrypted(r), HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// Expired returns the cookie that deletes another.
func (c *Cookies) Expired(r *http.Request, name string) *http.Cookie {
	gone := c.New(r, name, "")
	gone.MaxAge = -1
	return gone
}

// Binding returns the secret that binds form states to this browser (S38), and the cookie to set if it has none.
func (c *Cookies) Binding(r *http.Request) (secret string, set *http.Cookie) {
	if old, err := r.Cookie(c.Name(r, BindingCookie)); err == nil && len(old.Value) == secretLength {
		return old.Value, nil
	}
	secret = RandomSecret()
	return secret, c.New(r, BindingCookie, secret)
}

// secretLength is the length of a RandomSecret.
const secretLength = 43

// RandomSecret returns 256 random bits.
func RandomSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b[:])
}
