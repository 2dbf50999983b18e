package token

import (
	"bytes"
	"testing"
	"time"
)

func TestMACsAgreeWhileTheirKeyIsGood(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	set, err := Generate(now)
	if err != nil {
		t.Fatal(err)
	}
	old := set.macs[0]
	old.Retire = now.Add(time.Hour)
	spare, err := Generate(now)
	if err != nil {
		t.Fatal(err)
	}
	other := spare.macs[0].Secret
	next := MACKey{ID: "next", Secret: other, NotBefore: now.Add(30 * time.Minute)}
	if set, err = NewKeySet(set.signing, []MACKey{old, next}); err != nil {
		t.Fatal(err)
	}
	before := set.MACs("a", "m", now)
	during := set.MACs("a", "m", now.Add(45*time.Minute))
	after := set.MACs("a", "m", now.Add(2*time.Hour))
	if len(before) != 2 || len(during) != 2 || len(after) != 1 {
		t.Fatal(len(before), len(during), len(after))
	}
	if !bytes.Equal(before[0], during[1]) || !bytes.Equal(before[1], during[0]) || !bytes.Equal(after[0], during[0]) {
		t.Error("the key in use is not the first, or a MAC has changed")
	}
	for name, other := range map[string][][]byte{"use": set.MACs("b", "m", now), "message": set.MACs("a", "n", now)} {
		if bytes.Equal(other[0], before[0]) {
			t.Errorf("another %s has the same MAC", name)
		}
	}
}
