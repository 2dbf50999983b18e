// Package factortest provides second factors for tests of what keeps them and of what asks for them.
package factortest

import (
	"net/url"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	clocktesting "k8s.io/utils/clock/testing"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
)

// codeLife is how long a code is shown (RFC 6238, 5.2).
const codeLife = 30 * time.Second

// Safe has the second factors of two replicas, which know alice and bob.
type Safe struct {
	API   *iamtest.Objects[*v1alpha1.Factor]
	Clock *clocktesting.FakeClock
	Users *iam.UserIndex
	All   [2]*factor.Store
}

// New returns a Safe without second factors.
func New(t testing.TB) *Safe {
	t.Helper()
	keys, err := iamtest.Keys()
	if err != nil {
		t.Fatal(err)
	}
	web, err := factor.NewPasskeys("https://ks.example/base", "KubeSphere")
	if err != nil || web == nil {
		t.Fatal(err)
	}
	s := &Safe{API: iamtest.NewObjects(func() *v1alpha1.Factor { return &v1alpha1.Factor{} }), Clock: clocktesting.NewFakeClock(iamtest.Start()),
		Users: iam.NewUserIndex()}
	s.Users.Set(iamtest.User("alice"))
	s.Users.Set(iamtest.User("bob"))
	for i := range s.All {
		s.All[i] = &factor.Store{API: s.API, Users: s.Users, Keys: keys, Passkeys: web, Now: s.Clock.Now}
		s.API.Follow(s.All[i])
	}
	return s
}

// Alice returns alice as she is now, or nil once she is deleted.
func (s *Safe) Alice() *iam.User { return s.Users.ByName("alice") }

// Enrol gives alice an authenticator app.
func (s *Safe) Enrol(t testing.TB) (secret string, recovery []string) {
	t.Helper()
	written := s.API.Count("create")
	uri, sealed, err := s.All[0].BeginTOTP(s.Alice())
	iamtest.Want(t, err, nil)
	u, err := url.Parse(uri)
	iamtest.Want(t, err, nil)
	if secret = u.Query().Get("secret"); secret == "" || u.Scheme != "otpauth" || s.API.Count("create") != written {
		t.Fatalf("%s, %d written", u.Scheme, s.API.Count("create"))
	}
	_, err = s.All[0].ConfirmTOTP(t.Context(), s.Alice(), sealed, "000000")
	iamtest.Want(t, err, iam.ErrCredentials)
	recovery, err = s.All[0].ConfirmTOTP(t.Context(), s.Alice(), sealed, s.Code(t, secret, 0))
	iamtest.Want(t, err, nil)
	return secret, recovery
}

// Code returns the code that an app shows which is some steps ahead.
func (s *Safe) Code(t testing.TB, secret string, steps int) string {
	t.Helper()
	code, err := totp.GenerateCode(secret, s.Clock.Now().Add(time.Duration(steps)*codeLife))
	iamtest.Want(t, err, nil)
	return code
}
