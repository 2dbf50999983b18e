package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Refresh is a parsed refresh token, `<session>.<generation>.<256 bits>`. Its last part is a MAC over the others: a made-up token is
// refused without reading any session, and every replica can issue the same current token again, although sessions store only hashes.
type Refresh struct {
	// Session is the name of the session.
	Session string
	// Generation counts the session's rotations.
	Generation int64

	mac []byte
}

const (
	maxRefresh        = 160 // bytes; more than a refresh token ever has
	maxSession        = 63
	maxGenerationSize = 18 // digits
)

var errRefresh = errors.New("not a refresh token of this server")

// ParseRefresh parses a refresh token. It does not verify it.
func ParseRefresh(s string) (Refresh, error) {
	if len(s) > maxRefresh {
		return Refresh{}, errRefresh
	}
	session, rest, _ := strings.Cut(s, ".")
	generation, mac, ok := strings.Cut(rest, ".")
	if !ok || !sessionName(session) {
		return Refresh{}, errRefresh
	}
	n, err := strconv.ParseInt(generation, 10, 64)
	if err != nil || n <= 0 || len(generation) > maxGenerationSize || strconv.FormatInt(n, 10) != generation {
		return Refresh{}, errRefresh
	}
	sum, err := base64.RawURLEncoding.Strict().DecodeString(mac)
	if err != nil || len(sum) != sha256.Size || base64.RawURLEncoding.EncodeToString(sum) != mac {
		return Refresh{}, errRefresh
	}
	return Refresh{Session: session, Generation: n, mac: sum}, nil
}

func sessionName(s string) bool {
	if s == "" || len(s) > maxSession {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// NewRefresh returns the refresh token of a session's generation.
func (s *KeySet) NewRefresh(session string, generation int64, now time.Time) (string, error) {
	for i := range s.macs {
		if m := &s.macs[i]; alive(m.NotBefore, m.Retire, now) {
			return m.refresh(session, generation), nil
		}
	}
	return "", errors.New("no MAC key is good at this time: check the clock, and the times in the Secret of the signing keys")
}

// SameRefresh returns the refresh token of a session's generation that has the hash, whichever key it was made with; "" if there is none.
func (s *KeySet) SameRefresh(session string, generation int64, hash string) string {
	for i := range s.macs {
		if t := s.macs[i].refresh(session, generation); HashRefresh(t) == hash {
			return t
		}
	}
	return ""
}

// MadeRefresh reports whether this server made r.
func (s *KeySet) MadeRefresh(r Refresh, now time.Time) bool {
	made := false
	for i := range s.macs {
		if m := &s.macs[i]; alive(time.Time{}, m.Retire, now) {
			made = hmac.Equal(m.sum(refreshMessage(r.Session, r.Generation)), r.mac) || made
		}
	}
	return made
}

func (m *MACKey) refresh(session string, generation int64) string {
	return session + "." + strconv.FormatInt(generation, 10) + "." +
		base64.RawURLEncoding.EncodeToString(m.sum(refreshMessage(session, generation)))
}

// refreshMessage returns the text that the MAC of a refresh token covers. No name of a session has a zero byte (sessionName).
func refreshMessage(session string, generation int64) string {
	return "kapis.dev refresh token 1\x00" + session + "\x00" + strconv.FormatInt(generation, 10)
}

// HashRefresh returns the hash by which a session stores its refresh token: the SHA-256 in hexadecimal. The token has 256 random bits, so
// a slow hash would add nothing.
func HashRefresh(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
