// Package join is how a member cluster joins a fleet: what is sent, and the tokens that let it in.
package join

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// PathJoin takes a Request.
	PathJoin = "/fleet/join"
	// PathLinks is followed by the UID of a Cluster, and becomes a link.
	PathLinks = "/fleet/links/"
	// HeaderReplica names, in the answer to who links, the replica of the hub.
	HeaderReplica = "X-Kapis-Replica"
	// HeaderReplicas says how many there are.
	HeaderReplicas = "X-Kapis-Replicas"
	// MaxRequest bounds the body of a Request, in bytes.
	MaxRequest = 32 << 10

	// life is how long a token counts at most. It is the same one for half of that, so that who asks again sees what is in use.
	life = 30 * time.Minute
	// prefix begins tokens, so that scanners of secrets find them.
	prefix = "ksj_"
)

// Request asks to join, or for the next certificate.
type Request struct {
	// Token is a token for one Cluster; "" for who has joined and renews.
	Token string `json:"token,omitempty"`
	// CSR is a certificate request (PKCS #10, RFC 2986), in PEM, for a key on the curve P-256. Its names are not read.
	CSR string `json:"csr"`
	// Certificate is the current one, in PEM, and Signature that of its key (ECDSA, ASN.1, base64) on the SHA-256 of CSR: for who renews.
	Certificate string `json:"certificate,omitempty"`
	Signature   string `json:"signature,omitempty"`
	// UID is that of the namespace kube-system, and the versions are those of Kubernetes and of this software.
	UID               string `json:"uid"`
	KubernetesVersion string `json:"kubernetesVersion"`
	Version           string `json:"version"`
}

// Answer lets a member in.
type Answer struct {
	// Cluster is the name of the Cluster, and UID its UID.
	Cluster string `json:"cluster"`
	UID     string `json:"uid"`
	// Certificate is the member's, and Authorities are those of the fleet, in PEM.
	Certificate string `json:"certificate"`
	Authorities string `json:"authorities"`
}

var (
	// ErrInvalid says that a token is none of this hub's, or that it is over.
	ErrInvalid = errors.New("the join token is not one of this hub, or its time is over: ask for a new one")
)

// Tokens issues and verifies join tokens. It stores nothing: they are made by a key.
type Tokens struct {
	// Key returns the key of all replicas.
	Key func() ([]byte, error)
	Now func() time.Time
}

// Issue returns the token of the Cluster with a UID, and when it ends.
func (t Tokens) Issue(uid string) (token string, ends time.Time, err error) {
	ends = t.Now().Truncate(life / 2).Add(life)
	payload := base64.RawURLEncoding.EncodeToString([]byte(uid + " " + strconv.FormatInt(ends.Unix(), 10)))
	mac, err := t.mac(payload)
	if err != nil {
		return "", time.Time{}, err
	}
	return prefix + payload + "." + base64.RawURLEncoding.EncodeToString(mac), ends, nil
}

// Verify returns the UID of the Cluster that a token is for. Its errors are ErrInvalid and that of the key.
func (t Tokens) Verify(token string) (uid string, err error) {
	rest, found := strings.CutPrefix(token, prefix)
	payload, text, cut := strings.Cut(rest, ".")
	got, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !found || !cut || err != nil {
		return "", ErrInvalid
	}
	want, err := t.mac(payload)
	if err != nil {
		return "", err
	}
	if !hmac.Equal(got, want) {
		return "", ErrInvalid
	}
	said, err := base64.RawURLEncoding.DecodeString(payload) // this server's own from here on
	if err != nil {
		return "", ErrInvalid
	}
	uid, ends, _ := strings.Cut(string(said), " ")
	n, err := strconv.ParseInt(ends, 10, 64)
	if err != nil || !t.Now().Before(time.Unix(n, 0)) {
		return "", ErrInvalid
	}
	return uid, nil
}

func (t Tokens) mac(payload string) ([]byte, error) {
	key, err := t.Key()
	if err != nil {
		return nil, fmt.Errorf("make or verify a join token: %w", err)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(payload))
	return h.Sum(nil), nil
}

// Used returns the hash by which a used token is remembered.
func Used(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
