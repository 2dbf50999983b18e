package login

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/password"
)

// PasswordWriter writes the hash of a new password into a User as the caller by, with only that caller's rights. If by is the user, it
// also removes the mark that the user has not set a password yet.
type PasswordWriter func(ctx context.Context, by user.Info, u *iam.User, hash string) error

// PasswordChange is a new password for a user.
type PasswordChange struct {
	iam.Origin
	User *iam.User
	// By is the caller who writes it; nil for the user.
	By user.Info
	// Current is the current password; it is checked if it is set. Proven says that it may be left out: the user has just proved who they
	// are, or By manages users.
	Current string
	Proven  bool
	// New is the new password in clear text. It is hashed here, and nothing else of it leaves this process.
	New string
}

// changeWait is how long a change waits for the feed to bring it; usually some milliseconds.
const changeWait = 3 * time.Second

// ChangePassword sets a new password. All sessions of the user end, the caller's too. Its errors are those of Password, ErrPolicy, and
// those of the PasswordWriter.
func (e *Authenticator) ChangePassword(ctx context.Context, c PasswordChange) error {
	if e.Write == nil {
		return fmt.Errorf("change a password: %w", iam.ErrUnavailable)
	}
	if err := password.CheckPolicy(c.User.Name, c.New); err != nil {
		return err
	}
	if c.Current != "" || !c.Proven {
		if err := e.Confirm(ctx, c.User, c.Current, c.Origin); err != nil {
			return err
		}
	}
	hash, err := e.Passwords.HashNew(ctx, c.User, c.New)
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
	// The user logs in with the new password next: wait until this replica knows it.
	e.Passwords.Users.Await(ctx, c.User.Name, changeWait, func(now *iam.User) bool {
		return now == nil || now.UID != c.User.UID || now.Credential() != c.User.Credential()
	})
	return nil
}
