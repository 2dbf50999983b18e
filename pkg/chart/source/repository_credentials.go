package source

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net/url"
	"strings"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// fieldNames are the names of the fields that failures point to.
type fieldNames struct{ credential, authorities, insecure string }

var ofRepository = fieldNames{"spec.basicAuth", "spec.caBundle", "spec.insecure"}

// Access says how to reach a repository: its URL, and the credentials and certificates for it.
type Access struct {
	// base is its URL, which ends in a slash.
	base               *url.URL
	username, password string
	// certificate is this server's client certificate; nil for none.
	certificate *tls.Certificate
	authorities *x509.CertPool
	insecure    bool
	fields      fieldNames
}

// AccessOf returns how a Repository is reached.
func AccessOf(r *v1alpha1.Repository) (*Access, error) {
	base, err := parseBase(r.Spec.URL, ofRepository)
	if err != nil {
		return nil, err
	}
	out := &Access{base: base, insecure: r.Spec.Insecure, fields: ofRepository}
	if a := r.Spec.BasicAuth; a != nil {
		out.username, out.password = a.Username, a.Password
	}
	if out.authorities, err = authorities(ofRepository.authorities, r.Spec.CABundle); err != nil {
		return nil, err
	}
	return out, nil
}

// authorities reads certificates in PEM, or in base64 of that; nil where there are none.
func authorities(field, bundle string) (*x509.CertPool, error) {
	if strings.TrimSpace(bundle) == "" {
		return nil, nil //nolint:nilnil // nil stands for the authorities of the machine
	}
	out := x509.NewCertPool()
	if !out.AppendCertsFromPEM(decoded(bundle)) {
		return nil, failure(ReasonInvalid, "%s: it has no certificate in PEM, neither as it is nor in base64", field)
	}
	return out, nil
}

// decoded returns the content of a text that may be in base64.
func decoded(text string) []byte {
	if raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err == nil {
		return raw
	}
	return []byte(strings.TrimSpace(text))
}

// words returns the names of fields for failures: those of a Repository where it is reached without one.
func (a *Access) words() fieldNames {
	if a.fields == (fieldNames{}) {
		return ofRepository
	}
	return a.fields
}
