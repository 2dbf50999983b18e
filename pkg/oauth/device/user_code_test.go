package device

import (
	"math"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/token"
)

// T8628-4, S35: a code identifies its client, and one letter checks the others.
func TestUserCodes(t *testing.T) {
	codes := newUserCodes(t)
	code := codes.New("cli")
	if got, ok := codes.Parse(code); !ok || got != code || code[:client.UserCodePrefixLength] != client.UserCodePrefix("cli") {
		t.Fatal(code)
	}
	for _, typed := range []string{display(code), strings.ToLower(display(code)), " " + code[:5] + "\u2011" + code[5:] + "\u00a0"} {
		if got, ok := codes.Parse(typed); !ok || got != code {
			t.Errorf("%q is not taken", typed)
		}
	}
	for _, typed := range []string{"", "B", code[:11], code + "B", code[:11] + "A", strings.Repeat("-", 1000) + code, code[:11] + "ß"} {
		if _, ok := codes.Parse(typed); ok {
			t.Errorf("%q is taken", typed)
		}
	}
	wrong := 0
	for i := range randomLetters {
		for _, letter := range client.UserCodeLetters {
			if typo := code[:client.UserCodePrefixLength+i] + string(letter) + code[client.UserCodePrefixLength+i+1:]; typo != code {
				if _, ok := codes.Parse(typo); ok {
					wrong++
				}
			}
		}
	}
	if wrong > 30 { // 152 of them, one in 20
		t.Errorf("%d of 152 typing errors pass", wrong)
	}
	seen, count := map[string]bool{}, map[byte]int{}
	for range 20000 {
		text := randomText(randomLetters)
		seen[text] = true
		for i := range text {
			count[text[i]]++
		}
	}
	if len(seen) < 19990 || len(count) != len(client.UserCodeLetters) {
		t.Errorf("%d codes of 20000 differ, of %d letters", len(seen), len(count))
	}
	for letter, n := range count {
		if n < 7500 || n > 8500 {
			t.Errorf("%c: %d of 8000", letter, n)
		}
	}
}

func FuzzUserCode(f *testing.F) {
	codes := newUserCodes(f)
	for _, seed := range []string{"", codes.New("cli"), "bcdf-ghjk-lmnp", "\xff", "ß", strings.Repeat("B", 49)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		code, ok := codes.Parse(typed)
		if ok && (len(code) != userCodeLength || strings.Trim(code, client.UserCodeLetters) != "") {
			t.Errorf("%q is %q", typed, code)
		}
		if again, same := codes.Parse(code); ok && (!same || again != code) {
			t.Errorf("%q is not taken again", code)
		}
	})
}

func newUserCodes(t testing.TB) *UserCodes {
	t.Helper()
	keys, err := token.Generate(startTime())
	if err != nil {
		t.Fatal(err)
	}
	return &UserCodes{Keys: keys, Now: startTime}
}

func startTime() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// S35: of a million user codes, which have 34 bits, no more are equal than by chance, and all letters are equally frequent.
func TestAMillionUserCodes(t *testing.T) {
	const n = 1_000_000
	codes, letters := make(map[string]struct{}, n), map[rune]int{}
	for range n {
		c := randomText(randomLetters)
		codes[c] = struct{}{}
		for _, l := range c {
			letters[l]++
		}
	}
	space := math.Pow(float64(len(client.UserCodeLetters)), randomLetters)
	expected := float64(n) * float64(n) / 2 / space
	if twice := float64(n - len(codes)); twice > expected+7*math.Sqrt(expected) {
		t.Errorf("%v user codes came before, %.0f are to be expected", twice, expected)
	}
	mean := float64(n) * randomLetters / float64(len(client.UserCodeLetters))
	for l, count := range letters {
		if math.Abs(float64(count)-mean) > 7*math.Sqrt(mean) {
			t.Errorf("%c comes %d times, %.0f are to be expected", l, count, mean)
		}
	}
	if len(letters) != len(client.UserCodeLetters) {
		t.Errorf("%d letters", len(letters))
	}
}
