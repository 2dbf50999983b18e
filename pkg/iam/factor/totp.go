package factor

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// totpStep is the life of a code, and totpSkew how many steps a clock may be off (RFC 6238, 5.2).
	totpStep = 30
	totpSkew = 1
	// totpDigits is the length of a code, and recoverySize that of a recovery code without dashes: 80 bits.
	totpDigits    = 6
	recoverySize  = 16
	recoveryCodes = 10
	recoveryGroup = 4
	// totpSecret is the length of a secret in bytes.
	totpSecret = 20
)

func totpPurpose(uid string) token.Purpose  { return token.Purpose("second factor totp " + uid) }
func enrolPurpose(uid string) token.Purpose { return token.Purpose("second factor enrolment " + uid) }

// BeginTOTP returns a new secret as an otpauth URI, and sealed, for ConfirmTOTP. Nothing is stored yet.
func (f *Store) BeginTOTP(u *iam.User) (uri, sealed string, err error) {
	name := f.Name
	if name == "" {
		name = "KubeSphere"
	}
	k, err := totp.Generate(totp.GenerateOpts{Issuer: strings.ReplaceAll(name, ":", " "), AccountName: u.Name, Period: totpStep,
		SecretSize: totpSecret, Rand: rand.Reader})
	if err != nil {
		return "", "", fmt.Errorf("make the secret of an authenticator app: %w", err)
	}
	if sealed, err = f.seal(enrolPurpose(u.UID), challenge{Secret: k.Secret()}); err != nil {
		return "", "", err
	}
	return k.URL(), sealed, nil
}

// ConfirmTOTP stores the secret after the app has shown a code, and returns the recovery codes, which are shown once. Its errors are
// ErrCredentials and ErrUnavailable.
func (f *Store) ConfirmTOTP(ctx context.Context, u *iam.User, sealed, code string) (recovery []string, err error) {
	b, err := f.open(enrolPurpose(u.UID), sealed)
	if err != nil {
		return nil, err
	}
	return f.enrol(ctx, u, b.Secret, code, func(*v1alpha1.FactorSpec) bool { return false })
}

// ConfirmFirstTOTP is ConfirmTOTP for a login that can't be completed without a second factor: a user who has one gets past it by none of
// the caller's choice, also where this replica was not told of it yet.
func (f *Store) ConfirmFirstTOTP(ctx context.Context, u *iam.User, sealed, code string) (recovery []string, err error) {
	b, err := f.open(enrolPurpose(u.UID), sealed)
	if err != nil {
		return nil, err
	}
	return f.enrol(ctx, u, b.Secret, code, func(s *v1alpha1.FactorSpec) bool { return s.TOTP != nil || len(s.Passkeys) > 0 })
}

// enrol stores a secret whose code is right, unless taken says of the user's factors as they are stored that there may be no other app.
func (f *Store) enrol(ctx context.Context, u *iam.User, secret, code string, taken func(*v1alpha1.FactorSpec) bool) (recovery []string,
	err error) {
	step := matchingStep(secret, plainCode(code), f.Now(), 0)
	if step == 0 {
		return nil, iam.ErrCredentials
	}
	recovery, hashes := newRecovery(u.UID)
	err = f.change(ctx, u.UID, u.Name, func(s *v1alpha1.FactorSpec) error {
		if taken(s) {
			return iam.ErrCredentials
		}
		s.TOTP = &v1alpha1.TOTP{ConfirmedAt: metav1.NewTime(f.Now()), LastStep: step}
		s.Recovery = hashes
		return f.keep(u.UID, s, secret)
	})
	if err != nil {
		return nil, err
	}
	klog.InfoS("Authenticator app enrolled", "user", u.Name)
	return recovery, nil
}

// offerLife is how long the secret of OfferedSecret stays the same. It can be confirmed for up to twice as long.
const offerLife = 10 * time.Minute

// OfferedSecret returns a secret (base32, 160 bits) for an authenticator app, for clients that ask for it again while its QR code is shown,
// and send it back: it is the same for a while, at every replica. Nothing is stored.
func (f *Store) OfferedSecret(u *iam.User) (string, error) {
	offered := f.offered(u, f.Now())
	if len(offered) == 0 {
		return "", fmt.Errorf("make the secret of an authenticator app: %w", iam.ErrUnavailable)
	}
	return offered[0], nil
}

// ConfirmOffered is ConfirmTOTP for the secret of OfferedSecret. An app that the user has stays.
func (f *Store) ConfirmOffered(ctx context.Context, u *iam.User, secret, code string) (recovery []string, err error) {
	for _, at := range []time.Time{f.Now(), f.Now().Add(-offerLife)} {
		for _, offered := range f.offered(u, at) {
			if subtle.ConstantTimeCompare([]byte(offered), []byte(secret)) == 1 {
				return f.enrol(ctx, u, offered, code, func(s *v1alpha1.FactorSpec) bool { return s.TOTP != nil })
			}
		}
	}
	return nil, fmt.Errorf("%w: the secret is not one that was offered within the last %v", iam.ErrCredentials, offerLife)
}

