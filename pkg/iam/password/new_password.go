package password

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"

	"kapis.dev/ks-apiserver/pkg/iam"
)

// CheckPolicy validates a new password, by the rules of the CRD: its error is ErrPolicy. It must not be the user's name.
func CheckPolicy(name, password string) error {
	n := utf8.RuneCountInString(password)
	switch {
	case hashLike.MatchString(password):
		return fmt.Errorf("%w: it looks like a hash; send the password itself", iam.ErrPolicy)
	case n < 8 || n > 64 || len(password) > maxPassword || !utf8.ValidString(password) ||
		!strings.ContainsAny(password, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") || !strings.ContainsAny(password, "abcdefghijklmnopqrstuvwxyz") ||
		!strings.ContainsAny(password, "0123456789"):
		return fmt.Errorf("%w: a password has 8 to 64 characters (at most %d bytes), among them an upper-case letter, a lower-case letter"+
			" and a digit",
			iam.ErrPolicy, maxPassword)
	case strings.EqualFold(password, name):
		return fmt.Errorf("%w: it is the name of the user", iam.ErrPolicy)
	}
	return nil
}

// Hash returns the bcrypt hash of a password that CheckPolicy accepts. It waits for its turn among the logins.
func (p *Checker) Hash(ctx context.Context, password string) (string, error) {
	release, err := p.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	h, err := bcrypt.GenerateFromPassword([]byte(password), hashCost)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	return string(h), nil
}

// HashNew returns the hash of a new password. Its error is ErrPolicy if it is the one in use.
func (p *Checker) HashNew(ctx context.Context, u *iam.User, password string) (string, error) {
	if u.HasPassword() {
		release, err := p.acquire(ctx)
		if err != nil {
			return "", err
		}
		err = p.Compare(u.PasswordHash(), []byte(password))
		release()
		if err == nil {
			return "", fmt.Errorf("%w: it is the one that is in use", iam.ErrPolicy)
		}
	}
	return p.Hash(ctx, password)
}

// hashLike matches texts that look like a hash instead of a password, as in the CRD.
var hashLike = regexp.MustCompile(`^\$2[abxy]?\$`)

// hashCost is the cost of new hashes, as in ks-controller-manager.
const hashCost = 10

// HashChosen validates a password that was chosen for a user, and returns its hash. Its error is that of CheckPolicy, or that of waiting.
func (p *Checker) HashChosen(ctx context.Context, name, password string) (string, error) {
	if err := CheckPolicy(name, password); err != nil {
		return "", err
	}
	return p.Hash(ctx, password)
}
