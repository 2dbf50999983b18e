package token_test

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/token"
)

func TestServiceAccountTokensAreKnownByTheirHash(t *testing.T) {
	a, err := token.NewServiceAccount("uid", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := token.NewServiceAccount("uid", rand.Reader)
	ha, err := token.ParseServiceAccount(a)
	if err != nil {
		t.Fatal(err)
	}
	if hb, err := token.ParseServiceAccount(b); err != nil || ha.Hash == hb.Hash || ha.Account != token.ServiceAccountID("uid") ||
		hb.Account == token.ServiceAccountID("other") {
		t.Errorf("two tokens have one hash, or %v", err)
	}
	key, _ := token.NewAPIKey()
	for name, s := range map[string]string{
		"Empty": "", "CutOff": a[:len(a)-1], "Longer": a + "0", "OtherLetter": a[:10] + flip(a[10]) + a[11:], "OtherPrefix": "kssb_" + a[5:],
		"APIKey": key, "UpperCase": strings.ToUpper(a), "PrefixAlone": token.ServiceAccountPrefix,
	} {
		if _, err := token.ParseServiceAccount(s); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := token.ParseAPIKey(a); err == nil { // S32
		t.Error("a service account's token is taken for an API key")
	}
}

func TestWithoutRandomnessThereIsNoServiceAccountToken(t *testing.T) {
	if s, err := token.NewServiceAccount("uid", bytes.NewReader([]byte("short"))); err == nil {
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
	s, _ := token.NewServiceAccount("uid", bytes.NewReader(make([]byte, 32)))
	f.Add(s)
	f.Add("kssa_")
	f.Add("")
	f.Fuzz(func(t *testing.T, in string) {
		if _, err := token.ParseServiceAccount(in); err == nil && (len(in) != len(s) || !strings.HasPrefix(in, token.ServiceAccountPrefix)) {
			t.Errorf("%q is taken", in)
		}
	})
}
