package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxToken and maxAnswer bound what is read, in bytes.
	maxToken, maxAnswer = 16 << 10, 256 << 10
	// leeway is how far two clocks may differ.
	leeway = 30 * time.Second
	// askAgain is the least time between two requests for keys, so that tokens with invented keys cause no more.
	askAgain = 10 * time.Second
)

// identity is who asks.
type identity struct {
	// UID is what to keep: a name can be given to somebody else after its user was deleted.
	UID    string   `json:"sub"`
	Name   string   `json:"username"`
	Groups []string `json:"groups"`
}

// verifier verifies the tokens by which ks-apiserver says who asks. The headers X-Remote-* say the same, but anybody who reaches this
// backend can send those.
type verifier struct {
	server string
	client *http.Client
	now    func() time.Time

	mu     sync.Mutex
	issuer string
	keys   map[string]*rsa.PublicKey
	asked  time.Time
}

func newVerifier(server string, client *http.Client, now func() time.Time) *verifier {
	return &verifier{server: strings.TrimSuffix(server, "/"), client: client, now: now}
}

var errToken = errors.New("the token is not valid")

// identify returns who makes a request. The token has to be for audience: one for another backend counts nothing here.
func (v *verifier) identify(r *http.Request, audience string) (*identity, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || len(token) > maxToken {
		return nil, errToken
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errToken
	}
	var header struct {
		Algorithm string          `json:"alg"`
		Type      string          `json:"typ"`
		Key       string          `json:"kid"`
		Critical  json.RawMessage `json:"crit"`
	}
	// The algorithm is fixed, whatever the token says; and tokens of other types are signed with the same keys.
	if decode(parts[0], &header) != nil || header.Algorithm != "RS256" || header.Type != "kapis-backend+jwt" || header.Critical != nil {
		return nil, errToken
	}
	issuer, key, err := v.key(r.Context(), header.Key)
	if err != nil {
		return nil, err
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) != nil {
		return nil, errToken
	}
	var claims struct {
		identity
		Issuer   string   `json:"iss"`
		Audience []string `json:"aud"`
		Expires  int64    `json:"exp"`
	}
	if decode(parts[1], &claims) != nil || claims.Issuer != issuer || !slices.Equal(claims.Audience, []string{audience}) ||
		v.now().After(time.Unix(claims.Expires, 0).Add(leeway)) || claims.UID == "" || claims.Name == "" {
		return nil, errToken
	}
	return &claims.identity, nil
}

// decode reads a part of a token.
func decode(part string, into any) error {
	text, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return errToken
	}
	return json.Unmarshal(text, into)
}

// key returns the issuer of tokens and one of its keys. Keys that are not known yet are asked for, since they change from time to time.
func (v *verifier) key(ctx context.Context, id string) (string, *rsa.PublicKey, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if key := v.keys[id]; key != nil {
		return v.issuer, key, nil
	}
	if now := v.now(); v.asked.IsZero() || now.Sub(v.asked) >= askAgain {
		v.asked = now
		if err := v.fetch(ctx); err != nil {
			return "", nil, fmt.Errorf("ask %s for its keys: %w", v.server, err)
		}
	}
	if key := v.keys[id]; key != nil {
		return v.issuer, key, nil
	}
	return "", nil, errToken
}

func (v *verifier) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // others wait for it
	defer cancel()
	var about struct {
		Issuer string `json:"issuer"`
	}
	if err := v.get(ctx, "/.well-known/openid-configuration", &about); err != nil {
		return err
	}
	var set struct {
		Keys []struct {
			Type string `json:"kty"`
			Use  string `json:"use"`
			ID   string `json:"kid"`
			N    string `json:"n"`
			E    string `json:"e"`
		} `json:"keys"`
	}
	if err := v.get(ctx, "/oauth/keys", &set); err != nil {
		return err
	}
	keys := map[string]*rsa.PublicKey{}
	for _, k := range set.Keys {
		n, errN := base64.RawURLEncoding.DecodeString(k.N)
		e, errE := base64.RawURLEncoding.DecodeString(k.E)
		if k.Type != "RSA" || k.Use != "sig" || k.ID == "" || errN != nil || errE != nil || len(n) < 256 || len(e) == 0 || len(e) > 3 {
			continue
		}
		keys[k.ID] = &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
	}
	if about.Issuer == "" || len(keys) == 0 {
		return errors.New("it names no issuer, or has no RSA keys")
	}
	v.issuer, v.keys = about.Issuer, keys
	return nil
}

func (v *verifier) get(ctx context.Context, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.server+path, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := v.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, answer.Status)
	}
	return json.NewDecoder(bytes.NewReader(text)).Decode(into)
}
