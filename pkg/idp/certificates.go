package idp

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
)

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
