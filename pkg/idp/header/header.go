// Package header is the identity provider that an authenticating proxy is: it logs people in by whatever means it has, and names
// them in headers of the requests that it passes on. It is known by its client certificate, and by nothing else.
package header

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// TypeName is what configurations call the type.
const TypeName = "HeaderIdentityProvider"

// maxValue bounds the value of a header that names somebody, in bytes.
const maxValue = 1024

// settings are the keys of the configuration.
type settings struct {
	// ClientCA is a file with the certificates, in PEM, of the authorities that issue the proxy's; ClientCAData has
	// them itself, as PEM or as its base64.
	ClientCA     string `json:"clientCA"`
	ClientCAData string `json:"clientCAData"`
	// AllowedNames are the common names of the proxy's certificates. There has to be one: an authority that issues certificates
	// to others too would let any of them be anybody.
	AllowedNames []string `json:"allowedNames"`
	// The names of headers, the first of which that has a value counts: who it is (X-Remote-User), and what the
	// proxy knows him by for ever (none: the name). Groups are of all values of all such headers (X-Remote-Group).
	UsernameHeaders []string `json:"usernameHeaders"`
	UIDHeaders      []string `json:"uidHeaders"`
	GroupHeaders    []string `json:"groupHeaders"`
	// EmailHeaders and DisplayNameHeaders are for the User that is made (none).
	EmailHeaders       []string `json:"emailHeaders"`
	DisplayNameHeaders []string `json:"displayNameHeaders"`
}

// Provider is one proxy.
type Provider struct {
	settings
	roots   []*x509.Certificate
	headers []string
}

var _ idp.Proxy = (*Provider)(nil)

// Type is the type of these providers.
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
	slices.Sort(p.headers)
	p.headers = slices.Compact(p.headers)
	var err error
	if p.roots, err = p.readRoots(); err != nil {
		return nil, err
	}
	return p, nil
}

// reserved tells names that mean something else in every request.
func reserved(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Authorization", "Cookie", "Host", "Origin", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade":
		return true
	}
	return len(name) >= len("Impersonate-") && strings.EqualFold(name[:len("Impersonate-")], "Impersonate-")
}

func (p *Provider) readRoots() ([]*x509.Certificate, error) {
	data := []byte(p.ClientCAData)
	switch {
	case (p.ClientCA == "") == (p.ClientCAData == ""):
		return nil, errors.New("set one of clientCA and clientCAData")
	case p.ClientCA != "":
		var err error
		if data, err = os.ReadFile(p.ClientCA); err != nil {
			return nil, fmt.Errorf("clientCA: %w", err)
		}
	case !strings.Contains(p.ClientCAData, "-----BEGIN"):
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.TrimSpace(p.ClientCAData)); err != nil {
			return nil, errors.New("clientCAData: it is neither PEM nor the base64 of PEM")
		}
	}
	roots, err := idp.Certificates(data)
	if err != nil {
		return nil, fmt.Errorf("clientCA, clientCAData: %w", err)
	}
	return roots, nil
}

// Check has nobody to ask: the proxy comes to us.
func (p *Provider) Check(context.Context) error {
	now := time.Now()
	for _, c := range p.roots {
		if now.Before(c.NotAfter) {
			return nil
		}
	}
	return errors.New("the certificates of the authorities have expired; put new ones in clientCA or clientCAData")
}

// Roots are the authorities that may have issued the proxy's certificate.
func (p *Provider) Roots() []*x509.Certificate { return p.roots }

// Headers are the names of the headers that the proxy may send.
func (p *Provider) Headers() []string { return p.headers }

// Trusts tells whether a verified client certificate is the proxy's: issued by one of the roots, still valid, and of a name that is
// allowed. A connection can outlive what its handshake found, so the time is looked at again.
func (p *Provider) Trusts(peer *tls.ConnectionState, now time.Time) bool {
	if peer == nil {
		return false
	}
	return slices.ContainsFunc(peer.VerifiedChains, func(chain []*x509.Certificate) bool {
		if len(chain) < 2 || !slices.Contains(p.AllowedNames, chain[0].Subject.CommonName) {
			return false
		}
		if slices.ContainsFunc(chain, func(c *x509.Certificate) bool { return now.Before(c.NotBefore) || now.After(c.NotAfter) }) {
			return false
		}
		return slices.ContainsFunc(p.roots, chain[len(chain)-1].Equal)
	})
}

// Identity returns whom the headers of a request of the proxy name.
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
	return id, nil
}

// single returns the value of the first header that has one. Two values mean that somebody before the proxy sent one as
// well, and nobody can tell which is the proxy's.
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
