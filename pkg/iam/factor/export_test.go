package factor

import "kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"

// The bounds and times that tests need.
const (
	BeginLife     = beginLife
	MaxPasskeys   = maxPasskeys
	RecoveryCodes = recoveryCodes
	ResealAfter   = resealAfter
	TOTPDigits    = totpDigits
	TOTPStep      = totpStep
)

// CutName returns the name of a passkey as it is stored.
func CutName(s string) string { return cutName(s) }

// PlainCode returns a code as it is compared.
func PlainCode(s string) string { return plainCode(s) }

// Stored returns what the replica has of a user's factors, with secrets as they are sealed.
func (f *Store) Stored(uid string) *v1alpha1.Factor { return f.stored(uid) }

// Put replaces what the replica has of a user's factors.
func (f *Store) Put(in *v1alpha1.Factor) { f.put(in) }

// Wrote stores what a call has written.
func (f *Store) Wrote(made *v1alpha1.Factor) { f.wrote(made) }