// offered returns the secrets that are offered at a time, by each key that is valid now.
func (f *Store) offered(u *iam.User, at time.Time) []string {
	if f.Keys == nil {
		return nil
	}
	var out []string
	for _, mac := range f.Keys.KeySet().MACs(enrolPurpose(u.UID), at.Truncate(offerLife).UTC().Format(time.RFC3339), f.Now()) {
		out = append(out, base32.StdEncoding.EncodeToString(mac[:totpSecret]))
	}
	return out
}

// RemoveTOTP deletes the secret and the recovery codes.
func (f *Store) RemoveTOTP(ctx context.Context, u *iam.User) error {
	return f.change(ctx, u.UID, u.Name, func(s *v1alpha1.FactorSpec) error {
		s.TOTP, s.Recovery = nil, nil
		return nil
	})
}

// Verify uses up a code of the user's app, or a recovery code. Its errors are ErrCredentials and ErrUnavailable.
func (f *Store) Verify(ctx context.Context, u *iam.User, code string) error {
	code = plainCode(code)
	if f.stored(u.UID) == nil {
		return errGone
	}
	switch len(code) {
	case totpDigits:
		return f.change(ctx, u.UID, u.Name, func(s *v1alpha1.FactorSpec) error { return f.useCode(u, s, code) })
	case recoverySize:
		return f.change(ctx, u.UID, u.Name, func(s *v1alpha1.FactorSpec) error {
			hash := recoveryHash(u.UID, code)
			i := slices.IndexFunc(s.Recovery, func(h string) bool { return subtle.ConstantTimeCompare([]byte(h), []byte(hash)) == 1 })
			if i < 0 {
				return iam.ErrCredentials
			}
			s.Recovery = slices.Delete(s.Recovery, i, i+1)
			klog.InfoS("Recovery code used", "user", u.Name, "left", len(s.Recovery))
			return nil
		})
	}
	return iam.ErrCredentials
}

func (f *Store) useCode(u *iam.User, s *v1alpha1.FactorSpec, code string) error {
	secret, err := f.secret(u.UID, s)
	if err != nil {
		return err
	}
	step := matchingStep(secret, code, f.Now(), s.TOTP.LastStep)
	if step == 0 {
		return iam.ErrCredentials
	}
	s.TOTP.LastStep = step
	if f.Now().Sub(s.TOTP.SealedAt.Time) >= resealAfter {
		return f.keep(u.UID, s, secret)
	}
	return nil
}

// secret opens the secret of a user's app. If its keys are gone, only recovery codes still work.
func (f *Store) secret(uid string, s *v1alpha1.FactorSpec) (string, error) {
	if s.TOTP == nil {
		return "", errGone
	}
	raw, _, err := f.Keys.KeySet().OpenStored(totpPurpose(uid), s.TOTP.Secret, f.Now())
	if err != nil {
		klog.ErrorS(err, "The secret of an authenticator app can't be opened, since the keys that sealed it are gone: "+
			"the user needs a recovery code, or a user who manages users resets the second factors", "user", s.User)
		return "", fmt.Errorf("%w: %w", iam.ErrCredentials, err)
	}
	return string(raw), nil
}

// keep seals the secret of a user's app.
func (f *Store) keep(uid string, s *v1alpha1.FactorSpec, secret string) error {
	sealed, err := f.Keys.KeySet().Seal(totpPurpose(uid), []byte(secret), f.Now())
	if err != nil {
		return fmt.Errorf("%w: seal the secret of an authenticator app: %w", iam.ErrUnavailable, err)
	}
	s.TOTP.Secret, s.TOTP.SealedAt = sealed, metav1.NewTime(f.Now())
	return nil
}

// matchingStep returns the time step of a code, among those within the skew that are not used up; 0 for none.
func matchingStep(secret, code string, now time.Time, last int64) int64 {
	found, step := int64(0), now.Unix()/totpStep
	for s := step - totpSkew; s <= step+totpSkew; s++ {
		want, err := hotp.GenerateCode(secret, uint64(max(0, s)))
		if err != nil {
			return 0
		}
		if subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 && s > last {
			found = s
		}
	}
	return found
}

// plainCode normalizes a code as users type it: with dashes and spaces, in any case.
func plainCode(s string) string {
	if len(s) > 64 {
		return ""
	}
	return strings.ToLower(strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' || r == '\t' {
			return -1
		}
		return r
	}, s))
}
