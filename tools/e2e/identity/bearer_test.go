package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// apis are paths of everything that takes a bearer token.
var apis = []string{
	me,
	"/kapis/iam.kubesphere.io/v1beta1/users",
	"/apis/iam.kubesphere.io/v1beta1/users",
	"/api/v1/namespaces",
	"/oauth/userinfo",
	"/kapis/resources.kubesphere.io/v1alpha3/pods",
}

// nameless is the answer to somebody who sends no token: as of Kubernetes, which knows a user without a name, but for whose claims are asked.
func nameless(path string) int {
	if path == "/oauth/userinfo" {
		return http.StatusUnauthorized
	}
	return http.StatusForbidden
}

func TestTokensComeInOneWay(t *testing.T) {
	rule(t, "T6750-1", "T6750-2")
	access := harbor.ask().tokens(t, here(t)).Access
	t.Run("TheHeader", func(t *testing.T) {
		get(t, "/oauth/userinfo", access).is(t, 200)
		get(t, me, access).is(t, 200)
		get(t, me, "", "Authorization: bEaReR "+access).is(t, 200)
	})
	t.Run("NotTwoWaysAtOnce", func(t *testing.T) {
		a := get(t, "/oauth/userinfo?access_token="+access, access).fails(t, 400, "invalid_request")
		if !strings.Contains(a.header.Get("WWW-Authenticate"), `error="invalid_request"`) {
			t.Errorf("challenge %q", a.header.Get("WWW-Authenticate"))
		}
		call(t, http.MethodPost, issuer+"/oauth/userinfo", values("access_token", access), bearer(access)...).fails(t, 400, "invalid_request")
		for _, path := range []string{me, "/oauth/userinfo"} {
			get(t, path, "", "Authorization: Bearer "+access, "Authorization: Bearer "+access).is(t, 401)
		}
	})
	t.Run("NotTheQuery", func(t *testing.T) {
		for _, path := range apis {
			separator := "?"
			if strings.Contains(path, "?") {
				separator = "&"
			}
			for _, name := range []string{"access_token", "token", "ACCESS_TOKEN"} {
				if a := get(t, path+separator+name+"="+access, ""); a.status != nameless(path) {
					t.Errorf("%s by %s: %d %s", path, name, a.status, clip(a.body))
				}
			}
		}
		logIsClean(t, access)
	})
	t.Run("NotTheBody", func(t *testing.T) {
		call(t, http.MethodPost, issuer+"/oauth/userinfo", values("access_token", access)).is(t, 401)
	})
	t.Run("NotACookieOfAnyPage", func(t *testing.T) {
		for _, path := range []string{me, "/oauth/userinfo"} {
			get(t, path, "", "Cookie: token="+access).is(t, nameless(path))
			if a := get(t, path, "", "Cookie: token="+access, "Connection: Upgrade", "Upgrade: websocket", "Origin: https://evil.example"); a.status != 401 &&
				a.status != 403 {
				t.Errorf("a WebSocket of another site: %d %s", a.status, clip(a.body))
			}
		}
	})
}

