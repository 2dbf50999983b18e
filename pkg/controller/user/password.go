package user

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"
)

const (
	// cost is the cost of bcrypt, which every login pays.
	cost = 10
	// maxPassword is how many bytes bcrypt reads; golang.org/x/crypto refuses more.
	maxPassword = 72
	// generatedLength is the length of a generated password: some 116 bits.
	generatedLength = 20
	// alphabet has no two characters that look alike.
	alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
)

// hashForm matches bcrypt hashes with a cost that a login may have: 4 to 14. Any other value of spec.password is a
// password, and is hashed.
var hashForm = regexp.MustCompile(`^\$2[aby]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{53}$`)

func isHash(s string) bool { return hashForm.MatchString(s) }

// fingerprint returns a text that identifies a hash, and reveals nothing of it.
func fingerprint(hash string) string {
	sum := sha256.Sum256([]byte("kapis.dev password 1\x00" + hash))
	return hex.EncodeToString(sum[:8])
}

// Hash returns the bcrypt hash of a password of at most 72 bytes.
func Hash(password string) (string, error) {
	h, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	return string(h), err
}

// checkPassword returns why a chosen password breaks the rule of users, or nil.
func checkPassword(p string) error {
	if n := utf8.RuneCountInString(p); n < 8 || n > 64 || len(p) > maxPassword ||
		!strings.ContainsAny(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") || !strings.ContainsAny(p, "abcdefghijklmnopqrstuvwxyz") ||
		!strings.ContainsAny(p, "0123456789") {
		return fmt.Errorf("a password has 8 to 64 characters (at most %d bytes), among them an upper-case letter, a lower-case letter and a"+
			" digit", maxPassword)
	}
	return nil
}

// generate returns a password that passes checkPassword.
func generate(random io.Reader) (string, error) {
	for {
		p := make([]byte, generatedLength)
		for i := range p {
			n, err := index(random, len(alphabet))
			if err != nil {
				return "", fmt.Errorf("generate a password: %w", err)
			}
			p[i] = alphabet[n]
		}
		if checkPassword(string(p)) == nil {
			return string(p), nil
		}
	}
}

// index returns a random number below n, with equal probabilities: bytes that would favour some numbers are dropped.
func index(random io.Reader, n int) (int, error) {
	limit := 256 - 256%n
	for {
		var b [1]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return 0, err
		}
		if int(b[0]) < limit {
			return int(b[0]) % n, nil
		}
	}
}
