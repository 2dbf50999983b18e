package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The Secret that the replicas share their keys through.
const (
	ringSecret = "ks-apiserver-signing-keys"
	ringKey    = "keyring.json"
)

// ring is what stands in that Secret.
type ring struct {
	Signing []ringEntry     `json:"signing"`
	MAC     json.RawMessage `json:"mac"`
}

type ringEntry struct {
	ID         string     `json:"id"`
	Algorithm  string     `json:"algorithm"`
	PrivateKey string     `json:"privateKey"`
	Created    time.Time  `json:"created"`
	NotBefore  time.Time  `json:"notBefore"`
	Retire     *time.Time `json:"retire,omitempty"`
}

func readRing(t *testing.T) ring {
	t.Helper()
	secret, err := kube.CoreV1().Secrets(namespace).Get(t.Context(), ringSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var r ring
	if err := json.Unmarshal(secret.Data[ringKey], &r); err != nil || len(r.Signing) == 0 {
		t.Fatalf("the signing keys can't be read: %v", err)
	}
	return r
}

// write replaces the keys, as a replica that rotates them does.
func (r ring) write(t *testing.T) {
	t.Helper()
	secret, err := kube.CoreV1().Secrets(namespace).Get(t.Context(), ringSecret, metav1.GetOptions{})
	if err == nil {
		if secret.Data[ringKey], err = json.Marshal(r); err == nil {
			_, err = kube.CoreV1().Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (e ringEntry) key(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	block, _ := pem.Decode([]byte(e.PrivateKey))
	if block == nil {
		t.Fatal("a signing key is no PEM")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return k.(*rsa.PrivateKey)
}

// newEntry makes a key that signs from then on.
func newEntry(t *testing.T, id string, from time.Time) ringEntry {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return ringEntry{ID: id, Algorithm: "RS256", PrivateKey: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		Created: time.Now().UTC().Truncate(time.Second), NotBefore: from.UTC().Truncate(time.Second)}
}

// forger makes tokens like a good one, with the very key that the product signs with.
type forger struct {
	header, claims map[string]any
	key            *rsa.PrivateKey
}

// forge begins with a token of the product.
func forge(t *testing.T, access string) *forger {
	t.Helper()
	f := &forger{}
	f.header, f.claims = claims(t, access)
	for _, e := range readRing(t).Signing {
		if e.ID == f.header["kid"] {
			f.key = e.key(t)
		}
	}
	if f.key == nil {
		t.Fatalf("the key %v is not in the Secret", f.header["kid"])
	}
	return f
}

// token signs the token with changes: pairs of names and values, where nil takes a claim or a header out. Headers have a name that begins with "#".
func (f *forger) token(t *testing.T, pairs ...any) string {
	t.Helper()
	return f.signed(t, jwt.SigningMethodRS256, f.key, pairs...)
}

func (f *forger) signed(t *testing.T, method jwt.SigningMethod, key any, pairs ...any) string {
	t.Helper()
	header, payload := maps.Clone(f.header), jwt.MapClaims(maps.Clone(f.claims))
	header["alg"] = method.Alg()
	for pair := range slices.Chunk(pairs, 2) {
		into, name := map[string]any(payload), pair[0].(string)
		if name[0] == '#' {
			into, name = header, name[1:]
		}
		if into[name] = pair[1]; pair[1] == nil {
			delete(into, name)
		}
	}
	token := &jwt.Token{Header: header, Claims: payload, Method: method}
	s, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
