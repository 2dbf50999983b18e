package identity

import (
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/token"
)

// vault is what the product signs and seals with, as its administrator can read it: of it tests make what nobody can wait for (expired
// tokens and codes), and what somebody who got hold of a part could make.
type vault struct {
	kid     string
	private *rsa.PrivateKey
	*token.KeySet
}

func openVault(t *testing.T) *vault {
	t.Helper()
	secret, err := kube.CoreV1().Secrets(namespace).Get(t.Context(), ringSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := &vault{}
	if v.KeySet, err = token.Decode(secret.Data[ringKey]); err != nil {
		t.Fatal(err)
	}
	var newest time.Time // of those that sign already
	for _, e := range readRing(t).Signing {
		if !e.NotBefore.After(time.Now()) && !e.NotBefore.Before(newest) {
			newest, v.kid, v.private = e.NotBefore, e.ID, e.key(t)
		}
	}
	return v
}

// sealed is a value that the product takes for its own.
func (v *vault) sealed(t *testing.T, purpose token.Purpose, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	out, err := v.Seal(purpose, raw, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// signed is a JWT with the product's own signature.
func (v *vault) signed(t *testing.T, header, payload map[string]any) string {
	t.Helper()
	return sign(t, jwt.SigningMethodRS256, v.private, header, payload)
}

func sign(t *testing.T, method jwt.SigningMethod, key any, header, payload map[string]any) string {
	t.Helper()
	j := jwt.NewWithClaims(method, jwt.MapClaims(payload))
	maps.Copy(j.Header, header)
	j.Header["alg"] = method.Alg()
	s, err := j.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// segments joins a header and claims, as they are, to a JWT with a signature.
func segments(header string, payload map[string]any, signature string) string {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	return b64([]byte(header)) + "." + b64(raw) + "." + signature
}

// claimed returns claims with one of them another; nil takes it out.
func claimed(claims map[string]any, name string, value any) map[string]any {
	out := maps.Clone(claims)
	if out[name] = value; value == nil {
		delete(out, name)
	}
	return out
}
