package iam

import (
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

func TestOnlyACheapBcryptHashIsAPassword(t *testing.T) {
	const password = "P@88w0rd"
	hash := func() string {
		h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		return string(h)
	}
	h := hash()
	for name, test := range map[string]struct {
		stored string
		ok     bool
	}{
		"hash":           {h, true},
		"none":           {"", false},
		"clear text":     {password, false},
		"dear hash":      {"$2a$31$" + h[7:], false},
		"hash and more":  {h + "x", false},
		"part of a hash": {h[:40], false},
	} {
		p, credential := readPassword(test.stored)
		if (p != nil) != test.ok || strings.Contains(credential, test.stored) && test.stored != "" {
			t.Errorf("%s: %v, %q", name, p != nil, credential)
		}
	}
	_, a := readPassword(h)
	_, b := readPassword(hash())
	if a == b {
		t.Error("the fingerprint stayed when the password was set anew")
	}
}
