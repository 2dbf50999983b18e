package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"kapis.dev/ks-apiserver/pkg/token"
)

// reviewed is what TokenReview says of a token.
func reviewed(t *testing.T, raw string) (authenticated bool, user string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": map[string]any{"token": raw}})
	if err != nil {
		t.Fatal(err)
	}
	a := call(t, http.MethodPost, issuer+"/oauth/authenticate", string(body), "Content-Type: application/json").must(t, http.StatusOK)
	var out struct {
		Status struct {
			Authenticated bool
			User          struct{ Username string }
		}
	}
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		t.Fatal(err)
	}
	return out.Status.Authenticated, out.Status.User.Username
}

// opensNothing fails the test unless a token is refused wherever one can be shown, and stores nothing.
func opensNothing(t *testing.T, raw string) {
	t.Helper()
	storesNothing(t, func() {
		for _, path := range []string{me, "/api/v1/namespaces", "/apis/iam.kubesphere.io/v1beta1/users", "/oauth/userinfo"} {
			a := get(t, path, raw)
			if challenge := a.header.Get("WWW-Authenticate"); a.status != http.StatusUnauthorized || !strings.Contains(challenge, `error="invalid_token"`) {
				t.Errorf("%s: %d, challenge %q: %s", path, a.status, challenge, clip(a.body))
			}
		}
		if yes, who := reviewed(t, raw); yes || who != "" {
			t.Errorf("a review takes it for that of %q", who)
		}
		console.refresh(t, raw).fails(t, http.StatusBadRequest, "invalid_grant")
		console.token(t, "grant_type", "authorization_code", "code", raw).fails(t, http.StatusBadRequest, "invalid_grant")
		if a := console.introspect(t, raw).must(t, http.StatusOK); strings.TrimSpace(a.body) != `{"active":false}` {
			t.Errorf("introspection says %s", a.body)
		}
	})
}

func publicPEM(key *rsa.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func jwk(key *rsa.PublicKey, kid string) map[string]any {
	b64 := base64.RawURLEncoding.EncodeToString
	return map[string]any{"kty": "RSA", "kid": kid, "alg": "RS256", "use": "sig", "n": b64(key.N.Bytes()), "e": b64(big.NewInt(int64(key.E)).Bytes())}
}

// Each row is an access token of a live session that somebody has made anew, with what he could get hold of.
func TestForgedAccessTokensOpenNothing(t *testing.T) {
	rule(t, "S26", "S28", "S30", "S33", "T9068-3", "T8725-1", "T8725-3")
	v := openVault(t)
	access := passwordLogin(t, alice).Access
	head, body := claims(t, access)
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	alive(t, v.signed(t, head, body)) // what is wrong with the others is not how they are made
	parts := strings.Split(access, ".")
	now := time.Now().Unix()
	ours := func(name string, value any) string { return v.signed(t, head, claimed(body, name, value)) }
	theirs := func(header, payload map[string]any) string {
		return sign(t, jwt.SigningMethodRS256, foreign, header, payload)
	}
	type row struct{ name, raw string }
	rows := []row{
		{"S26/ExpiredAndWronglySigned", theirs(head, claimed(body, "exp", now-7200))},
		{"S26/Expired", ours("exp", now-7200)},
		{"S26/WronglySigned", parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 256))},
		{"S26/WithoutSignature", parts[0] + "." + parts[1] + "."},
		{"S26/WithoutExpiry", ours("exp", nil)},
		{"S26/NotYetValid", ours("nbf", now+7200)},
		{"S26/OfTheFuture", ours("iat", now+7200)},
		{"S28/AlgNone", segments(`{"alg":"none","typ":"at+jwt"}`, body, "")},
		{"S28/AlgNoneInOtherLetters", segments(`{"alg":"None","typ":"at+jwt","kid":"`+v.kid+`"}`, body, "")},
		{"S28/NoAlg", segments(`{"typ":"at+jwt","kid":"`+v.kid+`"}`, body, parts[2])},
		{"S28/HMACWithThePublicKey", sign(t, jwt.SigningMethodHS256, publicPEM(&v.private.PublicKey), head, body)},
		{"S28/HMACWithTheModulus", sign(t, jwt.SigningMethodHS256, v.private.N.Bytes(), head, body)},
		{"S28/PS256WithTheRightKey", sign(t, jwt.SigningMethodPS256, v.private, head, body)},
		{"S28/RS512WithTheRightKey", sign(t, jwt.SigningMethodRS512, v.private, head, body)},
		{"S28/AKeyOfItsOwn", theirs(claimed(head, "jwk", jwk(&foreign.PublicKey, v.kid)), body)},
		{"S28/AKeySetOfItsOwn", theirs(claimed(head, "jku", "http://127.0.0.1:1/keys"), body)},
		{"S28/ACertificateOfItsOwn", theirs(claimed(head, "x5u", "http://127.0.0.1:1/cert"), body)},
		{"S28/AKidThatIsAPath", theirs(claimed(head, "kid", "../../dev/null"), body)},
		{"S28/AKidThatIsNotText", theirs(claimed(head, "kid", []string{v.kid}), body)},
		{"S28/AlgTwice", segments(`{"alg":"RS256","alg":"none","typ":"at+jwt","kid":"`+v.kid+`"}`, body, "")},
		{"S28/CriticalExtension", v.signed(t, claimed(head, "crit", []string{"exp"}), body)},
		{"S30/AnotherAudience", ours("aud", "kapis:member")},
		{"S30/AnotherAudienceInAList", ours("aud", []string{"kapis:member", "harbor"})},
		{"S30/NoAudience", ours("aud", nil)},
		{"S33/AnotherIssuer", ours("iss", "https://member.example")},
		{"S33/TheIssuerWithASlash", ours("iss", issuer+"/")},
		{"S33/NoIssuer", ours("iss", nil)},
		{"S33/KeysOfAMember", theirs(head, body)},
		{"S33/KeysOfAMemberByItsName", theirs(claimed(head, "kid", "member-1"), body)},
		{"T9068-3/WithoutType", v.signed(t, claimed(head, "typ", nil), body)},
		{"T9068-3/OfTypeJWT", v.signed(t, claimed(head, "typ", "JWT"), body)},
		{"T9068-3/OfAnotherType", v.signed(t, claimed(head, "typ", "logout+jwt"), body)},
		{"T8725-3/AnotherSubject", ours("sub", uidOf(t, "admin"))},
		{"T8725-3/AnotherName", ours("username", "admin")},
		{"T8725-3/AnotherClient", ours("client_id", "harbor")},
		{"T8725-3/AnotherSession", ours("sid", "0000000000000000000000000000000000000000")},
		{"T8725-3/NoSession", ours("sid", nil)},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { opensNothing(t, r.raw) })
	}
	alive(t, access)
}

