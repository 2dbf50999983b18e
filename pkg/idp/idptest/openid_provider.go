package idptest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// OP is an OpenID provider: a Server that issues ID tokens, which tests can forge.
type OP struct {
	*Server
	// Base is its issuer.
	Base string
	// Claims are the user's claims, in the ID token and at the userinfo endpoint.
	Claims map[string]any
	// Forge changes the claims of an ID token before it is signed; Sign signs it in place of the OP; Info changes the answer of the
	// userinfo endpoint; Metadata changes the discovery document. A nil one changes nothing. They are set before the OP gets requests.
	Forge    func(claims map[string]any)
	Sign     func(claims map[string]any) string
	Info     func(claims map[string]any)
	Metadata func(document map[string]any)
	// KeyRequests and Discoveries count the requests for keys and metadata.
	KeyRequests, Discoveries atomic.Int64

	claims sync.Mutex
	keys   sync.Mutex
	key    *rsa.PrivateKey
	kid    string
}

// signer is one key for all tests, since generating one takes long.
var signer = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// NewOP returns an OP whose issuer is base, where tests serve its Mux.
func NewOP(base string) *OP {
	op := &OP{Server: NewServer(), Base: base, key: signer(), kid: "first"}
	op.Claims = map[string]any{"sub": "4711-sub", "preferred_username": "Jane.Doe", "name": "Jane Doe", "email": "jane@example.com",
		"email_verified": true,
		"locale":         "en-GB", "groups": []string{"staff", "dev"}}
	op.Issuer = base
	op.IDToken = op.idToken
	op.Mux.HandleFunc("GET /.well-known/openid-configuration", op.metadata)
	op.Mux.HandleFunc("GET /keys", op.jwks)
	op.Mux.HandleFunc("GET /userinfo", op.Protected(func(w http.ResponseWriter, _ *http.Request) {
		claims := op.copied()
		if op.Info != nil {
			op.Info(claims)
		}
		WriteJSON(w, http.StatusOK, claims)
	}))
	return op
}

// Set sets a claim of the user.
func (op *OP) Set(name string, value any) {
	op.claims.Lock()
	defer op.claims.Unlock()
	op.Claims[name] = value
}

func (op *OP) copied() map[string]any {
	op.claims.Lock()
	defer op.claims.Unlock()
	return maps.Clone(op.Claims)
}

// Rotate makes the OP sign with another key, and publish it in place of the former one.
func (op *OP) Rotate(kid string, key *rsa.PrivateKey) {
	op.keys.Lock()
	defer op.keys.Unlock()
	op.kid, op.key = kid, key
}

// Key returns the signing key and its ID.
func (op *OP) Key() (string, *rsa.PrivateKey) {
	op.keys.Lock()
	defer op.keys.Unlock()
	return op.kid, op.key
}

func (op *OP) metadata(w http.ResponseWriter, _ *http.Request) {
	op.Discoveries.Add(1)
	document := map[string]any{
		"issuer": op.Base, "authorization_endpoint": op.Base + "/authorize", "token_endpoint": op.Base + "/token", "userinfo_endpoint": op.Base +
			"/userinfo",
		"jwks_uri": op.Base + "/keys", "end_session_endpoint": op.Base + "/logout", "response_types_supported": []string{"code"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"}, "code_challenge_methods_supported": []string{"plain", "S256"},
		"authorization_response_iss_parameter_supported": true,
	}
	if op.Metadata != nil {
		op.Metadata(document)
	}
	WriteJSON(w, http.StatusOK, document)
}

func (op *OP) jwks(w http.ResponseWriter, _ *http.Request) {
	op.KeyRequests.Add(1)
	kid, key := op.Key()
	set := map[string]any{"keys": []any{
		map[string]any{"kty": "oct", "kid": kid, "k": "c2VjcmV0"}, // not a signing key
		map[string]any{"kty": "new", "kid": "unknown"},            // of an unknown type
		jose.JSONWebKey{Key: &key.PublicKey, KeyID: kid, Algorithm: "RS256", Use: "sig"},
	}}
	WriteJSON(w, http.StatusOK, set)
}

func (op *OP) idToken(nonce, access string) string {
	claims := op.copied()
	now := time.Now()
	sum := sha256.Sum256([]byte(access))
	maps.Copy(claims, map[string]any{"iss": op.Base, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"at_hash": base64.RawURLEncoding.EncodeToString(sum[:16])})
	if nonce != "" {
		claims["nonce"] = nonce
	}
	if op.Forge != nil {
		op.Forge(claims)
	}
	if op.Sign != nil {
		return op.Sign(claims)
	}
	kid, key := op.Key()
	return SignJWT(jose.RS256, key, kid, claims)
}

// SignJWT signs claims.
func SignJWT(alg jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", kid))
	if err != nil {
		panic(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	jws, err := s.Sign(payload)
	if err != nil {
		panic(err)
	}
	raw, err := jws.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return raw
}
