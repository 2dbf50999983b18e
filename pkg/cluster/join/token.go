package join

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrInvalid says that a token is none of this hub's, or that it is over.
var ErrInvalid = errors.New("the join token is not one of this hub, or its time is over: ask for a new one")

// Tokens issues and verifies join tokens. It stores nothing: they are made by a key.
type Tokens struct {
	// Key returns the key of all replicas.
	Key func() ([]byte, error)
	Now func() time.Time
}

// Issue returns the token of the Cluster with a UID, and when it ends.
func (t Tokens) Issue(uid string) (token string, ends time.Time, err error) {
	ends = t.Now().Truncate(life / 2).Add(life)
	payload := base64.RawURLEncoding.EncodeToString([]byte(uid + " " + strconv.FormatInt(ends.Unix(), 10)))
	mac, err := t.mac(payload)
	if err != nil {
		return "", time.Time{}, err
	}
	return prefix + payload + "." + base64.RawURLEncoding.EncodeToString(mac), ends, nil
}

// Verify returns the UID of the Cluster that a token is for. Its errors are ErrInvalid and that of the key.
func (t Tokens) Verify(token string) (uid string, err error) {
	rest, found := strings.CutPrefix(token, prefix)
	payload, text, cut := strings.Cut(rest, ".")
	got, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !found || !cut || err != nil {
		return "", ErrInvalid
	}
	want, err := t.mac(payload)
	if err != nil {
		return "", err
	}
	if !hmac.Equal(got, want) {
		return "", ErrInvalid
	}
	said, err := base64.RawURLEncoding.DecodeString(payload) // this server's own from here on
	if err != nil {
		return "", ErrInvalid
	}
	uid, ends, _ := strings.Cut(string(said), " ")
	n, err := strconv.ParseInt(ends, 10, 64)
	if err != nil || !t.Now().Before(time.Unix(n, 0)) {
		return "", ErrInvalid
	}
	return uid, nil
}

func (t Tokens) mac(payload string) ([]byte, error) {
	key, err := t.Key()
	if err != nil {
		return nil, fmt.Errorf("make or verify a join token: %w", err)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(payload))
	return h.Sum(nil), nil
}

// Used returns the hash by which a used token is remembered.
func Used(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
