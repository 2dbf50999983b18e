package client

import (
	"crypto/sha256"
	"encoding/binary"
)

const (
	// UserCodeLetters are the letters that user codes consist of (RFC 8628, 6.1).
	UserCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"
	// UserCodePrefixLength is how many letters of a user code identify the client.
	UserCodePrefixLength = 3
)

// UserCodePrefix returns the letters with which user codes for a client begin. They are no secret.
func UserCodePrefix(client string) string {
	sum := sha256.Sum256([]byte("kapis.dev user code 1\x00" + client))
	return EncodeLetters(sum[:], UserCodePrefixLength)
}

// EncodeLetters encodes a hash as n letters of user codes. The bias of one in 2^59 does not matter.
func EncodeLetters(sum []byte, n int) string {
	v := binary.BigEndian.Uint64(sum)
	out := make([]byte, n)
	for i := range out {
		out[i] = UserCodeLetters[v%uint64(len(UserCodeLetters))]
		v /= uint64(len(UserCodeLetters))
	}
	return string(out)
}
