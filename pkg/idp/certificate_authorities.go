package idp

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Authorities reads the certificates of certificate authorities, from a file in PEM, or from data, which is PEM or its base64. One of
// them has to be set. Errors name the keys clientCA and clientCAData, and show nothing of their contents.
func Authorities(clientCA, clientCAData string) ([]*x509.Certificate, error) {
	data := []byte(clientCAData)
	switch {
	case (clientCA == "") == (clientCAData == ""):
		return nil, errors.New("set one of clientCA and clientCAData")
	case clientCA != "":
		var err error
		if data, err = os.ReadFile(clientCA); err != nil {
			return nil, fmt.Errorf("clientCA: %w", err)
		}
	case !strings.Contains(clientCAData, "-----BEGIN"):
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.TrimSpace(clientCAData)); err != nil {
			return nil, errors.New("clientCAData: it is neither PEM nor the base64 of PEM")
		}
	}
	roots, err := Certificates(data)
	if err != nil {
		return nil, fmt.Errorf("clientCA, clientCAData: %w", err)
	}
	return roots, nil
}

// IssuedBy returns the first verified chain of a peer that ends in one of the roots and is valid now, or nil. A connection may outlive
// its certificate, so the time is checked again.
func IssuedBy(roots []*x509.Certificate, peer *tls.ConnectionState, now time.Time) []*x509.Certificate {
	if peer == nil {
		return nil
	}
	for _, chain := range peer.VerifiedChains {
		expired := slices.ContainsFunc(chain, func(c *x509.Certificate) bool { return now.Before(c.NotBefore) || now.After(c.NotAfter) })
		if len(chain) > 1 && !expired && slices.ContainsFunc(roots, chain[len(chain)-1].Equal) {
			return chain
		}
	}
	return nil
}

// Expired returns an error if no authority is valid now.
func Expired(roots []*x509.Certificate, now time.Time) error {
	for _, c := range roots {
		if now.Before(c.NotAfter) {
			return nil
		}
	}
	return errors.New("the certificates of the authorities have expired; put new ones in clientCA or clientCAData")
}

// Certificates parses the PEM certificates of certificate authorities. It fails if there is none, or if a block is no certificate; its
// errors show nothing of data.
func Certificates(data []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for len(data) > 0 {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		if data = rest; block.Type != "CERTIFICATE" {
			return nil, errors.New("there is something else than certificates in it")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("one of the certificates can't be read")
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("there is no certificate in PEM in it")
	}
	return out, nil
}
