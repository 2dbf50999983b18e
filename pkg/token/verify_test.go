package token

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// T9068-1, T9068-2: signed with RS256, typ at+jwt, and all the claims, with the console's claims next to them.
func TestAccessTokenHasTheClaimsOfRFC9068AndOfTheConsole(t *testing.T) {
	f := newFixture(t)
	parts := strings.Split(f.access(t), ".")
	header, claims := decode(t, parts[0]), decode(t, parts[1])
	if header["alg"] != "RS256" || header["typ"] != "at+jwt" || header["kid"] != f.keys.signing[0].ID {
		t.Errorf("header %v", header)
	}
	want := map[string]any{
		"iss": testIssuer, "sub": "uid-1", "client_id": "kubesphere", "sid": "s1", "username": "alice",
		"iat": float64(start().Unix()), "exp": float64(start().Add(time.Hour).Unix()),
	}
	for k, v := range want {
		if claims[k] != v {
			t.Errorf("claim %s is %v, want %v", k, claims[k], v)
		}
	}
	if id, _ := claims["jti"].(string); len(id) < 22 {
		t.Errorf("jti %q has less than 128 bits", id)
	}
	got, _ := json.Marshal(map[string]any{"aud": claims["aud"], "groups": claims["groups"], "extra": claims["extra"]})
	if string(got) != `{"aud":["kapis:host"],"extra":{"email":["alice@example.com"],"uninitialized":["true"]},"groups":["dev"]}` {
		t.Errorf("claims %s", got)
	}
}

func TestTooManyGroupsAreLeftOutOfTheToken(t *testing.T) {
	for name, groups := range map[string][]string{
		"many": make([]string, maxDisplayGroups+1),
		"long": {strings.Repeat("g", maxDisplayBytes+1)},
	} {
		if bounded(groups) != nil {
			t.Errorf("%s: the groups stayed", name)
		}
	}
}

func TestAccessTokenVerifies(t *testing.T) {
	f := newFixture(t)
	s := f.access(t)
	for _, which := range []string{"verified", "remembered"} {
		a, err := f.verifier.Access(s)
		if err != nil {
			t.Fatal(which, err)
		}
		if a.Subject != "uid-1" || a.Username != "alice" || a.Client != "kubesphere" || a.Session != "s1" ||
			!a.Issued.Equal(start()) || !a.Expires.Equal(start().Add(time.Hour)) || len(a.ID) == 0 {
			t.Errorf("%s: %+v", which, a)
		}
	}
}

