package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authn/bearer"
	"kapis.dev/ks-apiserver/pkg/iam"
	iamapikey "kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/crdclient"
	iamsession "kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	verifyUser     = "alice"
	verifyIssuer   = "https://ks.example"
	verifyAudience = "kubesphere"
	// verifications are counted in batches so short that other processes can use the core between two of them.
	verifications, verifyBatches = 1000, 101
)

// verify measures, in this process, what it takes to authenticate a request by its header: by an access token that was seen before,
// and by an API key. A server without authentication saves all of it.
func verify() ([]figure, error) {
	bearers, access, key, err := credentials()
	if err != nil {
		return nil, err
	}
	warm, err := recognize(bearers, access)
	if err != nil {
		return nil, err
	}
	keyed, err := recognize(bearers, key)
	if err != nil {
		return nil, err
	}
	const goal = "<= 1 us"
	return []figure{
		{name: "token-verification-warm", value: micros(warm), unit: "us", goal: goal},
		{name: "api-key-warm", value: micros(keyed), unit: "us", goal: goal},
	}, nil
}

// credentials returns the product's authenticator of bearer tokens, and one token of each kind.
func credentials() (_ *bearer.Authenticator, access, key string, err error) {
	users := iam.NewUserIndex()
	users.Set(&store.Object{Name: verifyUser, Raw: []byte(`{"metadata":{"name":"alice","uid":"0a1b2c3d-0000-4000-8000-000000000001"},` +
		`"spec":{"groups":["dev","ops"]},"status":{"state":"Active"}}`)})
	u := users.ByName(verifyUser)
	keys, err := token.Generate(time.Now())
	if err != nil {
		return nil, "", "", err
	}
	sessions, err := iamsession.New(iamsession.Options{API: sessionMemory{}, Users: users, Keys: keys, Now: time.Now,
		Lifetime: func(string) iamsession.Lifetime { return iamsession.Lifetime{MaxAge: time.Hour} }})
	if err != nil {
		return nil, "", "", err
	}
	open, _, err := sessions.Open(context.Background(), iamsession.Login{AuthnResult: iam.AuthnResult{User: u}, Client: "kubesphere"})
	if err != nil {
		return nil, "", "", err
	}
	now := time.Now()
	issuer := &token.Issuer{Keys: keys, URL: verifyIssuer, Audience: verifyAudience, Now: time.Now}
	access, err = issuer.Access(&token.Access{Subject: u.UID, Username: u.Name, Client: open.Client, Session: open.Name,
		Issued: now, Expires: now.Add(time.Hour), Display: token.Display{Groups: u.Groups}})
	if err != nil {
		return nil, "", "", err
	}
	verifier, err := token.NewVerifier(token.Rules{Keys: keys, Issuer: verifyIssuer, Audience: verifyAudience, Now: time.Now, CacheSize: 1024})
	if err != nil {
		return nil, "", "", err
	}
	apiKeys := &iamapikey.Store{API: keyMemory{}, Users: users, MaxAge: time.Hour, Now: time.Now}
	if _, key, err = apiKeys.Create(context.Background(), u, iamapikey.Request{Description: "benchmark",
		Expires: now.Add(time.Minute)}); err != nil {
		return nil, "", "", err
	}
	return &bearer.Authenticator{
		Prefixed: []bearer.Prefixed{{Prefix: token.APIKeyPrefix, Token: &bearer.APIKeys{Keys: apiKeys}}},
		Tokens:   []authenticator.Token{&bearer.AccessTokens{Verifier: verifier, Sessions: sessions}},
	}, access, key, nil
}

// recognize returns how long it takes to authenticate a request with that bearer token.
func recognize(by *bearer.Authenticator, credential string) (time.Duration, error) {
	r, err := http.NewRequest(http.MethodGet, verifyIssuer+podLists, nil) //nolint:noctx // never sent
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+credential)
	batch := func(n int) (time.Duration, error) {
		start := time.Now()
		for range n {
			who, ok, err := by.AuthenticateRequest(r)
			if err != nil || !ok || who.User.GetName() != verifyUser {
				return 0, fmt.Errorf("the credential of %s is refused: %w", verifyUser, err)
			}
		}
		return time.Since(start), nil
	}
	if _, err := batch(1); err != nil { // the first one is not warm
		return 0, err
	}
	took := make([]time.Duration, verifyBatches)
	for i := range took {
		if took[i], err = batch(verifications); err != nil {
			return 0, err
		}
	}
	slices.Sort(took)
	return quantile(took, 0.5) / verifications, nil
}

// sessionMemory stores sessions, and returns none: the product caches those it has opened.
type sessionMemory struct{ iamsession.Backend }

// Create returns the object as kube-apiserver would.
func (sessionMemory) Create(_ context.Context, s *v1alpha1.Session) (*v1alpha1.Session, error) {
	s = s.DeepCopy()
	s.UID, s.ResourceVersion, s.Generation = types.UID("uid-of-"+s.Name), "1", 1
	return s, nil
}

// keyMemory is the same for API keys.
type keyMemory struct {
	crdclient.API[*v1alpha1.APIKey]
}

// Create returns the object as kube-apiserver would.
func (keyMemory) Create(_ context.Context, k *v1alpha1.APIKey) (*v1alpha1.APIKey, error) {
	k = k.DeepCopy()
	k.UID, k.ResourceVersion, k.CreationTimestamp = types.UID("uid-of-"+k.Name), "1", metav1.Now()
	return k, nil
}
