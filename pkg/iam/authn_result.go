package iam

import "time"

// The methods by which users prove who they are (RFC 8176, 2).
const (
	MethodPassword  = "pwd"
	MethodOTP       = "otp"
	MethodPasskey   = "hwk"
	MethodMFA       = "mfa"
	MethodFederated = "fed" // an identity provider authenticated the user
)

// AuthnResult is the result of a login: the user, the identity provider, and the methods.
type AuthnResult struct {
	// User is the user whom the identity is linked to. It is nil if there is none yet; then Registration is set.
	User         *User
	Registration *Registration
	// Provider is the identity provider that verified the user; "" for a local password.
	Provider string
	// Subject is the user's name at the provider.
	Subject string
	// Groups are the user's groups at the provider. They count for the session, in addition to those of the User.
	Groups []string
	// Hint and Refresh are those of idp.Identity. They are secrets, and sealed before they are stored.
	Hint, Refresh string
	// Methods are the methods by which the user proved who they are.
	Methods []string
	// At is the time of the login here. Authenticated is the time of the login at the provider: TimeUnknown if the provider does not
	// report it, zero if it is the same as At.
	At, Authenticated time.Time
	// Pending says that a second factor is still needed. Nothing is issued for a pending result.
	Pending bool
}

// TimeUnknown stands for an unknown time of login: long ago.
var TimeUnknown = time.Unix(0, 0).UTC()

// AuthenticatedAt returns when the user proved who they are; TimeUnknown if that is not known.
func (p *AuthnResult) AuthenticatedAt() time.Time {
	if p.Authenticated.IsZero() {
		return p.At
	}
	return p.Authenticated
}

// Origin is where a request comes from, as login records and lists of sessions show it.
type Origin struct {
	// Source is the client's address, and UserAgent what it calls itself.
	Source, UserAgent string
	// Shared says that Source is the address of a server through which many users log in, such as the console. Claimed is the user's
	// address as that server reports it; anyone could claim to be that server.
	Shared  bool
	Claimed string
}