// forge signs any header and claims with any method and key.
func forge(t testing.TB, m jwt.SigningMethod, key any, header map[string]any, claims jwt.MapClaims) string {
	t.Helper()
	tok := jwt.NewWithClaims(m, claims)
	maps.Copy(tok.Header, header)
	s, err := tok.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// S26, S28, S30, S32, S33, T8725-1, T8725-3, T9068-3: tokens that are refused, each for one reason only.
func TestAccessRefuses(t *testing.T) {
	f := newFixture(t)
	ours, _ := f.keys.signer(start())
	other, err := Generate(start())
	if err != nil {
		t.Fatal(err)
	}
	public, _ := x509.MarshalPKIXPublicKey(&ours.Private.PublicKey)
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	header := map[string]any{"typ": "at+jwt", "kid": ours.ID}
	good := jwt.MapClaims{"iss": testIssuer, "aud": testAudience, "sub": "uid-1", "username": "alice", "client_id": "c", "sid": "s1",
		"jti": "j", "iat": start().Unix(), "exp": start().Add(time.Hour).Unix()}
	claims := func(change jwt.MapClaims) jwt.MapClaims {
		c := maps.Clone(good)
		maps.Copy(c, change)
		maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
		return c
	}
	head := func(change map[string]any) map[string]any {
		h := maps.Clone(header)
		maps.Copy(h, change)
		return h
	}
	rs := func(h map[string]any, c jwt.MapClaims) string {
		return forge(t, jwt.SigningMethodRS256, ours.Private, h, c)
	}
	if _, err := f.verifier.Access(rs(header, good)); err != nil {
		t.Fatal("the token that the others differ from:", err)
	}
	past := start().Add(-time.Hour).Unix()
	tests := map[string]string{
		"algorithm none":                   forge(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, header, good),
		"algorithm None":                   segment(`{"alg":"None","typ":"at+jwt","kid":"`+ours.ID+`"}`) + "." + strings.Split(rs(header, good), ".")[1] + ".",
		"HS256 with our public key":        forge(t, jwt.SigningMethodHS256, publicPEM, header, good),
		"another algorithm with our key":   forge(t, jwt.SigningMethodRS512, ours.Private, header, good),
		"another key under our kid":        forge(t, jwt.SigningMethodRS256, other.signing[0].Private, header, good),
		"another key, embedded":            forge(t, jwt.SigningMethodRS256, other.signing[0].Private, head(map[string]any{"jwk": jwkOf(other)}), good),
		"another key under its kid":        forge(t, jwt.SigningMethodRS256, other.signing[0].Private, head(map[string]any{"kid": other.signing[0].ID}), good),
		"a kid that is a path":             rs(head(map[string]any{"kid": "../../dev/null"}), good),
		"a kid that is a number":           rs(head(map[string]any{"kid": 7}), good),
		"no kid":                           rs(map[string]any{"typ": "at+jwt", "kid": ""}, good),
		"critical extensions":              rs(head(map[string]any{"crit": []string{"exp"}}), good),
		"typ of an ID token":               rs(head(map[string]any{"typ": "JWT"}), good),
		"no typ":                           rs(head(map[string]any{"typ": nil}), good),
		"expired":                          rs(header, claims(jwt.MapClaims{"exp": past})),
		"expired and wrongly signed (S26)": forge(t, jwt.SigningMethodRS256, other.signing[0].Private, header, claims(jwt.MapClaims{"exp": past})),
		"no exp":                           rs(header, claims(jwt.MapClaims{"exp": nil})),
		"issued in the future":             rs(header, claims(jwt.MapClaims{"iat": start().Add(time.Minute).Unix()})),
		"not yet good":                     rs(header, claims(jwt.MapClaims{"nbf": start().Add(time.Minute).Unix()})),
		"another issuer":                   rs(header, claims(jwt.MapClaims{"iss": "https://member.example"})),
		"issuer with a slash more":         rs(header, claims(jwt.MapClaims{"iss": testIssuer + "/"})),
		"no issuer":                        rs(header, claims(jwt.MapClaims{"iss": nil})),
		"another cluster's audience (S30)": rs(header, claims(jwt.MapClaims{"aud": "kapis:member"})),
		"the userinfo endpoint":            rs(header, claims(jwt.MapClaims{"aud": UserInfo(testIssuer)})),
		"no audience":                      rs(header, claims(jwt.MapClaims{"aud": nil})),
		"no subject":                       rs(header, claims(jwt.MapClaims{"sub": nil})),
		"no user name":                     rs(header, claims(jwt.MapClaims{"username": nil})),
		"no session":                       rs(header, claims(jwt.MapClaims{"sid": nil})),
		"no client":                        rs(header, claims(jwt.MapClaims{"client_id": nil})),
		"no jti":                           rs(header, claims(jwt.MapClaims{"jti": nil})),
		"no iat":                           rs(header, claims(jwt.MapClaims{"iat": nil})),
		"two segments":                     "a.b",
		"four segments":                    rs(header, good) + ".x",
		"empty":                            "",
		"dots":                             strings.Repeat(".", MaxSize),
		"too long":                         rs(header, claims(jwt.MapClaims{"x": strings.Repeat("x", MaxSize)})),
		"algorithm twice, the last is none": segment(
			`{"alg":"RS256","typ":"at+jwt","kid":"`+ours.ID+`","alg":"none"}`,
		) + "." + strings.Split(rs(header, good), ".")[1] + ".",
		"padding in the signature": rs(header, good) + "=",
		"white space":              rs(header, good) + "\n",
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			for range 2 { // refused also when a cached token could help
				if a, err := f.verifier.Access(s); !errors.Is(err, ErrInvalid) || a != nil {
					t.Errorf("got %+v, %v", a, err)
				}
			}
		})
	}
}

