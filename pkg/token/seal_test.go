package token_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/token"
)

func TestSealedValues(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	set, err := token.Generate(now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := token.Generate(now)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := set.Seal("code", []byte("value"), now)
	if err != nil {
		t.Fatal(err)
	}
	again, err := set.Seal("code", []byte("value"), now)
	if err != nil || again == sealed {
		t.Errorf("two seals of one value are equal: %v", err)
	}
	if got, err := set.Open("code", sealed, now); err != nil || string(got) != "value" {
		t.Errorf("opened %q, %v", got, err)
	}
	flipped := []byte(sealed)
	flipped[len(flipped)/2] ^= 1
	for name, test := range map[string]struct {
		set    *token.KeySet
		use    token.Purpose
		sealed string
	}{
		"AnotherUse":  {set, "state", sealed},
		"AnotherKey":  {other, "code", sealed},
		"Changed":     {set, "code", string(flipped)},
		"Cut":         {set, "code", sealed[:10]},
		"Empty":       {set, "code", ""},
		"NoBase64":    {set, "code", "~" + sealed},
		"TooLong":     {set, "code", strings.Repeat("A", token.MaxSealed+1)},
		"WithLineEnd": {set, "code", sealed + "\n"},
	} {
		t.Run(name+"IsRefused", func(t *testing.T) {
			if got, err := test.set.Open(test.use, test.sealed, now); !errors.Is(err, token.ErrSealed) || got != nil {
				t.Errorf("opened %q, %v", got, err)
			}
		})
	}
}
