package iam

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

const (
	// ClientPrefix begins the names of clients that act for themselves. No User's name has a colon.
	ClientPrefix = "client:"
	// RegistrationPrefix begins the UIDs of those who have no User yet.
	RegistrationPrefix = "registration:"
)

// Registration is an identity that no User is linked to, of somebody who may choose the name of his User.
type Registration struct {
	Provider, Subject string
	// Username and Email are what to propose.
	Username, Email string
	DisplayName     string
}

// ClientUser is a client that acts for itself. Its name and its subject are none that a User can have (RFC 9700, 4.15).
func ClientUser(client string) *User {
	name := ClientPrefix + client
	return &User{Name: name, UID: name, State: v1beta1.UserActive,
		info: &user.DefaultInfo{Name: name, UID: name, Groups: []string{user.AllAuthenticated}}}
}

// Extra is what tokens and requests of somebody who has to register say about him.
func (r *Registration) Extra() map[string][]string {
	return map[string][]string{"idp": {r.Provider}, "uid": {r.Subject}, "username": {r.Username}, "email": {r.Email}}
}

// User is who acts in a session that waits for a User: nobody but somebody who may make one.
func (r *Registration) User() *User {
	sum := sha256.Sum256([]byte(r.Provider + "\x00" + r.Subject)) // no name of a provider has a zero byte (idp.checkName)
	uid := RegistrationPrefix + hex.EncodeToString(sum[:16])
	return &User{Name: v1beta1.UserPreRegistration, UID: uid, State: v1beta1.UserActive, Email: r.Email, DisplayName: r.DisplayName,
		info: &user.DefaultInfo{Name: v1beta1.UserPreRegistration, UID: uid, Groups: []string{v1beta1.GroupPreRegistration}, Extra: r.Extra()}}
}

// Truncate shortens a text to so many bytes, and to whole characters.
func Truncate(s string, most int) string {
	s = strings.ToValidUTF8(s, "")
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