// S32: an ID token is no access token, nor the reverse.
func TestKindsOfTokenAreNotMistaken(t *testing.T) {
	f := newFixture(t)
	id, err := f.issuer.Identity(&Identity{Subject: "uid-1", Client: testAudience, Session: "s1", Issued: start(), Expires: start().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.verifier.Access(id); !errors.Is(err, ErrInvalid) {
		t.Errorf("ID token as access token: %v", err)
	}
	if _, err := f.verifier.Identity(f.access(t)); !errors.Is(err, ErrInvalid) {
		t.Errorf("access token as ID token: %v", err)
	}
	refresh, _ := f.keys.NewRefresh("s1", 1, start())
	if _, err := f.verifier.Access(refresh); !errors.Is(err, ErrInvalid) {
		t.Errorf("refresh token as access token: %v", err)
	}
}

// TCore-1, TLogout-2: the ID token's claims; as a hint it is also good after it expired.
func TestIdentityIsGoodAsHintAfterItsEnd(t *testing.T) {
	f := newFixture(t)
	want := Identity{Subject: "uid-1", Client: "harbor", Session: "s1", Issued: start(), Expires: start().Add(time.Hour), Authenticated: start(),
		Username: "alice", Name: "Alice", Email: "a@example.com", Locale: "en"}
	s, err := f.issuer.Identity(&want)
	if err != nil {
		t.Fatal(err)
	}
	f.clock.Step(24 * time.Hour)
	got, err := f.verifier.Identity(s)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Issued.Equal(want.Issued) || !got.Expires.Equal(want.Expires) || !got.Authenticated.Equal(want.Authenticated) {
		t.Errorf("times %+v", got)
	}
	got.Issued, got.Expires, got.Authenticated = want.Issued, want.Expires, want.Authenticated
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	other := &Issuer{Keys: f.keys, URL: "https://other.example", Audience: testAudience, Now: f.clock.Now}
	if s, _ = other.Identity(&want); s == "" {
		t.Fatal("no token")
	}
	if _, err := f.verifier.Identity(s); !errors.Is(err, ErrInvalid) {
		t.Errorf("another issuer's ID token: %v", err)
	}
}

// U27: clocks differ by as much as the leeway says, and no more.
func TestLeewayBoundsTheDifferenceOfClocks(t *testing.T) {
	for name, test := range map[string]struct {
		move time.Duration
		ok   bool
	}{
		"signer 29 s ahead":      {-29 * time.Second, true},
		"signer 31 s ahead":      {-31 * time.Second, false},
		"expired 29 s ago":       {time.Hour + 29*time.Second, true},
		"expired 31 s ago":       {time.Hour + 31*time.Second, false},
		"in the middle":          {30 * time.Minute, true},
		"expired, to the second": {time.Hour + 30*time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := f.access(t)
			f.clock.Step(test.move)
			if _, err := f.verifier.Access(s); (err == nil) != test.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRememberedTokenStillExpires(t *testing.T) {
	f := newFixture(t)
	s := f.access(t)
	if _, err := f.verifier.Access(s); err != nil {
		t.Fatal(err)
	}
	f.clock.Step(time.Hour + 31*time.Second)
	if _, err := f.verifier.Access(s); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// TDisc-2: a new key is known before it signs, and an old one verifies until it is retired.
func TestRotationFailsNoVerification(t *testing.T) {
	f := newFixture(t)
	before := f.access(t)
	fresh, err := Generate(start())
	if err != nil {
		t.Fatal(err)
	}
	next := fresh.signing[0]
	next.NotBefore = start().Add(time.Minute)
	old := f.keys.signing[0]
	old.Retire = start().Add(2 * time.Hour)
	rotated, err := NewKeySet([]SigningKey{old, next}, f.keys.macs)
	if err != nil {
		t.Fatal(err)
	}
	v := f.verify(t, rotated)
	f.issuer.Keys = rotated
	if kid := decode(t, strings.Split(f.access(t), ".")[0])["kid"]; kid != old.ID {
		t.Errorf("signed with %v before its time", kid)
	}
	f.clock.Step(time.Minute)
	after := f.access(t)
	if kid := decode(t, strings.Split(after, ".")[0])["kid"]; kid != next.ID {
		t.Errorf("signed with the old key %v", kid)
	}
	for _, s := range []string{before, after} {
		if _, err := v.Access(s); err != nil {
			t.Error(err)
		}
	}
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal(rotated.JWKS(), &set); err != nil || len(set.Keys) != 2 || set.Keys[0]["kid"] == set.Keys[1]["kid"] {
		t.Errorf("JWKS %s: %v", rotated.JWKS(), err)
	}
}

func TestRetiredKeyVerifiesNothingNotEvenWhatIsRemembered(t *testing.T) {
	f := newFixture(t)
	old := f.keys.signing[0]
	old.Retire = start().Add(time.Minute)
	set, err := NewKeySet([]SigningKey{old}, f.keys.macs)
	if err != nil {
		t.Fatal(err)
	}
	v := f.verify(t, set)
	s := f.access(t)
	if _, err := v.Access(s); err != nil {
		t.Fatal(err)
	}
	f.clock.Step(time.Minute)
	if _, err := v.Access(s); !errors.Is(err, ErrInvalid) {
		t.Errorf("remembered: %v", err)
	}
	if _, err := f.verify(t, set).Access(s); !errors.Is(err, ErrInvalid) {
		t.Errorf("anew: %v", err)
	}
}

// swap is a KeySource whose keys change.
type swap struct{ set *KeySet }

func (s *swap) KeySet() *KeySet { return s.set }

func TestRememberedTokenIsVerifiedAgainWithNewKeys(t *testing.T) {
	f := newFixture(t)
	keys := &swap{f.keys}
	v := f.verify(t, keys)
	s := f.access(t)
	if _, err := v.Access(s); err != nil {
		t.Fatal(err)
	}
	var err error
	if keys.set, err = Generate(start()); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Access(s); !errors.Is(err, ErrInvalid) {
		t.Errorf("a token of keys that are gone: %v", err)
	}
}

// S27: a token that consists of dots costs no memory.
func TestDotsCostNoMemory(t *testing.T) {
	f := newFixture(t)
	dots := strings.Repeat(".", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		_, _ = f.verifier.Access(dots)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 4<<10 {
		t.Errorf("%d bytes for a refusal", each)
	}
}

func TestVerifierNeedsAnIssuerAndAnAudience(t *testing.T) {
	for _, r := range []Rules{{Audience: "a"}, {Issuer: "i"}} {
		if _, err := NewVerifier(r); err == nil {
			t.Errorf("%+v made a verifier", r)
		}
	}
}

func TestCacheCountsAndStaysInItsBounds(t *testing.T) {
	f := newFixture(t)
	reg := prometheus.NewRegistry()
	v, err := NewVerifier(Rules{Keys: f.keys, Issuer: testIssuer, Audience: testAudience, Now: f.clock.Now, CacheSize: 32, Metrics: reg})
	if err != nil {
		t.Fatal(err)
	}
	s := f.access(t)
	for range 3 {
		if _, err := v.Access(s); err != nil {
			t.Fatal(err)
		}
	}
	if hits, misses := testutil.ToFloat64(v.hits), testutil.ToFloat64(v.misses); hits != 2 || misses != 1 {
		t.Errorf("%v hits, %v misses", hits, misses)
	}
	for i := range 1000 {
		v.cache.put(s[:len(s)-8]+strings.Repeat(string(rune('A'+i%26)), 4)+strings.Repeat(string(rune('a'+i/26)), 4), entry{})
	}
	n := 0
	for i := range v.cache.shards {
		n += v.cache.shards[i].tokens.Len()
	}
	if n > 64 {
		t.Errorf("%d tokens are remembered", n)
	}
}

func decode(t testing.TB, segment string) map[string]any {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(segment)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func segment(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func jwkOf(s *KeySet) any {
	k := &rsa.PublicKey{N: s.signing[0].Private.N, E: s.signing[0].Private.E}
	n, e := numbers(k)
	return map[string]string{"kty": "RSA", "n": n, "e": e}
}

func FuzzAccess(f *testing.F) {
	fix := newFixture(f)
	good := fix.access(f)
	for _, s := range []string{good, "", "...", "a.b.c", good + ".", strings.ToUpper(good)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := fix.verifier.Access(s); s != good && (err == nil || a != nil) {
			t.Errorf("%q verified", s)
		}
	})
}

func BenchmarkAccessRemembered(b *testing.B) {
	f := newFixture(b)
	s := f.access(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.verifier.Access(s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAccessVerified(b *testing.B) {
	f := newFixture(b)
	f.verifier.cache = nil
	s := f.access(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.verifier.Access(s); err != nil {
			b.Fatal(err)
		}
	}
}
