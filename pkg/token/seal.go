package token

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Purpose prevents a value that is sealed for one use from being accepted for another (RFC 8725, 3.12).
type Purpose string

// MaxSealed is the longest sealed value, in bytes, that is opened, and maxStored the longest that is stored in an object of ours. The
// former has room for what a session keeps of a provider, and is less than a form that is read.
const (
	MaxSealed = 56 << 10
	maxStored = 2 << 20
)

// ErrSealed is the error of Open, whatever the reason.
var ErrSealed = errors.New("it was not sealed here, or for another use")

// Seal encrypts and authenticates a value with the keys that the replicas share (AES-256-GCM, RFC 5116), so that it can be sent through a
// browser or stored in an object. Every replica can open it; no one else can read it, change it or make one. The value itself must say
// when it expires.
func (s *KeySet) Seal(p Purpose, value []byte, now time.Time) (string, error) {
	for i := range s.macs {
		m := &s.macs[i]
		if !alive(m.NotBefore, m.Retire, now) {
			continue
		}
		box, err := m.box(p)
		if err != nil {
			return "", err
		}
		nonce := make([]byte, box.NonceSize(), box.NonceSize()+len(value)+box.Overhead())
		_, _ = rand.Read(nonce) // never fails (crypto/rand)
		return base64.RawURLEncoding.EncodeToString(box.Seal(nonce, nonce, value, []byte(p))), nil
	}
	return "", errors.New("no MAC key is good at this time: check the clock, and the times in the Secret of the signing keys")
}

// Open returns the value that Seal was given. Its errors are ErrSealed.
func (s *KeySet) Open(p Purpose, sealed string, now time.Time) ([]byte, error) {
	value, m, err := s.open(p, sealed, MaxSealed)
	if err == nil && !alive(time.Time{}, m.Retire, now) {
		return nil, ErrSealed
	}
	return value, err
}

// OpenStored is Open for values stored in objects of ours, possibly for years: the key may be retired, because only this server could
// have stored the value. old reports that it should be sealed again with the current key.
func (s *KeySet) OpenStored(p Purpose, sealed string, now time.Time) (value []byte, old bool, err error) {
	value, m, err := s.open(p, sealed, maxStored)
	if err != nil {
		return nil, false, err
	}
	return value, !m.Retire.IsZero() && !now.Before(m.NotBefore), nil
}

// open tries the keys.
func (s *KeySet) open(p Purpose, sealed string, longest int) ([]byte, *MACKey, error) {
	if len(sealed) > longest {
		return nil, nil, fmt.Errorf("%w: it has %d bytes; %d are the most", ErrSealed, len(sealed), longest)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || strings.ContainsAny(sealed, "\r\n") { // base64 skips line ends
		return nil, nil, ErrSealed
	}
	for i := range s.macs {
		box, err := s.macs[i].box(p)
		if err != nil || len(raw) < box.NonceSize() {
			return nil, nil, ErrSealed
		}
		if value, err := box.Open(nil, raw[:box.NonceSize()], raw[box.NonceSize():], []byte(p)); err == nil {
			return value, &s.macs[i], nil
		}
	}
	return nil, nil, ErrSealed
}

// box returns the cipher of one use: its key is derived (RFC 5869), so that no two uses share one.
func (m *MACKey) box(p Purpose) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, m.Secret, nil, "kapis.dev seal 1\x00"+string(p), 32)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	return cipher.NewGCM(block)
}
