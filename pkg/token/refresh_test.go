package token

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRefreshTokenComesBackAsItWasMade(t *testing.T) {
	f := newFixture(t)
	s, err := f.keys.NewRefresh("abc0-9", 12, start())
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseRefresh(s)
	if err != nil || r.Session != "abc0-9" || r.Generation != 12 || len(r.mac) != 32 {
		t.Fatalf("%+v, %v", r, err)
	}
	if !f.keys.MadeRefresh(r, start()) {
		t.Error("not recognised")
	}
	if got := f.keys.SameRefresh("abc0-9", 12, HashRefresh(s)); got != s {
		t.Errorf("the same token again is %q", got)
	}
	if got := f.keys.SameRefresh("abc0-9", 13, HashRefresh(s)); got != "" {
		t.Errorf("another generation has the hash: %q", got)
	}
}

// T6749-13, S35: each generation of each session has its own token, of 256 bits.
func TestRefreshTokensDiffer(t *testing.T) {
	f := newFixture(t)
	seen := map[string]bool{}
	for _, session := range []string{"s1", "s2"} {
		for g := range int64(1000) {
			s, err := f.keys.NewRefresh(session, g+1, start())
			if err != nil {
				t.Fatal(err)
			}
			if mac := s[strings.LastIndex(s, "."):]; seen[mac] {
				t.Fatal("the same token twice")
			} else {
				seen[mac] = true
			}
		}
	}
}

func TestRefreshTokenOfOtherKeysIsNotOurs(t *testing.T) {
	f := newFixture(t)
	other, err := Generate(start())
	if err != nil {
		t.Fatal(err)
	}
	s, _ := other.NewRefresh("s1", 1, start())
	if r, err := ParseRefresh(s); err != nil || f.keys.MadeRefresh(r, start()) {
		t.Errorf("recognised: %v", err)
	}
}

func TestRefreshTokenOutlivesARotationOfTheMACKey(t *testing.T) {
	f := newFixture(t)
	s, _ := f.keys.NewRefresh("s1", 1, start())
	other, err := Generate(start())
	if err != nil {
		t.Fatal(err)
	}
	old, next := f.keys.macs[0], other.macs[0]
	old.Retire = start().Add(time.Hour)
	next.NotBefore = start().Add(time.Minute)
	set, err := NewKeySet(f.keys.signing, []MACKey{old, next})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := ParseRefresh(s)
	later := start().Add(2 * time.Minute)
	if !set.MadeRefresh(r, later) || set.SameRefresh("s1", 1, HashRefresh(s)) != s {
		t.Error("a token of the old key is not known any more")
	}
	if n, _ := set.NewRefresh("s1", 1, later); n == s {
		t.Error("the new key is not used")
	}
	if set.MadeRefresh(r, start().Add(time.Hour)) {
		t.Error("a token of a retired key is good")
	}
}

func TestParseRefreshRefuses(t *testing.T) {
	mac := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	for name, s := range map[string]string{
		"empty":                  "",
		"no parts":               "abc",
		"two parts":              "abc.1",
		"no session":             ".1." + mac,
		"upper case":             "Abc.1." + mac,
		"path":                   "../x.1." + mac,
		"long session":           strings.Repeat("a", 64) + ".1." + mac,
		"generation 0":           "abc.0." + mac,
		"generation below 0":     "abc.-1." + mac,
		"generation with a plus": "abc.+1." + mac,
		"generation with zeros":  "abc.01." + mac,
		"generation too large":   "abc.99999999999999999999." + mac,
		"short mac":              "abc.1." + mac[:42],
		"long mac":               "abc.1." + mac + "A",
		"mac with stray bits":    "abc.1." + mac[:42] + "B",
		"padded mac":             "abc.1." + mac + "=",
		"fourth part":            "abc.1." + mac + ".x",
		"line end":               "abc.1." + mac + "\n",
		"line end inside":        "abc.1." + mac[:10] + "\n" + mac[10:],
		"dots":                   strings.Repeat(".", 1<<16),
	} {
		if _, err := ParseRefresh(s); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzParseRefresh(f *testing.F) {
	mac := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	for _, s := range []string{"abc.1." + mac, "", "...", "a.1.", "a..", "a.18446744073709551616." + mac} {
		f.Add(s)
	}
	keys := newFixture(f).keys
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRefresh(s)
		if err != nil {
			return
		}
		// A token that parses has only one spelling.
		back := fmt.Sprintf("%s.%d.%s", r.Session, r.Generation, base64.RawURLEncoding.EncodeToString(r.mac))
		if back != s {
			t.Errorf("%q is written %q", s, back)
		}
		if keys.MadeRefresh(r, start()) {
			t.Errorf("%q was never made", s)
		}
	})
}
