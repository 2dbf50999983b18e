package token

import (
	"regexp"
	"strings"
	"testing"
)

func TestAnAPIKeyIsWhatItWasMadeAs(t *testing.T) {
	form := regexp.MustCompile(`^ksk_[0-9a-v]{26}_[0-9a-v]{59}$`)
	seen := map[string]bool{}
	for range 100 {
		token, k := NewAPIKey()
		got, err := ParseAPIKey(token)
		if err != nil || got != k || !form.MatchString(token) || seen[k.Name] || len(k.HexHash()) != 64 {
			t.Fatalf("%v, %v", got, err)
		}
		seen[k.Name] = true
	}
}

func TestAMistypedAPIKeyIsNone(t *testing.T) {
	token, _ := NewAPIKey()
	for i := range len(token) {
		bad := []byte(token)
		if bad[i] = '7'; token[i] == '7' {
			bad[i] = '8'
		}
		if _, err := ParseAPIKey(string(bad)); err == nil {
			t.Errorf("with byte %d changed it is good", i)
		}
	}
	for _, bad := range []string{"", "ksk_", token[:len(token)-1], token + "0", strings.ToUpper(token), " " + token[1:]} {
		if _, err := ParseAPIKey(bad); err == nil {
			t.Errorf("%q is good", bad)
		}
	}
}

func FuzzParseAPIKey(f *testing.F) {
	token, _ := NewAPIKey()
	f.Add(token)
	f.Add(token[:40])
	f.Add("ksk_" + strings.Repeat("0", 86))
	f.Fuzz(func(t *testing.T, s string) {
		k, err := ParseAPIKey(s)
		if err == nil && (len(s) != apiKeySize || !strings.HasPrefix(s, APIKeyPrefix+k.Name+"_")) {
			t.Errorf("%q has the name %q", s, k.Name)
		}
	})
}

func BenchmarkParseAPIKey(b *testing.B) {
	token, _ := NewAPIKey()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseAPIKey(token); err != nil {
			b.Fatal(err)
		}
	}
}
