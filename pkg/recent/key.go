package recent

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// KeyOf returns a key for parts, which may hold any bytes, since users type some of them.
func KeyOf(parts ...string) uint64 {
	sum := sha256.Sum256(appendParts(nil, parts...))
	return binary.BigEndian.Uint64(sum[:])
}

// apart escapes the byte that ends a part, and the escape byte itself.
var apart = strings.NewReplacer("\x00", "\x01\x02", "\x01", "\x01\x01")

// appendParts appends parts so that no other parts make the same text. Parts without control characters stay as they are, each followed
// by a zero byte: stored keys were made so.
func appendParts(dst []byte, parts ...string) []byte {
	for _, p := range parts {
		dst = append(append(dst, apart.Replace(p)...), 0)
	}
	return dst
}
