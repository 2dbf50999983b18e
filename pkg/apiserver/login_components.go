package apiserver

import (
	"context"
	"net/http"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	kubespherev1alpha1 "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	sessionv1alpha1 "kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authn/ksserviceaccount"
	"kapis.dev/ks-apiserver/pkg/authn/serviceaccount"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/crdclient"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/iam/lockout"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/loginrecord"
	"kapis.dev/ks-apiserver/pkg/iam/password"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/credential"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/web"
)

// platform is the name of this installation in authenticator apps and browsers.
const platform = "KubeSphere"

// accounts has what users log in with, and what limits logins.
type accounts struct {
	trust         web.TrustedProxies
	passwords     *password.Checker
	lockout       *lockout.Limiter
	records       *loginrecord.Recorder
	keys          *apikey.Store
	robots        *ksserviceaccount.Tokens
	factors       *factor.Store
	authenticator *login.Authenticator
	// feeds are of kinds that logins do not depend on.
	feeds []feed
}

func (p *components) makeAccounts(context.Context) (err error) {
	a, c := &p.accounts, p.cfg.Authentication
	if a.trust, err = web.ParseTrustedProxies(c.TrustedProxies); err != nil {
		return err
	}
	if a.passwords, err = password.New(p.users, p.metrics); err != nil {
		return err
	}
	a.passwords.LimitedFor = time.Duration(c.AuthenticateRateLimiterDuration)
	lockouts, err := crdclient.Lockouts(p.cluster)
	if err != nil {
		return err
	}
	if a.lockout, err = lockout.New(lockout.Options{
		API: lockouts, Users: p.users, Tries: c.AuthenticateRateLimiterMaxTries, Window: time.Duration(c.AuthenticateRateLimiterDuration),
		Visited: p.visited, Synced: func() bool { return p.identityKnown() == nil }, Now: time.Now, Metrics: p.metrics,
	}); err != nil {
		return err
	}
	records, err := crdclient.LoginRecords(p.cluster)
	if err != nil {
		return err
	}
	if a.records, err = loginrecord.New(records, time.Now, p.metrics); err != nil {
		return err
	}
	if err := p.makeKeys(); err != nil {
		return err
	}
	a.authenticator = &login.Authenticator{
		Passwords: a.passwords, Directory: p.directory, Accounts: p.people, Factors: a.factors,
		Lockout: a.lockout, Records: a.records, Policy: login.FactorPolicy(c.SecondFactor), Pause: login.Pause, Now: time.Now,
	}
	return nil
}

// makeKeys makes the stores of the other credentials besides passwords.
func (p *components) makeKeys() error {
	a, c := &p.accounts, p.cfg.Authentication
	robots := kubespherev1alpha1.SchemeGroupVersion.WithResource("serviceaccounts")
	a.robots = &ksserviceaccount.Tokens{Complete: store.Complete(p.store, robots)}
	keys, err := crdclient.APIKeys(p.cluster)
	if err != nil {
		return err
	}
	a.keys = &apikey.Store{
		API: keys, Users: p.users, MaxAge: time.Duration(c.APIKeyMaximumAge), Synced: func() bool { return p.identityKnown() == nil },
		Now: time.Now, Complete: store.Complete(p.store, sessionv1alpha1.SchemeGroupVersion.WithResource("apikeys")),
	}
	factors, err := crdclient.Factors(p.cluster)
	if err != nil {
		return err
	}
	a.factors = &factor.Store{API: factors, Users: p.users, Keys: p.keys, Name: platform, Now: time.Now,
		Known: store.Complete(p.store, sessionv1alpha1.SchemeGroupVersion.WithResource("factors"))}
	a.factors.Passkeys, err = factor.NewPasskeys(c.Issuer.URL, platform)
	return err
}

// originOf returns where a login request comes from. The console reports the user's address at the endpoints where it logs users in
// itself, which take the console's secret, or a provider's answer, to try a login. Elsewhere, such as at the login page, the header with
// that address comes from the browser: a client that named another user's usual address could have them locked out there (S47).
func (a *accounts) originOf(r *http.Request) iam.Origin {
	of := a.trust.Origin
	if r.URL.Path == "/oauth/token" || strings.HasPrefix(r.URL.Path, "/oauth/callback/") {
		of = a.trust.OriginOfConsole
	}
	source, agent := of(r)
	o := iam.Origin{Source: source, UserAgent: agent}
	if peer, _ := web.TrustedProxies(nil).Origin(r); peer == source && r.URL.Path == "/oauth/token" {
		// Passwords are accepted there of trusted clients only, which are servers: no header has the user's address, and all users who log in
		// through this client come from its address (S71).
		o.Shared, o.Claimed = true, web.Claimed(r)
	}
	return o
}

// sourceOf returns where any other request comes from.
func (a *accounts) sourceOf(r *http.Request) string {
	source, _ := a.trust.Origin(r)
	return source
}

// makePods makes the authenticator of Kubernetes service accounts.
func (p *components) makePods() (err error) {
	p.pods, err = serviceaccount.New(serviceaccount.Options{
		Reviews: p.client.AuthenticationV1().TokenReviews(),
		Keys: func(ctx context.Context) ([]byte, error) {
			return p.client.Discovery().RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(ctx)
		},
		OwnToken: p.ownToken, Now: time.Now, Metrics: p.metrics,
	})
	return err
}

// ownToken returns the token by which this server authenticates at kube-apiserver, or "" if it uses other credentials.
func (p *components) ownToken() string {
	if p.cluster.BearerTokenFile == "" {
		return p.cluster.BearerToken
	}
	b, err := os.ReadFile(p.cluster.BearerTokenFile)
	if err != nil {
		klog.ErrorS(err, "The token of this server's own service account could not be read, so its audience is not known")
		return ""
	}
	return strings.TrimSpace(string(b))
}

// visited reports whether a user has a session from a source.
func (p *components) visited(uid, source string) bool {
	for _, s := range p.sessions.Of(uid) {
		if s.Source == source {
			return true
		}
	}
	return false
}

func (p *components) followAccounts() {
	a := &p.accounts
	for _, f := range []struct {
		resource string
		sink     store.Sink
	}{{"lockouts", a.lockout}, {"apikeys", a.keys}, {"factors", a.factors}} {
		gvr := sessionv1alpha1.SchemeGroupVersion.WithResource(f.resource)
		a.feeds = append(a.feeds, feed{gvr, false, p.store.Feed(gvr, f.sink)})
	}
	robots := kubespherev1alpha1.SchemeGroupVersion.WithResource("serviceaccounts")
	a.feeds = append(a.feeds, feed{robots, false, p.store.Feed(robots, a.robots)})
	a.authenticator.Write = credential.WritePassword(p.caller())
}

// runAccounts starts the background writers, until ctx ends.
func (p *components) runAccounts(ctx context.Context) {
	p.running.Go(func() { p.accounts.lockout.Run(ctx) })
	p.running.Go(func() { p.accounts.records.Run(ctx) })
	p.running.Go(func() { p.accounts.keys.Run(ctx) })
	p.running.Go(func() { p.accounts.robots.Run(ctx, p.client.CoreV1().Secrets(metav1.NamespaceAll)) })
	p.running.Go(func() { p.accounts.factors.Run(ctx) })
	p.running.Go(func() { p.pods.Run(ctx) })
}
