package factor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strings"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
)

// NewRecovery replaces the recovery codes of a user who has a second factor.
func (f *Store) NewRecovery(ctx context.Context, u *iam.User) ([]string, error) {
	recovery, hashes := newRecovery(u.UID)
	err := f.change(ctx, u.UID, u.Name, func(s *v1alpha1.FactorSpec) error {
		if s.TOTP == nil && len(s.Passkeys) == 0 {
			return errGone
		}
		s.Recovery = hashes
		return nil
	})
	if err != nil {
		return nil, err
	}
	return recovery, nil
}

// newRecovery returns recovery codes and their hashes.
func newRecovery(uid string) (codes, hashes []string) {
	for range recoveryCodes {
		var b [10]byte
		_, _ = rand.Read(b[:]) // never fails (crypto/rand)
		code := strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
		hashes = append(hashes, recoveryHash(uid, code))
		var groups []string
		for i := 0; i < len(code); i += recoveryGroup {
			groups = append(groups, code[i:i+recoveryGroup])
		}
		codes = append(codes, strings.Join(groups, "-"))
	}
	return codes, hashes
}

// recoveryHash returns the hash of a recovery code, which has 80 random bits: a slow hash would not make it safer. No UID has a zero byte.
func recoveryHash(uid, code string) string {
	sum := sha256.Sum256([]byte("kapis.dev recovery code 1\x00" + uid + "\x00" + code))
	return hex.EncodeToString(sum[:])
}
