package certificate

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret besides those of its type.
const (
	keyBundle = "ca.crt"
	keyCA     = "ca.key"
)

// pair is an authority and the certificate that it signed, or that its predecessor signed. It is immutable.
type pair struct {
	// authorities are trusted, the newest first; key is the key of the first.
	authorities []*x509.Certificate
	key         *ecdsa.PrivateKey
	serving     tls.Certificate
	bundle      []byte
}

// read decodes data.
func read(data map[string][]byte) (*pair, error) {
	p := &pair{bundle: data[keyBundle]}
	for rest := p.bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", keyBundle, err)
		}
		p.authorities = append(p.authorities, ca)
	}
	if len(p.authorities) == 0 {
		return nil, fmt.Errorf("read %s: no certificate", keyBundle)
	}
	block, _ := pem.Decode(data[keyCA])
	if block == nil {
		return nil, fmt.Errorf("read %s: no key", keyCA)
	}
	var err error
	if p.key, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
		return nil, fmt.Errorf("read %s: not an EC key", keyCA)
	}
	if !p.key.PublicKey.Equal(p.authorities[0].PublicKey) {
		return nil, fmt.Errorf("%s is not the key of the first certificate of %s", keyCA, keyBundle)
	}
	if p.serving, err = tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]); err != nil {
		return nil, fmt.Errorf("read %s: %w", corev1.TLSCertKey, err)
	}
	return p, nil
}

func (p *pair) data() map[string][]byte {
	return map[string][]byte{
		keyBundle:               p.bundle,
		keyCA:                   encodeKey(p.key),
		corev1.TLSCertKey:       encode("CERTIFICATE", p.serving.Leaf.Raw),
		corev1.TLSPrivateKeyKey: encodeKey(p.serving.PrivateKey.(*ecdsa.PrivateKey)), //nolint:forcetypeassert // no other is ever made
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil // for curves without a name: P-256 has one
	}
	return encode("EC PRIVATE KEY", der)
}
