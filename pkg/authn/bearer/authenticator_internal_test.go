package bearer

import (
	"strings"
	"testing"
)

// Every byte counts, at any position: both in the groups of eight and in the rest after them.
func TestEveryByteOfATokenIsLookedAt(t *testing.T) {
	const good = "-._~+/0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for size := 1; size <= 20; size++ {
		for at := range size {
			for c := range 256 {
				token := []byte(strings.Repeat("a", size))
				token[at] = byte(c)
				want := strings.IndexByte(good, byte(c)) >= 0 || c == '=' && at == size-1 && size > 1
				if got := wellFormed(string(token)); got != want {
					t.Fatalf("%q: %v", token, got)
				}
			}
		}
	}
}
