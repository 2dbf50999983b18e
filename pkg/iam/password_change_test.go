package iam

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Who has changed his password logs in with it next: the answer waits until this replica knows it.
func TestAChangedPasswordIsKnownWhenTheChangeIsAnswered(t *testing.T) {
	users := NewUserIndex()
	users.Set(userObject("alice", withPassword(hash(t, secret))))
	e := &Authenticator{Passwords: newPasswords(t, users), Write: func(_ context.Context, _ user.Info, u *User, hash string) error {
		go func() {
			users.Set(userObject("bob", withPassword(hash)))
			users.Set(userObject("alice", withPassword(string(u.password())))) // another change, told before
			users.Set(userObject("alice", withPassword(hash)))
		}()
		return nil
	}}
	const next = "Another-1"
	if err := e.ChangePassword(t.Context(), PasswordChange{User: users.ByName("alice"), Proven: true, New: next}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Passwords.Authenticate(t.Context(), "alice", next); err != nil {
		t.Error(err)
	}
}
