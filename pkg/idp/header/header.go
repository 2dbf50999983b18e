// Package header is the identity provider for an authenticating proxy, which logs users in by its own means, and names them in
// headers of the requests that it passes on. The proxy is identified by its client certificate, and by nothing else.
package header

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/web"
)

// TypeName is the name of the type in configurations.
const TypeName = "HeaderIdentityProvider"

// maxValue bounds the value of a header with a name, in bytes.
const maxValue = 1024

// settings are the keys of the configuration.
type settings struct {
	// ClientCA is a file with the certificates, in PEM, of the authorities that issue the proxy's certificate;
	// ClientCAData has the certificates themselves, as PEM or its base64.
	ClientCA     string `json:"clientCA"`
	ClientCAData string `json:"clientCAData"`
	// AllowedNames are the common names of the proxy's certificates. At least one is required: otherwise any other client with
	// a certificate of the same authority could pass for the proxy.
	AllowedNames []string `json:"allowedNames"`
	// The names of headers, of which the first one with a value counts: UsernameHeaders for the user name (X-Remote-User),
	// UIDHeaders for the unchanging identifier (none: the user name). Groups come from all values of all GroupHeaders
	// (X-Remote-Group).
	UsernameHeaders []string `json:"usernameHeaders"`
	UIDHeaders      []string `json:"uidHeaders"`
	GroupHeaders    []string `json:"groupHeaders"`
	// ExtraHeadersPrefixes begin the names of headers that say more of the person, for conditions of roles, for policies and for
	// kube-apiserver (none; X-Remote-Extra- is usual).
	ExtraHeadersPrefixes []string `json:"extraHeadersPrefixes"`
	// EmailHeaders and DisplayNameHeaders are for the User that is created (none).
	EmailHeaders       []string `json:"emailHeaders"`
	DisplayNameHeaders []string `json:"displayNameHeaders"`
}

// Provider is one authenticating proxy.
type Provider struct {
	settings
	roots   []*x509.Certificate
	headers []string
}

var _ idp.Proxy = (*Provider)(nil)

// Type returns the type of provider.
func Type() idp.Type { return idp.Type{Name: TypeName, Open: open} }

func open(raw []byte, _ idp.OpenOptions) (idp.Provider, error) {
	p := &Provider{}
	if err := idp.Decode(raw, &p.settings); err != nil {
		return nil, err
	}
	if len(p.AllowedNames) == 0 || slices.Contains(p.AllowedNames, "") {
		return nil, errors.New("allowedNames: name the proxy's certificate by its common name")
	}
	if len(p.UsernameHeaders) == 0 {
		p.UsernameHeaders = []string{"X-Remote-User"}
	}
	if len(p.GroupHeaders) == 0 {
		p.GroupHeaders = []string{"X-Remote-Group"}
	}
	for key, list := range map[string][]string{
		"usernameHeaders": p.UsernameHeaders, "uidHeaders": p.UIDHeaders, "groupHeaders": p.GroupHeaders,
		"emailHeaders": p.EmailHeaders, "displayNameHeaders": p.DisplayNameHeaders,
	} {
		for i, name := range list {
			if !httpguts.ValidHeaderFieldName(name) || reserved(name) {
				return nil, fmt.Errorf("%s: one of them is no name of a header that may state an identity", key)
			}
			list[i] = http.CanonicalHeaderKey(name)
		}
		p.headers = append(p.headers, list...)
	}
	for _, prefix := range p.ExtraHeadersPrefixes {
		if !httpguts.ValidHeaderFieldName(prefix) || !strings.HasPrefix(http.CanonicalHeaderKey(prefix), "X-") || !strings.HasSuffix(prefix, "-") {
			return nil, errors.New("extraHeadersPrefixes: one of them does not begin with X- and end with -")
		}
	}
	slices.Sort(p.headers)
	p.headers = slices.Compact(p.headers)
	var err error
	if p.roots, err = idp.Authorities(p.ClientCA, p.ClientCAData); err != nil {
		return nil, err
	}
	return p, nil
}

// reserved reports whether a header has another meaning in every request.
func reserved(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Authorization", "Cookie", "Host", "Origin", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade":
		return true
	}
	return web.IsImpersonation(name)
}

// Check checks the authorities: the proxy connects to this server, and can't be asked.
func (p *Provider) Check(context.Context) error {
	return idp.Expired(p.roots, time.Now())
}

// Roots returns the authorities that may have issued the proxy's certificate.
func (p *Provider) Roots() []*x509.Certificate { return p.roots }

// Headers returns the names of the headers that the proxy may send.
func (p *Provider) Headers() []string { return p.headers }

// HeaderPrefixes returns the beginnings of further names.
func (p *Provider) HeaderPrefixes() []string { return p.ExtraHeadersPrefixes }

// Trusts reports whether a verified client certificate is the proxy's: issued by one of the roots, still valid, and with an allowed
// name.
func (p *Provider) Trusts(peer *tls.ConnectionState, now time.Time) bool {
	chain := idp.IssuedBy(p.roots, peer, now)
	return chain != nil && slices.Contains(p.AllowedNames, chain[0].Subject.CommonName)
}

// Identity returns the identity in the headers of a request of the proxy.
func (p *Provider) Identity(h http.Header) (*idp.Identity, error) {
	id := &idp.Identity{}
	for _, f := range []struct {
		names []string
		to    *string
	}{
		{p.UsernameHeaders, &id.Username}, {p.UIDHeaders, &id.Subject}, {p.EmailHeaders, &id.Email}, {p.DisplayNameHeaders, &id.DisplayName},
	} {
		v, err := single(h, f.names)
		if err != nil {
			return nil, err
		}
		*f.to = v
	}
	if id.Username == "" {
		return nil, nil
	}
	if len(p.UIDHeaders) == 0 {
		id.Subject = id.Username
	} else if id.Subject == "" {
		return nil, fmt.Errorf("%w: the proxy names %s and not %s", idp.ErrRefused, p.UsernameHeaders[0], p.UIDHeaders[0])
	}
	var groups []string
	for _, name := range p.GroupHeaders {
		groups = append(groups, h[name]...)
	}
	id.Groups = idp.Groups(groups, "")
	extra, err := p.extra(h)
	if err != nil {
		return nil, err
	}
	id.Extra = extra
	return id, nil
}

// single returns the value of the first header that has one. Two values mean that the proxy's client sent the header as
// well: then it is not known which one is the proxy's.
func single(h http.Header, names []string) (string, error) {
	for _, name := range names {
		values := h[name]
		switch {
		case len(values) > 1:
			return "", fmt.Errorf("%w: the header %s is there more than once", idp.ErrRefused, name)
		case len(values) == 0 || values[0] == "":
			continue
		case len(values[0]) > maxValue:
			return "", fmt.Errorf("%w: the header %s is longer than %d bytes", idp.ErrRefused, name, maxValue)
		}
		return values[0], nil
	}
	return "", nil
}
