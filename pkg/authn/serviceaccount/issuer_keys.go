package serviceaccount

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/klog/v2"
)

const (
	// keysLife is how long the cluster's keys are cached, and keysPause the least time between two reads.
	keysLife  = 10 * time.Minute
	keysPause = 15 * time.Second
	// keysTimeout bounds one read.
	keysTimeout = 10 * time.Second
	// maxKeys bounds the keys that are used.
	maxKeys = 64
)

// algorithms are those that a key of the cluster can sign with. All have a public key, so no public key is used as a secret (RFC 8725,
// 3.1).
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// signature is the result of verifying a token's signature.
type signature int

const (
	// unknown means that the cluster does not publish the key, or that no keys are known yet: only kube-apiserver can verify it. The keys
	// may have been rotated, or be those of an external signer or of another replica of kube-apiserver.
	unknown signature = iota
	// genuine means that a key which the cluster publishes made the signature.
	genuine
	// forged means that the token names a key which the cluster publishes, but that key did not sign it.
	forged
)

// cluster is what is known of the tokens that the cluster issues.
type cluster struct {
	keys map[string]jose.JSONWebKey
	// audiences are those of kube-apiserver; none if they are not known.
	audiences []string
}

// signatureOf verifies a token's signature. c may be nil.
func (c *cluster) signatureOf(token string) signature {
	if c == nil || len(c.keys) == 0 {
		return unknown
	}
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return forged // kube-apiserver accepts no other form, and no other algorithm
	}
	k, ok := c.keys[jws.Signatures[0].Header.KeyID]
	switch {
	case !ok:
		return unknown
	case k.Algorithm != "" && k.Algorithm != jws.Signatures[0].Header.Algorithm:
		return forged
	}
	if _, err := jws.Verify(k.Key); err != nil {
		return forged
	}
	return genuine
}

// takes reports whether a token of these audiences can be one for kube-apiserver. One without audiences is of the older kind, which has
// none.
func (c *cluster) takes(audiences []string) bool {
	if c == nil || len(c.audiences) == 0 || len(audiences) == 0 {
		return true
	}
	return slices.ContainsFunc(audiences, func(s string) bool { return slices.Contains(c.audiences, s) })
}

// Run keeps the keys of the cluster up to date until ctx ends.
func (a *Authenticator) Run(ctx context.Context) {
	if a.Keys == nil {
		return
	}
	for {
		life := keysLife
		if err := a.fetchKeys(ctx); err != nil {
			life = 0
			klog.V(2).InfoS("The keys of service accounts' tokens are not known; few of these tokens are verified at a time", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(keysPause):
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(life):
		case <-a.wanted: // a token with an unknown key came
		}
	}
}

// fetchKeys reads the keys, and the audiences of this server's own token, which are those of kube-apiserver.
func (a *Authenticator) fetchKeys(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	raw, err := a.Keys(ctx)
	if err != nil {
		return fmt.Errorf("read the keys of service accounts' tokens from kube-apiserver: %w", err)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return fmt.Errorf("read the keys of service accounts' tokens: %w", err)
	}
	next := &cluster{keys: map[string]jose.JSONWebKey{}}
	for _, one := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var k jose.JSONWebKey
		if json.Unmarshal(one, &k) == nil && k.KeyID != "" && k.Valid() && k.IsPublic() {
			next.keys[k.KeyID] = k
		}
	}
	if a.OwnToken != nil {
		if c, ok := claims(a.OwnToken()); ok {
			next.audiences = c.Audience
		}
	}
	a.cluster.Store(next)
	return nil
}

// want makes Run read the keys again soon.
func (a *Authenticator) want() {
	select {
	case a.wanted <- struct{}{}:
	default:
	}
}
