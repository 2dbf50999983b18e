package iam

import "time"

// The methods by which people prove who they are (RFC 8176, 2).
const (
	MethodPassword  = "pwd"
	MethodOTP       = "otp"
	MethodPasskey   = "hwk"
	MethodMFA       = "mfa"
	MethodFederated = "fed" // an identity provider vouched for the person
)

// AuthnResult is what a login has shown: who it is, who says so, and by what.
type AuthnResult struct {
	// User is who it is; nil where no User is linked to the identity yet, and Registration tells of it.
	User         *User
	Registration *Registration
	// Provider is the identity provider that vouched for the person; "" for a local password.
	Provider string
	// Subject is the person's name there.
	Subject string
	// Groups are the person's groups there. They count for the session, beside those of the User.
	Groups []string
	// Hint and Refresh are those of idp.Identity. They are secrets, and sealed before they are stored.
	Hint, Refresh string
	// Methods are by what he proved it.
	Methods []string
	// At is when he came here with it, and Authenticated when he proved himself, where that is another time: an identity provider tells it,
	// or does not (TimeUnknown). It is zero where it is At.
	At, Authenticated time.Time
	// Pending says that a second factor is needed, and was not shown yet. Nothing is issued for such a proof.
	Pending bool
}

// TimeUnknown stands for the time of a login that nobody can tell: long ago.
var TimeUnknown = time.Unix(0, 0).UTC()

// AuthenticatedAt returns when the person proved himself; TimeUnknown where nobody can tell.
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
	// Shared says that Source is the address of a server that people log in through, such as the console, and Claimed where that server,
	// or anybody who passes for it, says that the person is.
	Shared  bool
	Claimed string
}
