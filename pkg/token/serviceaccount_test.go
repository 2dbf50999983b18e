package token

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
)

func TestServiceAccountTokensAreKnownByTheirHash(t *testing.T) {
	a, err := NewServiceAccount("uid", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := NewServiceAccount("uid", rand.Reader)
	ha, err := ParseServiceAccount(a)
	if err != nil {
		t.Fatal(err)
	}
	if hb, err := ParseServiceAccount(b); err != nil || ha.Hash == hb.Hash || ha.Account != ServiceAccountID("uid") || hb.Account == ServiceAccountID("other") {
		t.Errorf("two tokens have one hash, or %v", err)
	}
	key, _ := NewAPIKey()
	for name, s := range map[string]string{
		"Empty": "", "CutOff": a[:len(a)-1], "Longer": a + "0", "OtherLetter": a[:10] + flip(a[10]) + a[11:], "OtherPrefix": "kssb_" + a[5:],
		"APIKey": key, "UpperCase": strings.ToUpper(a), "PrefixAlone": ServiceAccountPrefix,
	} {
		if _, err := ParseServiceAccount(s); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := ParseAPIKey(a); err == nil { // S32
		t.Error("a service account's token is taken for an API key")
	}
}

func TestWithoutRandomnessThereIsNoServiceAccountToken(t *testing.T) {
	if s, err := NewServiceAccount("uid", bytes.NewReader([]byte("short"))); err == nil {
		t.Errorf("made %d characters", len(s))
	}
}

func flip(c byte) string {
	if c == '0' {
		return "1"
	}
	return "0"
}

func FuzzParseServiceAccount(f *testing.F) {
	s, _ := NewServiceAccount("uid", bytes.NewReader(make([]byte, 32)))
	f.Add(s)
	f.Add("kssa_")
	f.Add("")
	f.Fuzz(func(t *testing.T, in string) {
		if _, err := ParseServiceAccount(in); err == nil && (len(in) != len(s) || !strings.HasPrefix(in, ServiceAccountPrefix)) {
			t.Errorf("%q is taken", in)
		}
	})
}
