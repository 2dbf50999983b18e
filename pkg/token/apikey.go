package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
)

// APIKeyPrefix begins every API key, `ksk_<name>_<secret><checksum>`: scanners for leaked secrets find keys by it, and recognize them by
// the checksum.
const APIKeyPrefix = "ksk_"

const (
	apiKeyName   = 26 // characters: 128 bits
	apiKeySecret = 52 // 256 bits
	apiKeySum    = 7  // 32 bits
	apiKeySize   = len(APIKeyPrefix) + apiKeyName + 1 + apiKeySecret + apiKeySum
)

// APIKey is a parsed API key.
type APIKey struct {
	// Name is that of its object.
	Name string
	// Hash is the SHA-256 of the secret. The secret has 256 random bits, so a slow hash would add nothing.
	Hash [sha256.Size]byte
}

// HexHash is Hash in hexadecimal.
func (k APIKey) HexHash() string { return hex.EncodeToString(k.Hash[:]) }

var errAPIKey = errors.New("not an API key: it is cut off or mistyped")

// NewAPIKey generates an API key with a new name.
func NewAPIKey() (token string, k APIKey) {
	var b [16 + 32]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	e := apiKeyEncoding
	token = APIKeyPrefix + e.EncodeToString(b[:16]) + "_" + e.EncodeToString(b[16:])
	token += apiKeyChecksum(token)
	k, _ = ParseAPIKey(token) // it is well-formed
	return token, k
}

// ParseAPIKey parses an API key. It does not verify the key.
func ParseAPIKey(s string) (APIKey, error) {
	if len(s) != apiKeySize || s[:len(APIKeyPrefix)] != APIKeyPrefix {
		return APIKey{}, errAPIKey
	}
	name, rest := s[len(APIKeyPrefix):len(APIKeyPrefix)+apiKeyName], s[len(APIKeyPrefix)+apiKeyName:]
	if rest[0] != '_' || !isBase32(name) || !isBase32(rest[1:]) || apiKeyChecksum(s[:apiKeySize-apiKeySum]) != s[apiKeySize-apiKeySum:] {
		return APIKey{}, errAPIKey
	}
	var secret [apiKeySecret]byte
	copy(secret[:], rest[1:])
	return APIKey{Name: name, Hash: sha256.Sum256(secret[:])}, nil
}

func isBase32(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'v') {
			return false
		}
	}
	return true
}

// apiKeyChecksum returns the CRC-32 of the text that precedes it.
func apiKeyChecksum(s string) string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], crc32.ChecksumIEEE([]byte(s)))
	return apiKeyEncoding.EncodeToString(b[:])
}

// apiKeyEncoding has only characters that the name of an object may have. It is never changed.
var apiKeyEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)