// A member cluster has keys of its own. With them it can make tokens for itself, and none for the host.
func TestKeysOfAMemberSignNothingForTheHost(t *testing.T) {
	rule(t, "S33")
	keys, err := token.Generate(time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	_, body := claims(t, passwordLogin(t, alice).Access)
	i := &token.Issuer{Keys: keys, URL: issuer, Audience: body["aud"].([]any)[0].(string), Now: time.Now}
	raw, err := i.Access(&token.Access{Subject: body["sub"].(string), Username: alice, Client: console.ID, Session: body["sid"].(string),
		Issued: time.Now(), Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	opensNothing(t, raw)
	refresh, err := keys.NewRefresh(body["sid"].(string), 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	console.refresh(t, refresh).fails(t, http.StatusBadRequest, "invalid_grant")
}

func TestOneKindOfTokenIsNotTakenForAnother(t *testing.T) {
	rule(t, "S32", "T8725-3")
	b := here(t)
	q := harbor.ask("scope", "openid profile offline_access")
	code := q.code(t, b)
	got := q.tokens(t, b)
	device := harbor.device(t)
	consent := b.open(t, asking.ask("prompt", "consent").address()).shows(t, http.StatusOK, "Allow asking?")
	at, err := url.Parse(issuer)
	if err != nil {
		t.Fatal(err)
	}
	misused := func(name, raw string) {
		t.Helper()
		for kind, grant := range map[string][2]string{"RefreshToken": {"refresh_token", "refresh_token"}, "Code": {"authorization_code", "code"},
			"DeviceCode": {"urn:ietf:params:oauth:grant-type:device_code", "device_code"}} {
			if name == kind {
				continue
			}
			t.Run("As"+kind+"/"+name, func(t *testing.T) {
				storesNothing(t, func() {
					harbor.token(t, "grant_type", grant[0], grant[1], raw, "code_verifier", random()).fails(t, http.StatusBadRequest, "invalid_grant")
				})
			})
		}
	}
	bears := func(name, raw string) {
		t.Helper()
		t.Run("AsBearer/"+name, func(t *testing.T) {
			for _, path := range []string{me, "/api/v1/namespaces", "/oauth/userinfo"} {
				get(t, path, raw).is(t, http.StatusUnauthorized)
			}
			if yes, who := reviewed(t, raw); yes {
				t.Errorf("a review takes it for that of %s", who)
			}
		})
	}
	bears("Code", code)
	misused("Code", code)
	q.redeem(t, code).tokens(t) // none of that has used it up; it lives for a minute, and is the first for that
	others := map[string]string{"RefreshToken": got.Refresh, "IDToken": got.ID, "DeviceCode": device.field("device_code"),
		"UserCode": device.field("user_code"), "Form": consent.form(t, url.Values{"answer": {"allow"}}).fields.Get("form")}
	for _, c := range b.jar.Cookies(at) {
		others["Cookie/"+c.Name] = c.Value
	}
	if len(others) < 7 {
		t.Errorf("of the kinds only %v were found", maps.Keys(others))
	}
	for name, raw := range others {
		bears(name, raw)
	}
	others["AccessToken"] = got.Access
	others["APIKey"] = newAPIKey(t, alice, passwordLogin(t, alice).Access)
	for name, raw := range others {
		misused(name, raw)
	}
	harbor.refresh(t, got.Refresh).tokens(t)
	alive(t, got.Access)
}

// newAPIKey makes an API key of a user's own.
func newAPIKey(t *testing.T, user, access string) string {
	t.Helper()
	body := fmt.Sprintf(`{"description":"rules","currentPassword":%q,"expiresAt":%q}`, password, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	a := call(
		t,
		http.MethodPost,
		issuer+"/kapis/iam.kubesphere.io/v1beta1/users/"+user+"/apikeys",
		body,
		"Content-Type: application/json",
		"Authorization: Bearer "+access,
	)
	if key := a.field("token"); a.status < 300 && key != "" {
		return key
	}
	t.Fatalf("make an API key: %d %s", a.status, clip(a.body))
	return ""
}
