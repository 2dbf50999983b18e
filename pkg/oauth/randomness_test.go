package oauth

import (
	"crypto/sha256"
	"encoding/base64"
	"math"
	"testing"

	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/token"
)

// S35: of a million secrets, and of a million codes, no two are equal, and each bit of a secret is set as often as not.
func TestAMillionOfWhatIsRandom(t *testing.T) {
	const n = 1_000_000
	f := newPageTest(t)
	seen := make(map[[16]byte]struct{}, n)
	var bytes [32][256]int // how often each has each value
	for range n {
		raw, err := base64.RawURLEncoding.DecodeString(browser.RandomSecret())
		if err != nil || len(raw) != 32 {
			t.Fatalf("%d bytes, %v", len(raw), err)
		}
		seen[[16]byte(raw)] = struct{}{}
		for i, b := range raw {
			bytes[i][b]++
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d secrets are alike in their first 128 bits", n-len(seen), n)
	}
	for i := range 256 {
		set := 0
		for value, count := range bytes[i/8] {
			set += count * (value >> (i % 8) & 1)
		}
		if math.Abs(float64(set)-n/2) > 7*math.Sqrt(n)/2 { // seven standard deviations: once in 10^11 runs
			t.Errorf("bit %d is set in %d of %d", i, set, n)
		}
	}
	clear(seen)
	for range n {
		c, err := f.oauth.sealer.Seal(token.Purpose("code"), struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(c))
		seen[[16]byte(sum[:])] = struct{}{}
	}
	if len(seen) != n {
		t.Errorf("%d of %d codes came before", n-len(seen), n)
	}
}