func TestChallenges(t *testing.T) {
	rule(t, "T6750-3", "T6750-4")
	got := harbor.ask().tokens(t, here(t))
	forged := forge(t, got.Access).token(t, "exp", time.Now().Add(-time.Hour).Unix())
	for name, c := range map[string]struct {
		headers []string
		failed  bool
	}{
		"Nothing":          {nil, false},
		"Garbage":          {[]string{"Authorization: Bearer garbage"}, true},
		"Empty":            {[]string{"Authorization: Bearer "}, true},
		"NotWellFormed":    {[]string{"Authorization: Bearer a b"}, true},
		"Expired":          {bearer(forged), true},
		"ARefreshToken":    {bearer(got.Refresh), true},
		"AnIDToken":        {bearer(got.ID), true},
		"BasicIsNoToken":   {[]string{basic("admin", product.AdminPassword)}, false},
		"AnUnknownScheme":  {[]string{"Authorization: Digest x"}, false},
		"TwoHeaders":       {[]string{"Authorization: Bearer a", "Authorization: Bearer b"}, true},
		"AVeryLongOne":     {bearer(strings.Repeat("a.", 7000)), true},
		"ATamperedOne":     {bearer(got.Access[:len(got.Access)-3] + "AAA"), true},
		"WithoutSignature": {bearer(got.Access[:strings.LastIndexByte(got.Access, '.')+1]), true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range apis {
				want := http.StatusUnauthorized
				if len(c.headers) == 0 {
					want = nameless(path)
				}
				a := get(t, path, "", c.headers...).is(t, want)
				challenge := a.header.Get("WWW-Authenticate")
				if !strings.HasPrefix(challenge, "Bearer") || path != "/oauth/userinfo" && strings.Contains(challenge, "error=") != c.failed {
					t.Errorf("%s: challenge %q", path, challenge)
				}
				if path == "/oauth/userinfo" && len(c.headers) == 0 && strings.Contains(challenge, "error=") {
					t.Errorf("%s: challenge %q", path, challenge)
				}
				if path == "/oauth/userinfo" && c.failed && !strings.Contains(challenge, `error="invalid_token"`) {
					t.Errorf("%s: challenge %q", path, challenge)
				}
			}
		})
	}
	t.Run("TooLittleScope", func(t *testing.T) {
		poor := harbor.ask("scope", "profile").tokens(t, here(t)).Access
		a := get(t, "/oauth/userinfo", poor).fails(t, 403, "insufficient_scope")
		if got := a.header.Get("WWW-Authenticate"); !strings.Contains(got, `error="insufficient_scope"`) || !strings.Contains(got, `scope="openid"`) {
			t.Errorf("challenge %q", got)
		}
		get(t, "/api/v1/secrets", poor).is(t, 403) // a good token, and no right
	})
}

func TestATokenChoosesNeitherKeyNorAlgorithm(t *testing.T) {
	rule(t, "T8725-1")
	access := harbor.ask().tokens(t, here(t)).Access
	f := forge(t, access)
	der, err := x509.MarshalPKIXPublicKey(&f.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := x509.MarshalPKCS1PublicKey(&f.key.PublicKey)
	encoded := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	jwk := map[string]any{"kty": "RSA", "kid": "mine", "use": "sig", "alg": "RS256", "n": base64.RawURLEncoding.EncodeToString(own.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(own.E)).Bytes())}
	jwks := get(t, "/oauth/keys", "").body
	bad := map[string]string{
		"None":                     f.signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType),
		"NoneInCapitals":           f.raw(t, `"None"`, nil),
		"NoneWithTheSignature":     f.raw(t, `"none"`, []byte("x")),
		"NoAlgorithm":              f.raw(t, `null`, nil),
		"HMACOfThePublicPEM":       f.signed(t, jwt.SigningMethodHS256, encoded("PUBLIC KEY", der)),
		"HMACOfThePublicPEMTrim":   f.signed(t, jwt.SigningMethodHS256, []byte(strings.TrimSpace(string(encoded("PUBLIC KEY", der))))),
		"HMACOfTheRSAPublicPEM":    f.signed(t, jwt.SigningMethodHS256, encoded("RSA PUBLIC KEY", pkcs1)),
		"HMACOfTheDER":             f.signed(t, jwt.SigningMethodHS256, der),
		"HMACOfTheModulus":         f.signed(t, jwt.SigningMethodHS256, f.key.N.Bytes()),
		"HMACOfTheKeySet":          f.signed(t, jwt.SigningMethodHS256, []byte(jwks)),
		"HMACOfNothing":            f.signed(t, jwt.SigningMethodHS256, []byte{}),
		"AnotherHashOfTheKey":      f.signed(t, jwt.SigningMethodRS512, f.key),
		"AnotherPaddingOfTheKey":   f.signed(t, jwt.SigningMethodPS256, f.key),
		"AnotherKeyOfThatName":     f.signed(t, jwt.SigningMethodRS256, own),
		"AnotherKeyThatItBrings":   f.signed(t, jwt.SigningMethodRS256, own, "#jwk", jwk),
		"AnotherKeyOfItsOwnName":   f.signed(t, jwt.SigningMethodRS256, own, "#jwk", jwk, "#kid", "mine"),
		"AnAddressOfKeys":          f.signed(t, jwt.SigningMethodRS256, own, "#jku", "http://127.0.0.1:1/keys", "#kid", "mine"),
		"ACertificate":             f.signed(t, jwt.SigningMethodRS256, own, "#x5c", []string{base64.StdEncoding.EncodeToString(der)}, "#x5u", "http://127.0.0.1:1/"),
		"AFileAsKey":               f.signed(t, jwt.SigningMethodHS256, []byte{}, "#kid", "../../dev/null"),
		"AQueryAsKey":              f.signed(t, jwt.SigningMethodRS256, own, "#kid", "x' UNION SELECT 'a"),
		"NoKey":                    f.token(t, "#kid", nil),
		"AKeyThatIsNoText":         f.token(t, "#kid", []string{"x"}),
		"ACriticalExtension":       f.token(t, "#crit", []string{"exp"}),
		"TheAlgorithmTwice":        f.raw(t, `"none","alg":"RS256"`, nil),
		"AnEncryptedOneOfFive":     access + ".x.y",
		"ASignatureOfAnotherToken": access[:strings.LastIndexByte(access, '.')] + f.token(t, "jti", "x")[strings.LastIndexByte(f.token(t, "jti", "x"), '.'):],
	}
	for name, token := range bad {
		t.Run(name, func(t *testing.T) {
			dead(t, token)
			if a := harbor.introspect(t, token); strings.TrimSpace(a.body) != `{"active":false}` {
				t.Errorf("introspection: %s", a.body)
			}
		})
	}
	alive(t, f.token(t)) // what the forger makes is good but for what is said above
}

