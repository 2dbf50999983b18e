package apiserver

import (
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authn/legacy"
)

// makeLegacy makes the authenticator for tokens of an older installation, if and as long as the configuration says so.
func (p *components) makeLegacy() error {
	issuer := &p.cfg.Authentication.Issuer
	until := issuer.LegacyUntil()
	if until.IsZero() {
		return nil
	}
	a, err := legacy.New(legacy.Options{Secret: []byte(issuer.JWTSecret), Until: until, Users: p.users.Active,
		Leeway: time.Duration(issuer.MaximumClockSkew), Now: time.Now})
	if err != nil {
		return err
	}
	klog.InfoS("Tokens of an older installation are accepted; they have no session that could be ended", "until", until)
	p.legacy = []authenticator.Token{a}
	return nil
}
