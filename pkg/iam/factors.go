package iam

import (
	"context"
	"time"
)

// Factors are the second factors of all users: authenticator apps (RFC 6238) with recovery codes, and passkeys (WebAuthn).
type Factors struct{}

// Enrolled is which factors a user has.
type Enrolled struct {
	TOTP         bool
	RecoveryLeft int
	Passkeys     []Passkey
}

// Passkey is one WebAuthn credential.
type Passkey struct {
	ID, Name      string
	Created, Used time.Time
}

// Of returns the factors of a user.
func (f *Factors) Of(*User) Enrolled { return Enrolled{} }

// BeginTOTP returns a new secret as an otpauth URI, and sealed, for ConfirmTOTP. Nothing is stored yet.
func (f *Factors) BeginTOTP(*User) (uri, sealed string, err error) { return "", "", ErrUnavailable }

// ConfirmTOTP stores the secret once the user's app has shown a code of it, and returns the recovery codes.
func (f *Factors) ConfirmTOTP(context.Context, *User, string, string) (recovery []string, err error) {
	return nil, ErrUnavailable
}

// RemoveTOTP forgets the secret and the recovery codes.
func (f *Factors) RemoveTOTP(context.Context, *User) error { return ErrUnavailable }

// NewRecovery replaces the recovery codes.
func (f *Factors) NewRecovery(context.Context, *User) ([]string, error) { return nil, ErrUnavailable }

// BeginPasskey returns the options for navigator.credentials.create as JSON, and what AddPasskey needs, sealed.
func (f *Factors) BeginPasskey(*User) (options []byte, sealed string, err error) {
	return nil, "", ErrUnavailable
}

// AddPasskey stores the credential that the browser answered with.
func (f *Factors) AddPasskey(ctx context.Context, u *User, sealed, name string, response []byte) error {
	return ErrUnavailable
}

// RemovePasskey forgets a credential.
func (f *Factors) RemovePasskey(context.Context, *User, string) error { return ErrUnavailable }

// BeginLogin returns the options for navigator.credentials.get as JSON, and what FinishLogin needs, sealed. A nil user begins a
// login by a discoverable credential, which names the user.
func (f *Factors) BeginLogin(*User) (options []byte, sealed string, err error) {
	return nil, "", ErrUnavailable
}

// FinishLogin returns whose passkey has answered: the user's, where BeginLogin was given one.
func (f *Factors) FinishLogin(ctx context.Context, sealed string, response []byte) (*User, error) {
	return nil, ErrCredentials
}
