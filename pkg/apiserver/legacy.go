package apiserver

import (
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authn/legacy"
)

// makeLegacy makes the authenticator for tokens of an older installation, if and as long as the configuration says so.
func (p *components) makeLegacy() error {
	issuer := &p.cfg.Authentication.Issuer
	until := issuer.LegacyUntil()
	if until.IsZero() {
		return nil
	}
	a, err := legacy.New(legacy.Options{Secret: []byte(issuer.JWTSecret), Until: until, Users: p.legacyUser,
		Leeway: time.Duration(issuer.MaximumClockSkew), Now: time.Now})
	if err != nil {
		return err
	}
	klog.InfoS("Tokens of an older installation are accepted; they have no session that could be ended", "until", until)
	p.legacy = []authenticator.Token{a}
	return nil
}

// legacyUser returns the user who may log in with a token of an older installation.
func (p *components) legacyUser(name string) (user.Info, time.Time, bool) {
	u := p.users.ByName(name)
	if u == nil || u.Deleting || u.State != iamv1beta1.UserActive {
		return nil, time.Time{}, false
	}
	return u.Info(), u.PasswordChanged, true
}
