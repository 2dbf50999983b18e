package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"
)

const (
	// Letters and digits that are not mistaken for one another when read aloud or typed.
	lowerCase = "abcdefghijkmnpqrstuvwxyz"
	upperCase = "ABCDEFGHJKLMNPQRSTUVWXYZ"
	digits    = "23456789"

	passwordLength = 16 // some 92 bits
)

// checkPassword applies the rule of the product: 8 to 64 characters, with a capital, a small letter and a digit.
func checkPassword(p string) error {
	n := len([]rune(p))
	if n < 8 || n > 64 || !strings.ContainsFunc(p, unicode.IsUpper) || !strings.ContainsFunc(p, unicode.IsLower) ||
		!strings.ContainsFunc(p, unicode.IsDigit) {
		return errors.New("the admin's password needs 8 to 64 characters, among them a capital, a small letter and a digit")
	}
	return nil
}

// newPassword draws a password that checkPassword accepts. Drawing again until it does keeps all of them equally likely.
func newPassword(random io.Reader) (string, error) {
	const alphabet = lowerCase + upperCase + digits
	const fair = 256 - 256%len(alphabet) // bytes from here on would favour some characters
	for {
		var p strings.Builder
		for p.Len() < passwordLength {
			var b [1]byte
			if _, err := io.ReadFull(random, b[:]); err != nil {
				return "", fmt.Errorf("draw a password: %w", err)
			}
			if int(b[0]) < fair {
				p.WriteByte(alphabet[int(b[0])%len(alphabet)])
			}
		}
		if checkPassword(p.String()) == nil {
			return p.String(), nil
		}
	}
}

// ensurePassword returns the admin's password, and whether it is new: the requested one, else the one stored at an earlier start, else a
// new one. It is stored in admin-password.
func (s *session) ensurePassword() (password string, fresh bool, err error) {
	file := s.path("admin-password")
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("read the admin's password: %w", err)
	}
	kept := strings.TrimSpace(string(data))
	switch {
	case s.adminPassword != "" && s.adminPassword != kept:
		password = s.adminPassword
	case kept != "":
		return kept, false, nil
	default:
		if password, err = newPassword(rand.Reader); err != nil {
			return "", false, err
		}
		fresh = true
	}
	// Without a newline, so that curl's password@FILE sends just the password.
	return password, fresh, writeFile(file, []byte(password), 0o600)
}
