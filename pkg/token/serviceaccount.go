package token

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// ServiceAccountPrefix begins every token of a service account of kubesphere.io: `kssa_<account><secret><checksum>`. It differs from that
// of API keys, which belong to users.
const ServiceAccountPrefix = "kssa_"

const (
	serviceAccountID   = 16 // characters: 80 bits
	serviceAccountSize = len(ServiceAccountPrefix) + serviceAccountID + apiKeySecret + apiKeySum
)

// ServiceAccount is a parsed token of a service account.
type ServiceAccount struct {
	// Account is the ServiceAccountID of the account that it was made for: a copy of a token is worth nothing as another's.
	Account string
	// Hash is the SHA-256 of the whole token, of which 256 bits are random: servers know a token by it.
	Hash [sha256.Size]byte
}

var errServiceAccount = errors.New("not a service account's token: it is cut off or mistyped")

// ServiceAccountID returns the part of a token that names its account, by the account's UID.
func ServiceAccountID(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return apiKeyEncoding.EncodeToString(sum[:])[:serviceAccountID]
}

// NewServiceAccount returns a token for the account of a UID, from random bytes.
func NewServiceAccount(uid string, random io.Reader) (string, error) {
	var b [32]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("read random bytes: %w", err)
	}
	s := ServiceAccountPrefix + ServiceAccountID(uid) + apiKeyEncoding.EncodeToString(b[:])
	return s + apiKeyChecksum(s), nil
}

// ParseServiceAccount parses a token that has this form. It does not verify the token.
func ParseServiceAccount(s string) (ServiceAccount, error) {
	if len(s) != serviceAccountSize || s[:len(ServiceAccountPrefix)] != ServiceAccountPrefix {
		return ServiceAccount{}, errServiceAccount
	}
	rest, body := s[len(ServiceAccountPrefix):], s[:serviceAccountSize-apiKeySum]
	if !isBase32(rest) || apiKeyChecksum(body) != s[len(body):] {
		return ServiceAccount{}, errServiceAccount
	}
	return ServiceAccount{Account: rest[:serviceAccountID], Hash: sha256.Sum256([]byte(s))}, nil
}
