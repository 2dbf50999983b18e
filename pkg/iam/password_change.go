package iam

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"
	"k8s.io/apiserver/pkg/authentication/user"
)

// ErrPolicy says that a new password may not be used; its text says why, to the person who chose it.
var ErrPolicy = errors.New("the new password can't be used")

// PasswordWriter writes the hash of a user's new password to his User, as by, with by's rights and no other. It also takes off the mark that
// he has not set one of his own yet, where he is by.
type PasswordWriter func(ctx context.Context, by user.Info, u *User, hash string) error

// PasswordChange is a new password for a user.
type PasswordChange struct {
	Origin
	User *User
	// By is who writes it; nil for the user himself.
	By user.Info
	// Current is the password that the user proves himself with. Proven says that this is not needed: he has just done so, or By
	// manages users. Where Current is given it is checked all the same.
	Current string
	Proven  bool
	// New is the new password, in clear text. It is hashed here, and nothing else of it leaves this process.
	New string
}

// hashCost is bcrypt's, as of the hashes that ks-controller-manager makes.
const hashCost = 10

// hashLike is what a client may take for a way to set a hash. It is the pattern of the CRD.
var hashLike = regexp.MustCompile(`^\$2[abxy]?\$`)

// ChangePassword sets a new password. The sessions of the old one end, that of the caller too. Its errors are those of Password,
// ErrPolicy, and those of the PasswordWriter.
func (e *Authenticator) ChangePassword(ctx context.Context, c PasswordChange) error {
	if e.Write == nil {
		return fmt.Errorf("change a password: %w", ErrUnavailable)
	}
	if err := CheckPassword(c.User.Name, c.New); err != nil {
		return err
	}
	if c.Current != "" || !c.Proven {
		if err := e.Confirm(ctx, c.User, c.Current, c.Origin); err != nil {
			return err
		}
	}
	hash, err := e.Passwords.renew(ctx, c.User, c.New)
	if err != nil {
		return err
	}
	by := c.By
	if by == nil {
		by = c.User.Info()
	}
	if err := e.Write(ctx, by, c.User, hash); err != nil {
		return err
	}
	// Who has a new password logs in with it next.
	e.Passwords.users.await(ctx, c.User.Name, feedWait, func(now *User) bool {
		return now == nil || now.UID != c.User.UID || now.credential != c.User.credential
	})
	return nil
}

// CheckPassword says what is wrong with a password that somebody chose for a user, by the rule of the CRD and one of ours: it is not his
// name. Its errors are ErrPolicy.
func CheckPassword(name, password string) error {
	n := utf8.RuneCountInString(password)
	switch {
	case hashLike.MatchString(password):
		return fmt.Errorf("%w: it looks like a hash; send the password itself", ErrPolicy)
	case n < 8 || n > 64 || len(password) > maxPassword || !utf8.ValidString(password) ||
		!strings.ContainsAny(password, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") || !strings.ContainsAny(password, "abcdefghijklmnopqrstuvwxyz") ||
		!strings.ContainsAny(password, "0123456789"):
		return fmt.Errorf("%w: a password has 8 to 64 characters (at most %d bytes), among them an upper-case letter, a lower-case letter and a digit",
			ErrPolicy, maxPassword)
	case strings.EqualFold(password, name):
		return fmt.Errorf("%w: it is the name of the user", ErrPolicy)
	}
	return nil
}

// HashPassword returns the bcrypt hash of a password that CheckPassword let pass. It waits for its turn among the logins.
func (p *Passwords) HashPassword(ctx context.Context, password string) (string, error) {
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

// renew hashes a password unless it is the one that the user has.
func (p *Passwords) renew(ctx context.Context, u *User, password string) (string, error) {
	if u.password != nil {
		release, err := p.acquire(ctx)
		if err != nil {
			return "", err
		}
		err = p.compare(u.password(), []byte(password))
		release()
		if err == nil {
			return "", fmt.Errorf("%w: it is the one that is in use", ErrPolicy)
		}
	}
	return p.HashPassword(ctx, password)
}
