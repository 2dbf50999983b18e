// Package token issues and verifies the tokens of this server, and has the keys for them.
package token

import (
	"cmp"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Algorithm is the one algorithm (RFC 7518, 3.3) that tokens are signed with. Verifying RS256 costs about half of ES256, every OpenID
// client supports it, and with a single algorithm a token has no choice.
const Algorithm = "RS256"

const (
	// rsaBits is the size of new keys; minRSABits and minMACBytes are the smallest accepted sizes (RFC 7518, 3.2 and 3.3).
	rsaBits     = 2048
	minRSABits  = 2048
	minMACBytes = 32
	// maxKeys bounds each list of a key set, so that a broken Secret can't fill the memory.
	maxKeys = 32
)

// SigningKey is a private key and its times. It signs from NotBefore until a newer one may, and verifies from when it is first known
// until Retire.
type SigningKey struct {
	// ID is the kid.
	ID      string
	Private *rsa.PrivateKey
	Created time.Time
	// NotBefore is in the future, so that every replica knows the key before one signs with it.
	NotBefore time.Time
	// Retire ends the key's life; zero means that no end is set.
	Retire time.Time
}

// MACKey is the secret that refresh tokens are derived from, and its times.
type MACKey struct {
	ID        string
	Secret    []byte
	Created   time.Time
	NotBefore time.Time
	Retire    time.Time
}

// KeySet has the keys that tokens are signed and verified with. It is immutable: a rotation makes a new one.
type KeySet struct {
	signing []SigningKey // by NotBefore, the newest first
	macs    []MACKey     // the same
	byID    map[string]*SigningKey
	jwks    []byte
}

// KeySource returns the current keys.
type KeySource interface {
	KeySet() *KeySet
}

// KeySet returns s, so that a fixed set is a KeySource.
func (s *KeySet) KeySet() *KeySet { return s }

// NewKeySet validates the keys and returns a set of them.
func NewKeySet(signing []SigningKey, macs []MACKey) (*KeySet, error) {
	if len(signing) == 0 || len(macs) == 0 {
		return nil, errors.New("a key set needs a signing key and a MAC key at least")
	}
	if len(signing) > maxKeys || len(macs) > maxKeys {
		return nil, fmt.Errorf("a key set has at most %d keys of a kind", maxKeys)
	}
	s := &KeySet{signing: slices.Clone(signing), macs: slices.Clone(macs), byID: map[string]*SigningKey{}}
	slices.SortStableFunc(s.signing, func(a, b SigningKey) int {
		return cmp.Or(b.NotBefore.Compare(a.NotBefore), cmp.Compare(a.ID, b.ID))
	})
	slices.SortStableFunc(s.macs, func(a, b MACKey) int {
		return cmp.Or(b.NotBefore.Compare(a.NotBefore), cmp.Compare(a.ID, b.ID))
	})
	for i := range s.signing {
		k := &s.signing[i]
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("signing key %q: %w", k.ID, err)
		}
		if s.byID[k.ID] != nil {
			return nil, fmt.Errorf("signing key %q: there are two of that id", k.ID)
		}
		s.byID[k.ID] = k
	}
	for _, m := range s.macs {
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("MAC key %q: %w", m.ID, err)
		}
	}
	var err error
	if s.jwks, err = publicSet(s.signing); err != nil {
		return nil, err
	}
	return s, nil
}

func (k *SigningKey) check() error {
	if k.ID == "" || k.Private == nil {
		return errors.New("has no id or no key")
	}
	if n := k.Private.N.BitLen(); n < minRSABits {
		return fmt.Errorf("has %d bits; %d are the least", n, minRSABits)
	}
	if err := k.Private.Validate(); err != nil {
		return fmt.Errorf("is not a good RSA key: %w", err)
	}
	return nil
}

func (m *MACKey) check() error {
	if len(m.Secret) < minMACBytes {
		return fmt.Errorf("has %d bytes; %d are the least", len(m.Secret), minMACBytes)
	}
	for _, b := range m.Secret {
		if b != m.Secret[0] {
			return nil
		}
	}
	return errors.New("is one byte repeated; it has to be random")
}

// Generate returns a set of one new key of each kind, valid from now on.
func Generate(now time.Time) (*KeySet, error) {
	now = now.UTC().Truncate(time.Second)
	key, err := newSigningKey(now, now)
	if err != nil {
		return nil, err
	}
	return NewKeySet([]SigningKey{key}, []MACKey{newMACKey(now, now)})
}

// signer returns the newest key that may sign now.
func (s *KeySet) signer(now time.Time) (*SigningKey, error) {
	for i := range s.signing {
		if k := &s.signing[i]; alive(k.NotBefore, k.Retire, now) {
			return k, nil
		}
	}
	return nil, errors.New("no signing key is good at this time: check the clock, and the times in the Secret of the signing keys")
}

// verifier returns the key with that id, or nil. A key verifies before it signs, because the clock of the replica that signed may be
// ahead.
func (s *KeySet) verifier(id string, now time.Time) *SigningKey {
	k := s.byID[id]
	if k == nil || !alive(time.Time{}, k.Retire, now) {
		return nil
	}
	return k
}

func alive(from, to, now time.Time) bool {
	return !now.Before(from) && (to.IsZero() || now.Before(to))
}

// JWKS returns the public keys as a JWK set (RFC 7517). Callers must not change it.
func (s *KeySet) JWKS() []byte { return s.jwks }

type jwk struct {
	Use string `json:"use"`
	Kty string `json:"kty"`
	Kid string `json:"kid"`
	Alg string `json:"alg"`
	N   string `json:"n"`
	E   string `json:"e"`
}

func publicSet(keys []SigningKey) ([]byte, error) {
	set := struct {
		Keys []jwk `json:"keys"`
	}{Keys: make([]jwk, 0, len(keys))}
	for i := range keys {
		n, e := numbers(&keys[i].Private.PublicKey)
		set.Keys = append(set.Keys, jwk{Use: "sig", Kty: "RSA", Kid: keys[i].ID, Alg: Algorithm, N: n, E: e})
	}
	b, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("write the public keys: %w", err)
	}
	return b, nil
}

// thumbprint returns the JWK thumbprint of a public key (RFC 7638, 3), a kid that can't belong to two keys.
func thumbprint(k *rsa.PublicKey) string {
	n, e := numbers(k)
	sum := sha256.Sum256([]byte(`{"e":"` + e + `","kty":"RSA","n":"` + n + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func numbers(k *rsa.PublicKey) (n, e string) {
	return base64.RawURLEncoding.EncodeToString(k.N.Bytes()),
		base64.RawURLEncoding.EncodeToString(big.NewInt(int64(k.E)).Bytes())
}

func (m *MACKey) sum(message string) []byte {
	h := hmac.New(sha256.New, m.Secret)
	_, _ = h.Write([]byte(message)) // a hash never fails
	return h.Sum(nil)
}