// raw makes a token with that alg, in the spelling of JSON; a nil signature is none, and any other an HMAC of a key that everybody knows.
func (f *forger) raw(t *testing.T, alg string, key []byte) string {
	t.Helper()
	payload, err := json.Marshal(f.claims)
	if err != nil {
		t.Fatal(err)
	}
	kid, _ := f.header["kid"].(string)
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":`+alg+`,"typ":"at+jwt","kid":"`+kid+`"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload)
	if key == nil {
		return signed + "."
	}
	sum := hmac.New(sha256.New, key)
	_, _ = sum.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

func TestKeysAreAsStrongAsTheirAlgorithm(t *testing.T) {
	rule(t, "T8725-2")
	for _, k := range publicKeys(t, issuer) {
		n, err := base64.RawURLEncoding.DecodeString(k["n"].(string))
		if err != nil || len(n) < 256 || n[0] < 0x80 || k["alg"] != "RS256" || k["kty"] != "RSA" || k["use"] != "sig" { // RFC 7518, 3.3
			t.Errorf("%d bits, %v %v for %v", 8*len(n), k["kty"], k["alg"], k["use"])
		}
		if e, err := base64.RawURLEncoding.DecodeString(k["e"].(string)); err != nil || new(big.Int).SetBytes(e).Int64() < 65537 {
			t.Errorf("exponent %x", e)
		}
	}
	var macs []struct{ Key []byte }
	if err := json.Unmarshal(readRing(t).MAC, &macs); err != nil || len(macs) == 0 {
		t.Fatalf("%v", err)
	}
	for _, m := range macs {
		if len(m.Key) < 32 {
			t.Errorf("a MAC key has %d bytes", len(m.Key))
		}
	}
}

func publicKeys(t *testing.T, base string) []map[string]any {
	t.Helper()
	var set struct{ Keys []map[string]any }
	if err := json.Unmarshal([]byte(call(t, http.MethodGet, base+"/oauth/keys", nil).must(t, 200).body), &set); err != nil || len(set.Keys) == 0 {
		t.Fatalf("no keys: %v", err)
	}
	return set.Keys
}

func TestEachClaimOfATokenCounts(t *testing.T) {
	rule(t, "T8725-3")
	q := harbor.ask()
	code := q.code(t, here(t))
	got := q.redeem(t, code).tokens(t)
	f := forge(t, got.Access)
	now := time.Now()
	for name, change := range map[string][]any{
		"AnotherIssuer":        {"iss", "https://evil.example"},
		"TheIssuerWithASlash":  {"iss", issuer + "/"},
		"NoIssuer":             {"iss", nil},
		"AnotherAudience":      {"aud", "kapis:member"},
		"AClientAsAudience":    {"aud", harbor.ID},
		"NoAudience":           {"aud", nil},
		"AnEmptyAudience":      {"aud", []string{}},
		"NoSubject":            {"sub", nil},
		"AnotherSubject":       {"sub", uidOf(t, "admin")},
		"AnotherName":          {"username", "admin"},
		"NoName":               {"username", nil},
		"AnotherClient":        {"client_id", console.ID},
		"NoClient":             {"client_id", nil},
		"NoID":                 {"jti", nil},
		"NoSession":            {"sid", nil},
		"ASessionThatIsNone":   {"sid", "no-such-session"},
		"NoTimeOfIssue":        {"iat", nil},
		"IssuedInTheFuture":    {"iat", now.Add(time.Hour).Unix()},
		"NotYetGood":           {"nbf", now.Add(time.Hour).Unix()},
		"Expired":              {"exp", now.Add(-time.Hour).Unix()},
		"WithoutEnd":           {"exp", nil},
		"AnIDTokensType":       {"#typ", "JWT"},
		"NoType":               {"#typ", nil},
		"AnotherType":          {"#typ", "logout+jwt"},
		"SomebodyElseInAll":    {"sub", uidOf(t, "admin"), "username", "admin", "client_id", console.ID},
		"AnotherPersonsID":     {"sub", alice},
		"TheEndIsNoNumber":     {"exp", "never"},
		"TheAudienceIsNoText":  {"aud", 1},
		"AnIDTokenAsOneOfOurs": {"aud", harbor.ID, "#typ", "JWT", "nonce", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			token := f.token(t, change...)
			dead(t, token)
			if a := harbor.introspect(t, token); strings.TrimSpace(a.body) != `{"active":false}` {
				t.Errorf("introspection: %s", a.body)
			}
		})
	}
	t.Run("OneKindIsNotTakenForAnother", func(t *testing.T) {
		for name, token := range map[string]string{"code": code, "refresh token": got.Refresh, "ID token": got.ID, "device code": harbor.device(t).
			field("device_code")} {
			if token == "" {
				t.Fatalf("no %s", name)
			}
			dead(t, token)
		}
		for name, token := range map[string]string{"access token": got.Access, "ID token": got.ID, "code": code, "device code": harbor.device(t).
			field("device_code")} {
			storesNothing(t, func() {
				if a := harbor.refresh(t, token); a.status != 400 || a.field("error") != "invalid_grant" {
					t.Errorf("%s as refresh token: %d %s", name, a.status, a.body)
				}
			})
		}
		for _, token := range []string{got.Access, got.ID, got.Refresh, harbor.device(t).field("device_code")} {
			storesNothing(t, func() {
				q.redeem(t, token).fails(t, 400, "invalid_grant")
			})
			harbor.poll(t, got.Access).fails(t, 400, "invalid_grant")
		}
		call(
			t,
			http.MethodPost,
			issuer+"/oauth/token",
			harbor.form("grant_type", "urn:ietf:params:oauth:grant-type:device_code", "device_code", url.QueryEscape(code)),
		).fails(t, 400, "invalid_grant")
	})
	alive(t, f.token(t, "jti", "another", "#typ", "application/at+jwt"))
	alive(t, f.token(t, "aud", []string{f.claims["aud"].([]any)[0].(string), "https://other.example"}))
}
