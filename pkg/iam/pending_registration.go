package iam

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

const (
	// ClientPrefix begins the names of clients that act for themselves. No User's name has a colon.
	ClientPrefix = "client:"
	// RegistrationPrefix begins the UIDs of users who have no User yet.
	RegistrationPrefix = "registration:"
)

// Registration is an identity without a User, whose owner may choose the name of the User to create.
type Registration struct {
	Provider, Subject string
	// Username and Email are the proposed ones.
	Username, Email string
	DisplayName     string
}

// ClientUser returns the user that a client is when it acts for itself. No User can have its name and UID (RFC 9700, 4.15).
func ClientUser(client string) *User {
	name := ClientPrefix + client
	return &User{Name: name, UID: name, State: v1beta1.UserActive,
		info: &user.DefaultInfo{Name: name, UID: name, Groups: []string{user.AllAuthenticated}}}
}

// Extra returns the extras of tokens and requests of a user who has to register.
func (r *Registration) Extra() map[string][]string {
	return map[string][]string{"idp": {r.Provider}, "uid": {r.Subject}, "username": {r.Username}, "email": {r.Email}}
}

// User returns the user of a session before the registration: it may register, and has no other right.
func (r *Registration) User() *User {
	sum := sha256.Sum256([]byte(r.Provider + "\x00" + r.Subject)) // no name of a provider has a zero byte (idp.checkName)
	uid := RegistrationPrefix + hex.EncodeToString(sum[:16])
	return &User{Name: v1beta1.UserPreRegistration, UID: uid, State: v1beta1.UserActive, Email: r.Email, DisplayName: r.DisplayName,
		info: &user.DefaultInfo{Name: v1beta1.UserPreRegistration, UID: uid, Groups: []string{v1beta1.GroupPreRegistration}, Extra: r.Extra()}}
}
