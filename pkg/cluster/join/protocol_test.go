package join_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

// F8: a token is for one Cluster, lives half an hour at most, and nobody else makes one.
func TestATokenIsForOneClusterAndItsTime(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 7, 0, 0, time.UTC)
	key := []byte("a key of this hub")
	tokens := join.Tokens{Key: func() ([]byte, error) { return key, nil }, Now: func() time.Time { return now }}
	one, ends, err := tokens.Issue("u-1")
	if err != nil || ends.Sub(now) > 30*time.Minute || ends.Sub(now) < 15*time.Minute {
		t.Fatalf("it ends %v, %v", ends, err)
	}
	if again, _, _ := tokens.Issue("u-1"); again != one {
		t.Error("who asks again gets another one")
	}
	if uid, err := tokens.Verify(one); uid != "u-1" || err != nil {
		t.Errorf("got %q, %v", uid, err)
	}
	other, _, _ := tokens.Issue("u-2")
	payload, mac, _ := strings.Cut(one, ".")
	for name, bad := range map[string]string{
		"Empty": "", "Prefix": "ksj_", "NoMAC": payload, "AnEmptyMAC": payload + ".", "AnotherMAC": payload + "." + other[strings.IndexByte(other, '.')+1:],
		"Cut": one[:len(one)-2], "Longer": one + "A", "AnotherPrefix": "x" + one, "AnotherPayload": other[:strings.IndexByte(other, '.')] + "." + mac,
		"NotBase64": payload + ".%%%", "Padded": one + "=", "OfTheLastBits": one[:len(one)-1] + string(one[len(one)-1]+1),
	} {
		if uid, err := tokens.Verify(bad); uid != "" || !errors.Is(err, join.ErrInvalid) {
			t.Errorf("%s: got %q, %v", name, uid, err)
		}
	}
	key = []byte("a key of another hub")
	if _, err := tokens.Verify(one); !errors.Is(err, join.ErrInvalid) {
		t.Errorf("at another hub: %v", err)
	}
	key = []byte("a key of this hub")
	now = ends
	if _, err := tokens.Verify(one); !errors.Is(err, join.ErrInvalid) {
		t.Errorf("after its end: %v", err)
	}
	if join.Used(one) == join.Used(other) || strings.Contains(join.Used(one), one) {
		t.Error("what is stored of a token tells it, or another one")
	}
}
