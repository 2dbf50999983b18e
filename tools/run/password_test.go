package main

import (
	"os"
	"strings"
	"sync"
	"testing"
)

func TestPasswordRule(t *testing.T) {
	for password, good := range map[string]bool{
		"Abcdefg1": true, strings.Repeat("aB1", 21): true, "Ünïcödé1": true,
		"Abcdef1": false, strings.Repeat("aB1", 22): false, "abcdefg1": false, "ABCDEFG1": false, "Abcdefgh": false, "": false,
	} {
		if err := checkPassword(password); (err == nil) != good {
			t.Errorf("%q: %v", password, err)
		}
	}
}

func TestNewPasswordsFollowTheRule(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		p, err := newPassword(rng{})
		if err != nil || len(p) != passwordLength || checkPassword(p) != nil || strings.ContainsAny(p, "0O1lI") {
			t.Fatalf("%q, %v", p, err)
		}
		if seen[p] {
			t.Fatalf("%q came twice", p)
		}
		seen[p] = true
	}
	if _, err := newPassword(strings.NewReader("few")); err == nil {
		t.Error("made a password without randomness")
	}
}

// rng counts in its own bytes: not random, but never the same for long.
type rng struct{}

func (rng) Read(p []byte) (int, error) {
	for i := range p {
		counter.Lock()
		counter.n = counter.n*6364136223846793005 + 1442695040888963407
		p[i] = byte(counter.n >> 56)
		counter.Unlock()
	}
	return len(p), nil
}

var counter struct {
	sync.Mutex
	n uint64
}

func TestThePasswordIsKept(t *testing.T) {
	s := newSession(t)
	steps := []struct {
		claim, asked, want string
		fresh              bool
	}{
		{claim: "TheFirstIsMade", fresh: true},
		{claim: "ThenItStays"},
		{claim: "OneThatIsAskedForReplacesIt", asked: "Asked4This", want: "Asked4This"},
		{claim: "AndStays", want: "Asked4This"},
		{claim: "AskedForAgain", asked: "Asked4This", want: "Asked4This"},
	}
	var before string
	for _, step := range steps {
		s.adminPassword = step.asked
		got, fresh, err := s.ensurePassword()
		if err != nil || fresh != step.fresh || (step.want != "" && got != step.want) || (step.want == "" && !fresh && got != before) {
			t.Errorf("%s: %q, %v, %v", step.claim, got, fresh, err)
		}
		before = got
		data, err := os.ReadFile(s.path("admin-password"))
		info, statErr := os.Stat(s.path("admin-password"))
		if err != nil || statErr != nil || string(data) != got || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: the file holds %q, %v, %v", step.claim, data, err, statErr)
		}
	}
}
