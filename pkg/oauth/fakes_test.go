package oauth

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	iamlogin "kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/idp"
)

type providers []*idp.Entry

func (p providers) Entries() []*idp.Entry { return p }

func (p providers) Entry(name string) *idp.Entry {
	if i := slices.IndexFunc(p, func(e *idp.Entry) bool { return e.Name == name }); i >= 0 {
		return p[i]
	}
	return nil
}

type fakeLDAP struct{}

func (fakeLDAP) Check(context.Context) error { return nil }

func (fakeLDAP) Login(context.Context, string, string) (*idp.Identity, error) {
	return nil, idp.ErrUnavailable
}

// fakeRedirectProvider is a provider that browsers are redirected to.
type fakeRedirectProvider struct {
	mu    sync.Mutex
	begun idp.Begin
	asked idp.Callback
	id    *idp.Identity
	err   error
}

func (*fakeRedirectProvider) Check(context.Context) error { return nil }

func (u *fakeRedirectProvider) Begin(_ context.Context, b idp.Begin) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.begun = b
	return "https://idp.example/authorize?state=" + b.State, nil
}

func (u *fakeRedirectProvider) Finish(_ context.Context, c idp.Callback) (*idp.Identity, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = c
	return u.id, u.err
}

func (u *fakeRedirectProvider) Logout(_ context.Context, hint, back, state string) (string, error) {
	return "https://idp.example/logout?hint=" + hint + "&state=" + state + "&back=" + url.QueryEscape(back), nil
}

// fakeAuthenticator is an authenticator: the real one for passwords, and fakes of what is tested elsewhere.
type fakeAuthenticator struct {
	*iamlogin.Authenticator
	site    *pageTest
	pending bool
	proof   func(provider string, id *idp.Identity) (*iam.AuthnResult, error)
	err     error
}

func (g *fakeAuthenticator) Password(ctx context.Context, a iamlogin.Attempt) (*iam.AuthnResult, error) {
	if g.err != nil {
		return nil, g.err
	}
	if a.Provider == "ldap" {
		return nil, idp.ErrUnavailable
	}
	p, err := g.Authenticator.Password(ctx, a)
	if err == nil {
		p.Pending, p.At = g.pending, g.site.clock.Now()
	}
	return p, err
}

func (g *fakeAuthenticator) Identity(_ context.Context, provider string, id *idp.Identity, _ iam.Origin) (*iam.AuthnResult, error) {
	return g.proof(provider, id)
}

func (g *fakeAuthenticator) SecondFactor(_ context.Context, p *iam.AuthnResult, code string, _ iam.Origin) error {
	if code != otp {
		return iam.ErrCredentials
	}
	p.Pending, p.Methods = false, append(p.Methods, iam.MethodOTP, iam.MethodMFA)
	return nil
}

func (g *fakeAuthenticator) Passkey(_ context.Context, p *iam.AuthnResult, sealed string, response []byte, _ iam.Origin) error {
	if sealed != "for "+p.User.Name || string(response) != "touched" {
		return iam.ErrCredentials
	}
	p.Pending = false
	return nil
}

func (g *fakeAuthenticator) PasskeyLogin(_ context.Context, sealed string, response []byte, _ iam.Origin) (*iam.AuthnResult, error) {
	if sealed != "for anybody" || string(response) != "touched" {
		return nil, iam.ErrCredentials
	}
	return &iam.AuthnResult{User: g.site.users.ByName("alice"), Methods: []string{iam.MethodPasskey}}, nil
}

func (g *fakeAuthenticator) EnrolTOTP(_ context.Context, p *iam.AuthnResult, _, code string, _ iam.Origin) ([]string, error) {
	if code != otp {
		return nil, iam.ErrCredentials
	}
	p.Pending = false
	return []string{"recover-1", "recover-2"}, nil
}

func (g *fakeAuthenticator) Register(_ context.Context, p *iam.AuthnResult, name, _ string) error {
	if name == "taken" {
		return iam.ErrNotLinked
	}
	g.site.settle(name, iamapi.UserActive)
	p.User, p.Registration = g.site.users.ByName(name), nil
	return nil
}

// factors are the second factors of all users.
type factors struct {
	has     factor.Enrolled
	removed []string
}

func (f *factors) of(*iam.User) factor.Enrolled { return f.has }

func (f *factors) BeginTOTP(u *iam.User) (string, string, error) {
	return "otpauth://totp/ks:" + u.Name + "?secret=JBSWY3DPEHPK3PXP", "sealed", nil
}

func (f *factors) ConfirmTOTP(_ context.Context, _ *iam.User, sealed, code string) ([]string, error) {
	if sealed != "sealed" || code != otp {
		return nil, iam.ErrCredentials
	}
	f.has.TOTP = true
	return []string{"recover-1", "recover-2"}, nil
}

func (f *factors) RemoveTOTP(context.Context, *iam.User) error { f.has.TOTP = false; return nil }

func (f *factors) NewRecovery(context.Context, *iam.User) ([]string, error) {
	return []string{"recover-3"}, nil
}

func (f *factors) BeginPasskey(*iam.User) ([]byte, string, error) {
	return []byte(`{"publicKey":{}}`), "new", nil
}

func (f *factors) AddPasskey(_ context.Context, _ *iam.User, sealed, name string, response []byte) error {
	if sealed != "new" || string(response) != "touched" {
		return iam.ErrCredentials
	}
	f.has.Passkeys = append(f.has.Passkeys, factor.Passkey{ID: "key-1", Name: name})
	return nil
}

func (f *factors) RemovePasskey(_ context.Context, _ *iam.User, id string) error {
	f.removed, f.has.Passkeys = append(f.removed, id), nil
	return nil
}

func (f *factors) BeginLogin(u *iam.User) ([]byte, string, error) {
	if u == nil {
		return []byte(`{"publicKey":{}}`), "for anybody", nil
	}
	return []byte(`{"publicKey":{}}`), "for " + u.Name, nil
}

// keys are the API keys of all users.
type keys struct{ list []apikey.Key }

func (k *keys) Create(_ context.Context, u *iam.User, in apikey.Request) (*apikey.Key, string, error) {
	if in.Scope != "" && in.Scope != "read" {
		return nil, "", iam.ErrScope
	}
	k.list = append(k.list, apikey.Key{Name: fmt.Sprintf("key-%d", len(k.list)), User: u.Name, Description: in.Description, Scope: in.Scope, Expires: in.Expires})
	return &k.list[len(k.list)-1], "ksk_once", nil
}

func (k *keys) List(*iam.User) []apikey.Key { return k.list }

func (k *keys) Revoke(_ context.Context, _ *iam.User, name string) error {
	n := len(k.list)
	if k.list = slices.DeleteFunc(k.list, func(a apikey.Key) bool { return a.Name == name }); len(k.list) == n {
		return iam.ErrOver
	}
	return nil
}
