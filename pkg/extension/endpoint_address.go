package extension

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/egress"
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

// addressKey is what makes two addresses one.
type addressKey struct {
	scheme, host string
	insecure     bool
	authorities  [sha256.Size]byte
}

// Hostname is that of Host, without its port.
func (a *Address) Hostname() string { return (&url.URL{Host: a.Host}).Hostname() }

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

// Transport returns a transport to the backend, with connections of its own.
func (a *Address) Transport(o egress.Options) *http.Transport {
	o.SkipVerify, o.RootCAs = a.Insecure, a.roots
	return egress.NewTransport(o)
}
