package oidc

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// login logs in at an OP that a test changed.
func login(t *testing.T, change func(op *idptest.OP, settings map[string]any)) (*idp.Identity, error) {
	t.Helper()
	var who *idp.Identity
	var err error
	idptest.WithDouble(t, Type(), func(o idptest.Outside) *idptest.Double {
		op := idptest.NewOP(o.Base)
		d := double(o, op)
		change(op, d.Settings)
		return d
	}, func(login func() (*idp.Identity, error)) { who, err = login() })
	return who, err
}

func claim(name string, value any) func(map[string]any) {
	return func(claims map[string]any) {
		if value == nil {
			delete(claims, name)
		} else {
			claims[name] = value
		}
	}
}

func TestATokenThatDoesNotHoldLogsNobodyIn(t *testing.T) { // TCore-12, S30, S41, S45
	now := time.Now().Unix()
	for name, forge := range map[string]func(map[string]any){
		"AnotherAudience":          claim("aud", "other"),
		"AnotherAudienceInAList":   claim("aud", []string{"other"}),
		"NoAudience":               claim("aud", nil),
		"AnEmptyAudience":          claim("aud", []string{}),
		"SeveralAudiencesAndNoAzp": claim("aud", []string{idptest.ClientID, "other"}),
		"SeveralAudiencesAndAnotherAzp": func(c map[string]any) {
			c["aud"] = []string{idptest.ClientID, "other"}
			c["azp"] = "other"
		},
		"AnotherAzp":              claim("azp", "other"),
		"AnAzpThatIsNoText":       claim("azp", []string{idptest.ClientID}),
		"AnotherNonce":            claim("nonce", "other"),
		"NoNonce":                 claim("nonce", nil),
		"AnotherIssuer":           claim("iss", "https://evil.example"),
		"AnIssuerWithASlash":      func(c map[string]any) { c["iss"] = c["iss"].(string) + "/" },
		"NoIssuer":                claim("iss", nil),
		"Expired":                 claim("exp", now-120),
		"NoExpiry":                claim("exp", nil),
		"NotYetValid":             claim("nbf", now+3600),
		"OfTheFuture":             claim("iat", now+3600),
		"NoSubject":               claim("sub", nil),
		"AnEmptySubject":          claim("sub", ""),
		"ASubjectOfTwoLines":      claim("sub", "a\nb"),
		"ALongSubject":            claim("sub", strings.Repeat("x", 256)),
		"ASubjectThatIsNoText":    claim("sub", map[string]any{}),
		"AnotherAccessTokensHash": claim("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"),
	} {
		t.Run(name, func(t *testing.T) {
			who, err := login(t, func(op *idptest.OP, _ map[string]any) { op.Forge = forge })
			if !errors.Is(err, idp.ErrRefused) || who != nil {
				t.Errorf("%+v, %v", who, err)
			}
		})
	}
	for name, forge := range map[string]func(map[string]any){
		"ClocksThatAreApart": func(c map[string]any) {
			c["exp"] = now - 20
			c["iat"] = now + 20
		}, // U27
		"SeveralAudiencesAndOurAzp": func(c map[string]any) {
			c["aud"] = []string{"other", idptest.ClientID}
			c["azp"] = idptest.ClientID
		},
		"NoHashOfTheAccessToken": claim("at_hash", nil),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := login(t, func(op *idptest.OP, _ map[string]any) { op.Forge = forge }); err != nil {
				t.Error(err)
			}
		})
	}
}

func unsigned(header string, claims map[string]any) string {
	payload, _ := json.Marshal(claims)
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
}

func TestATokenThatTheProviderDidNotSignLogsNobodyIn(t *testing.T) { // S28, S45
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, sign := range map[string]func(op *idptest.OP, claims map[string]any) string{
		"AlgNone":           func(_ *idptest.OP, c map[string]any) string { return unsigned(`{"alg":"none"}`, c) },
		"AlgNoneInCapitals": func(_ *idptest.OP, c map[string]any) string { return unsigned(`{"alg":"NONE","kid":"first"}`, c) },
		"NoAlg":             func(_ *idptest.OP, c map[string]any) string { return unsigned(`{}`, c) },
		"HMACWithThePublicKey": func(op *idptest.OP, c map[string]any) string {
			kid, key := op.Key()
			der, _ := x509.MarshalPKIXPublicKey(&key.PublicKey)
			return idptest.SignJWT(jose.HS256, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), kid, c)
		},
		"HMACWithTheClientSecret": func(_ *idptest.OP, c map[string]any) string {
			return idptest.SignJWT(jose.HS256, []byte(idptest.ClientSecret+strings.Repeat("x", 32)), "first", c)
		},
		"AnotherKey":            func(_ *idptest.OP, c map[string]any) string { return idptest.SignJWT(jose.RS256, other, "first", c) },
		"AnotherKeyWithoutAKid": func(_ *idptest.OP, c map[string]any) string { return idptest.SignJWT(jose.RS256, other, "", c) },
		"AnUnknownKey": func(_ *idptest.OP, c map[string]any) string {
			return idptest.SignJWT(jose.RS256, other, "../../dev/null", c)
		},
		"AKeyOfItsOwn": func(_ *idptest.OP, c map[string]any) string {
			s, _ := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: other}, &jose.SignerOptions{EmbedJWK: true})
			payload, _ := json.Marshal(c)
			jws, _ := s.Sign(payload)
			raw, _ := jws.CompactSerialize()
			return raw
		},
		"AnAlgorithmThatIsNotPublished": func(op *idptest.OP, c map[string]any) string {
			kid, key := op.Key()
			return idptest.SignJWT(jose.PS256, key, kid, c)
		},
		"ChangedAfterwards": func(op *idptest.OP, c map[string]any) string {
			kid, key := op.Key()
			parts := strings.Split(idptest.SignJWT(jose.RS256, key, kid, c), ".")
			c["sub"] = "admin"
			payload, _ := json.Marshal(c)
			return parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload) + "." + parts[2]
		},
		"TheGeneralForm": func(op *idptest.OP, c map[string]any) string {
			kid, key := op.Key()
			parts := strings.Split(idptest.SignJWT(jose.RS256, key, kid, c), ".")
			return `{"payload":"` + parts[1] + `","signatures":[{"protected":"` + parts[0] + `","signature":"` + parts[2] + `"}]}`
		},
		"Nothing":   func(*idptest.OP, map[string]any) string { return "" },
		"Dots":      func(*idptest.OP, map[string]any) string { return strings.Repeat(".", 100_000) }, // S27
		"TooLong":   func(*idptest.OP, map[string]any) string { return strings.Repeat("x", maxToken+1) },
		"NoJSON":    func(*idptest.OP, map[string]any) string { return "e30.e30.e30" },
		"Encrypted": func(*idptest.OP, map[string]any) string { return "e30.e30.e30.e30.e30" },
	} {
		t.Run(name, func(t *testing.T) {
			who, err := login(t, func(op *idptest.OP, _ map[string]any) {
				op.Sign = func(c map[string]any) string { return sign(op, c) }
			})
			if !errors.Is(err, idp.ErrRefused) || who != nil {
				t.Errorf("%+v, %v", who, err)
			}
		})
	}
}

