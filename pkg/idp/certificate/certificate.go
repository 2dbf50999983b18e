// Package certificate is the identity provider for client certificates: an authority of one's own issues them, and each request over a
// connection with such a certificate is its holder's.
package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// TypeName is the name of the type in configurations.
const TypeName = "X509IdentityProvider"

// settings are the keys of the configuration.
type settings struct {
	// ClientCA is a file with the certificates, in PEM, of the authorities that issue users' certificates; ClientCAData has the
	// certificates themselves, as PEM or its base64.
	ClientCA     string `json:"clientCA"`
	ClientCAData string `json:"clientCAData"`
	// GroupsPrefix makes groups of the organizations (O) of a certificate, with this before each name; "" for no groups.
	GroupsPrefix string `json:"groupsPrefix"`
}

// Provider is the authorities of one configuration.
type Provider struct {
	settings
	roots []*x509.Certificate
}

var _ idp.Certificate = (*Provider)(nil)

// Type returns the type of provider.
func Type() idp.Type { return idp.Type{Name: TypeName, Open: open} }

func open(raw []byte, _ idp.OpenOptions) (idp.Provider, error) {
	p := &Provider{}
	if err := idp.Decode(raw, &p.settings); err != nil {
		return nil, err
	}
	if p.GroupsPrefix != "" && !idp.GroupAllowed(p.GroupsPrefix+"x") {
		return nil, errors.New("groupsPrefix: no group's name may begin so")
	}
	var err error
	if p.roots, err = idp.Authorities(p.ClientCA, p.ClientCAData); err != nil {
		return nil, err
	}
	return p, nil
}

// Check checks the authorities: nobody can be asked.
func (p *Provider) Check(context.Context) error { return idp.Expired(p.roots, time.Now()) }

// Roots implements idp.Certificate.
func (p *Provider) Roots() []*x509.Certificate { return p.roots }

// Holder implements idp.Certificate: the common name is the subject and the user name, as it is at kube-apiserver. Names of Kubernetes'
// own components (system:) are nobody's.
func (p *Provider) Holder(peer *tls.ConnectionState, now time.Time) (*idp.Identity, error) {
	chain := idp.IssuedBy(p.roots, peer, now)
	if chain == nil {
		return nil, nil
	}
	subject := chain[0].Subject
	if subject.CommonName == "" || strings.HasPrefix(subject.CommonName, "system:") {
		return nil, fmt.Errorf("%w: the certificate has no common name, or one of Kubernetes' own", idp.ErrRefused)
	}
	id := &idp.Identity{Subject: subject.CommonName, Username: subject.CommonName}
	if p.GroupsPrefix != "" {
		id.Groups = idp.Groups(subject.Organization, p.GroupsPrefix)
	}
	return id, nil
}
