package login_test

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/password"
)

// A user who has changed the password logs in with it next: the answer waits until this replica knows it.
func TestAChangedPasswordIsKnownWhenTheChangeIsAnswered(t *testing.T) {
	users := iam.NewUserIndex()
	users.Set(iamtest.User("alice", iamtest.WithPassword(iamtest.Hash(t, iamtest.Password))))
	passwords, err := password.New(users, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := &login.Authenticator{Passwords: passwords, Write: func(_ context.Context, _ user.Info, u *iam.User, hash string) error {
		go func() {
			users.Set(iamtest.User("bob", iamtest.WithPassword(hash)))
			users.Set(iamtest.User("alice", iamtest.WithPassword(string(u.PasswordHash())))) // an earlier change, which the feed brings first
			users.Set(iamtest.User("alice", iamtest.WithPassword(hash)))
		}()
		return nil
	}}
	const next = "Another-1"
	if err := e.ChangePassword(t.Context(), login.PasswordChange{User: users.ByName("alice"), Proven: true, New: next}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Passwords.Check(t.Context(), "alice", next); err != nil {
		t.Error(err)
	}
}
