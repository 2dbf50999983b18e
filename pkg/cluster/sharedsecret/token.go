package sharedsecret

import (
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/apimachinery/pkg/util/validation"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
)

const (
	// life is how long a token counts.
	life = time.Minute
	// accessToken is the kind of token that older releases take from callers.
	accessToken = "access_token"
	// audiencePrefix, followed by the UID of a member's kube-system, is whom a token is for. Members of older releases do not look at it; this
	// server takes no token of such a secret that is for anybody (pkg/authn/legacy).
	audiencePrefix = "kapis:"
)

// Tokens makes the tokens for one member.
type Tokens struct {
	Secret []byte
	// Issuer is the hub's, and Cluster the UID of the member's kube-system.
	Issuer, Cluster string
	Now             func() time.Time
}

type claims struct {
	jwt.RegisteredClaims
	Type     string `json:"token_type"`
	Username string `json:"username"`
}

// For returns a token for a user. A member takes some names for others than users (service accounts have colons in theirs), so that only
// what can be the name of a User gets one.
func (t *Tokens) For(user string) (string, error) {
	if len(validation.IsDNS1123Subdomain(user)) > 0 {
		return "", fmt.Errorf("%.100q can't be the name of a user", user)
	}
	return t.sign(user)
}

// ForHub returns a token in the hub's own name, which no user can have, so that it has no right but those of everybody who has logged in.
func (t *Tokens) ForHub() (string, error) { return t.sign(clusterv1alpha1.HubUser) }

func (t *Tokens) sign(user string) (string, error) {
	now := t.Now()
	s, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{Type: accessToken, Username: user, RegisteredClaims: jwt.RegisteredClaims{
		Issuer: t.Issuer, Subject: user, Audience: jwt.ClaimStrings{audiencePrefix + t.Cluster}, IssuedAt: jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(now.Add(life))}}).SignedString(t.Secret)
	if err != nil {
		return "", fmt.Errorf("sign a token for a member cluster: %w", err)
	}
	return s, nil
}
