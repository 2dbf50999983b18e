// Package frontproxy authenticates the requests that kube-apiserver passes on to an aggregated API server: the peer proves by its client
// certificate that it is the front proxy, and names the user in headers. The authority, the names of the certificate and the headers are
// those of the ConfigMap that kube-apiserver publishes them in.
package frontproxy

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The ConfigMap in which kube-apiserver publishes how aggregated API servers authenticate it.
const (
	Namespace = "kube-system"
	Name      = "extension-apiserver-authentication"
)

// The keys of the ConfigMap.
const (
	keyCA       = "requestheader-client-ca-file"
	keyNames    = "requestheader-allowed-names"
	keyUsername = "requestheader-username-headers"
	keyUID      = "requestheader-uid-headers"
	keyGroup    = "requestheader-group-headers"
	keyExtra    = "requestheader-extra-headers-prefix"
)

// configuration is the content of the ConfigMap. It is immutable.
type configuration struct {
	authorities []*x509.Certificate
	pool        *x509.CertPool
	// names are the common names that the certificate may have; none stands for any.
	names []string
	// username, uid and group are names of headers, in their canonical form; extra are prefixes of such.
	username, uid, group, extra []string
}

// parse reads the ConfigMap's data. A configuration by which nobody could be authenticated, or that can't be read in full, is an error.
func parse(data map[string]string) (*configuration, error) {
	c := &configuration{pool: x509.NewCertPool()}
	for rest := []byte(data[keyCA]); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", keyCA, err)
		}
		c.authorities = append(c.authorities, ca)
		c.pool.AddCert(ca)
	}
	if len(c.authorities) == 0 {
		return nil, fmt.Errorf("%s has no certificate: kube-apiserver runs without --requestheader-client-ca-file", keyCA)
	}
	for key, to := range map[string]*[]string{
		keyNames: &c.names, keyUsername: &c.username, keyUID: &c.uid, keyGroup: &c.group, keyExtra: &c.extra,
	} {
		if data[key] == "" {
			continue
		}
		if err := json.Unmarshal([]byte(data[key]), to); err != nil {
			return nil, fmt.Errorf("%s is no list of texts: %w", key, err)
		}
	}
	for _, list := range []*[]string{&c.username, &c.uid, &c.group} {
		for i, name := range *list {
			(*list)[i] = http.CanonicalHeaderKey(name)
		}
	}
	for _, list := range [][]string{c.username, c.uid, c.group, c.extra} {
		if slices.ContainsFunc(list, func(s string) bool { return strings.TrimSpace(s) != s || s == "" }) {
			return nil, errors.New("the name of a header is empty, or has spaces around it")
		}
	}
	if len(c.username) == 0 {
		return nil, fmt.Errorf("%s names no header", keyUsername)
	}
	return c, nil
}
