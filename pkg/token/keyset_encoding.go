package token

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// SecretKey is the key of the Secret's data that holds the key set.
const SecretKey = "keyring.json"

// maxSecret bounds what is parsed; Kubernetes itself bounds a Secret at 1 MiB.
const maxSecret = 1 << 20

type storedSet struct {
	Signing []storedKey `json:"signing"`
	MAC     []storedMAC `json:"mac"`
}

type storedKey struct {
	ID         string     `json:"id"`
	Algorithm  string     `json:"algorithm"`
	PrivateKey string     `json:"privateKey"` // PEM of PKCS #8
	Created    time.Time  `json:"created"`
	NotBefore  time.Time  `json:"notBefore"`
	Retire     *time.Time `json:"retire,omitempty"`
}

type storedMAC struct {
	ID        string     `json:"id"`
	Key       []byte     `json:"key"` // base64
	Created   time.Time  `json:"created"`
	NotBefore time.Time  `json:"notBefore"`
	Retire    *time.Time `json:"retire,omitempty"`
}

// Encode returns s in the form of the Secret. The result is as secret as the keys.
func (s *KeySet) Encode() ([]byte, error) {
	var out storedSet
	for i := range s.signing {
		k := &s.signing[i]
		der, err := x509.MarshalPKCS8PrivateKey(k.Private)
		if err != nil {
			return nil, fmt.Errorf("write signing key %q: %w", k.ID, err)
		}
		out.Signing = append(out.Signing, storedKey{
			ID: k.ID, Algorithm: Algorithm, Created: k.Created, NotBefore: k.NotBefore, Retire: optional(k.Retire),
			PrivateKey: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		})
	}
	for _, m := range s.macs {
		out.MAC = append(out.MAC, storedMAC{
			ID: m.ID, Key: m.Secret, Created: m.Created, NotBefore: m.NotBefore, Retire: optional(m.Retire),
		})
	}
	return json.Marshal(out)
}

// Decode parses the output of Encode. No error of it has any part of a key.
func Decode(b []byte) (*KeySet, error) {
	if len(b) == 0 || len(b) > maxSecret {
		return nil, fmt.Errorf("key set of %d bytes: from 1 to %d are expected", len(b), maxSecret)
	}
	var in storedSet
	if json.Unmarshal(b, &in) != nil { // the error may quote what it read
		return nil, errors.New("the key set is not the JSON that this server writes")
	}
	var signing []SigningKey
	for _, k := range in.Signing {
		private, err := k.private()
		if err != nil {
			return nil, fmt.Errorf("signing key %q: %w", k.ID, err)
		}
		signing = append(signing, SigningKey{
			ID: k.ID, Private: private, Created: k.Created, NotBefore: k.NotBefore, Retire: value(k.Retire),
		})
	}
	var macs []MACKey
	for _, m := range in.MAC {
		macs = append(macs, MACKey{
			ID: m.ID, Secret: m.Key, Created: m.Created, NotBefore: m.NotBefore, Retire: value(m.Retire),
		})
	}
	return NewKeySet(signing, macs)
}

func (k *storedKey) private() (*rsa.PrivateKey, error) {
	if k.Algorithm != Algorithm {
		return nil, fmt.Errorf("is for %q; only %s is known", k.Algorithm, Algorithm)
	}
	block, _ := pem.Decode([]byte(k.PrivateKey))
	if block == nil {
		return nil, errors.New("is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("is not a PKCS #8 private key")
	}
	private, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("is not an RSA key")
	}
	return private, nil
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func value(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
