package lru

import (
	"crypto/sha256"
	"strconv"
)

// AppendPart appends a part of a key with its length in front, so that no two lists of parts make one key.
func AppendPart(dst []byte, s string) []byte {
	return append(append(strconv.AppendInt(dst, int64(len(s)), 10), ':'), s...)
}

// ShortKey returns key, or the SHA-256 of a long one. Keys begin with a digit (AppendPart), so that none is a hash.
func ShortKey(key []byte) []byte {
	if len(key) <= 1024 {
		return key
	}
	sum := sha256.Sum256(key)
	return append(append(key[:0], '#'), sum[:]...)
}
