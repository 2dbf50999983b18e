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
	// cost is bcrypt's: every login pays it.
	cost = 10
	// maxPassword is how many bytes bcrypt reads; golang.org/x/crypto refuses more.
	maxPassword = 72
	// generatedLength makes some 116 bits of a generated password.
	generatedLength = 20
	// alphabet has no two characters that look alike.
	alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
)

// hashForm is what a bcrypt hash looks like whose cost a login may pay: 4 to 14. Anything else in
// spec.password is a password, and is hashed.
var hashForm = regexp.MustCompile(`^\$2[aby]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{53}$`)

func isHash(s string) bool { return hashForm.MatchString(s) }

// fingerprint tells hashes apart, and gives nothing of one away.
func fingerprint(hash string) string {
	sum := sha256.Sum256([]byte("kapis.dev password 1\x00" + hash))
	return hex.EncodeToString(sum[:8])
}

// Hash returns the bcrypt hash of a password of at most 72 bytes.
func Hash(password string) (string, error) {
	h, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	return string(h), err
}

// checkPassword says what is wrong with a password that somebody chose, by the rule of users.
func checkPassword(p string) error {
	if n := utf8.RuneCountInString(p); n < 8 || n > 64 || len(p) > maxPassword ||
		!strings.ContainsAny(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") || !strings.ContainsAny(p, "abcdefghijklmnopqrstuvwxyz") ||
		!strings.ContainsAny(p, "0123456789") {
		return fmt.Errorf("a password has 8 to 64 characters (at most %d bytes), among them an upper-case letter, a lower-case letter and a"+
			" digit", maxPassword)
	}
	return nil
}

// generate makes a password that passes checkPassword.
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

// index draws a number below n, each as likely as the other: bytes that would favour some are thrown away.
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