func TestOtherAlgorithmsWithPublicKeysAreTaken(t *testing.T) {
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		alg             jose.SignatureAlgorithm
		private, public any
	}{{jose.ES256, curve, &curve.PublicKey}, {jose.EdDSA, edwards, public}} {
		_, err := login(t, func(op *idptest.OP, settings map[string]any) {
			op.Metadata = func(d map[string]any) {
				d["id_token_signing_alg_values_supported"] = []string{"none", "HS256", string(test.alg)}
			}
			op.Mux.HandleFunc("GET /other", func(w http.ResponseWriter, _ *http.Request) {
				idptest.WriteJSON(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: test.public, KeyID: "other"}}})
			})
			settings["endpoint"] = map[string]any{"jwksURL": op.Base + "/other"}
			op.Forge = claim("at_hash", nil)
			op.Sign = func(c map[string]any) string { return idptest.SignJWT(test.alg, test.private, "other", c) }
		})
		if err != nil {
			t.Errorf("%s: %v", test.alg, err)
		}
	}
}

func TestTheUserinfoOfAnotherPersonIsRefused(t *testing.T) { // S45, TCore-9
	for name, info := range map[string]func(map[string]any){"Another": claim("sub", "admin"), "Nobody": claim("sub", nil),
		"AList": claim("sub", []string{"4711-sub"})} {
		t.Run(name, func(t *testing.T) {
			who, err := login(t, func(op *idptest.OP, settings map[string]any) {
				op.Info = info
				settings["getUserInfo"] = true
			})
			if !errors.Is(err, idp.ErrRefused) || who != nil {
				t.Errorf("%+v, %v", who, err)
			}
		})
	}
}

func TestOnlyAnEmailThatIsVerifiedIsTaken(t *testing.T) {
	for name, test := range map[string]struct {
		claims, info map[string]any
		settings     map[string]any
		want         string
	}{
		"Verified":                  {want: "jane@example.com"},
		"VerifiedAsText":            {claims: map[string]any{"email_verified": "true"}, want: "jane@example.com"},
		"NotVerified":               {claims: map[string]any{"email_verified": false}},
		"NotSaid":                   {claims: map[string]any{"email_verified": nil}},
		"TrustedByTheAdministrator": {claims: map[string]any{"email_verified": nil}, settings: map[string]any{"trustEmail": true}, want: "jane@example.com"},
		"AClaimThatTheAdministratorSet": {claims: map[string]any{"email_verified": nil, "mail": "j@example.com"}, settings: map[string]any{"emailKey": "mail"},
			want: "j@example.com"},
		"NoAddress":                   {claims: map[string]any{"email": "Jane <jane@example.com>"}},
		"VerifiedThereAndAnotherHere": {info: map[string]any{"email": "ceo@example.com", "email_verified": nil}, settings: map[string]any{"getUserInfo": true}},
	} {
		t.Run(name, func(t *testing.T) {
			who, err := login(t, func(op *idptest.OP, settings map[string]any) {
				for k, v := range test.settings {
					settings[k] = v
				}
				op.Forge = func(c map[string]any) {
					for k, v := range test.claims {
						claim(k, v)(c)
					}
				}
				op.Info = func(c map[string]any) {
					for k, v := range test.info {
						claim(k, v)(c)
					}
				}
			})
			if err != nil || who.Email != test.want {
				t.Errorf("%+v, %v; want %q", who, err, test.want)
			}
		})
	}
}

func TestGroupsAreFoundWithinObjects(t *testing.T) { // U33
	who, err := login(t, func(op *idptest.OP, settings map[string]any) {
		op.Claims["realm_access"] = map[string]any{"roles": []any{"admin", 7, "system:masters", "kapis:global:platform-admin"}}
		settings["groupsKey"], settings["groupsPrefix"] = "realm_access.roles", ""
	})
	if err != nil || len(who.Groups) != 1 || who.Groups[0] != "admin" {
		t.Errorf("%+v, %v", who, err)
	}
}
