package token

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// MaxSize is the longest token, in bytes, that is parsed at all.
const MaxSize = 8 << 10

// ErrInvalid is the error of a Verifier, whatever the reason.
var ErrInvalid = errors.New("the token is not valid")

// Rules are what a Verifier expects of a token.
type Rules struct {
	Keys KeySource
	// Issuer is the iss, and Audience the aud of access tokens for the API. Those for the userinfo endpoint have the UserInfo of the Issuer.
	Issuer, Audience string
	// Leeway is how far the clock of the replica that signed may differ from this one's.
	Leeway time.Duration
	// Now returns the time.
	Now func() time.Time
	// CacheSize is how many verified access tokens are cached; 0 for none.
	CacheSize int
	// Metrics gets the verifier's counters; nil for none.
	Metrics prometheus.Registerer
}

// Verifier verifies that a token was signed by this server, and is of the right kind and time. It does not check that the token's session
// still lives.
type Verifier struct {
	rules            Rules
	access, identity *jwt.Parser
	cache            *verified
	hits, misses     prometheus.Counter
}

// NewVerifier returns a Verifier. It fails if the rules would accept every token.
func NewVerifier(r Rules) (*Verifier, error) {
	if r.Issuer == "" || r.Audience == "" {
		return nil, errors.New("verify tokens: an issuer and an audience are needed (authentication.issuer.url)")
	}
	v := &Verifier{
		rules: r,
		cache: newVerified(r.CacheSize),
		access: jwt.NewParser(jwt.WithValidMethods([]string{Algorithm}), jwt.WithStrictDecoding(), jwt.WithTimeFunc(r.Now),
			jwt.WithLeeway(r.Leeway), jwt.WithIssuer(r.Issuer), jwt.WithAudience(r.Audience, UserInfo(r.Issuer)),
			jwt.WithExpirationRequired(), jwt.WithIssuedAt()),
		identity: jwt.NewParser(jwt.WithValidMethods([]string{Algorithm}), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation()),
		hits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ks_token_cache_hits_total", Help: "Access tokens found verified already."}),
		misses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ks_token_cache_misses_total", Help: "Access tokens whose signature had to be verified."}),
	}
	if r.Metrics != nil {
		for _, c := range []prometheus.Collector{v.hits, v.misses} {
			if err := r.Metrics.Register(c); err != nil {
				return nil, fmt.Errorf("register metrics of the token verifier: %w", err)
			}
		}
	}
	return v, nil
}

// Access verifies an access token for the API (RFC 9068, 4). The result is shared: callers must not change it. Its Display is empty.
func (v *Verifier) Access(s string) (*Access, error) {
	a, err := v.Issued(s)
	if err != nil {
		return nil, err
	}
	if a.Audience != v.rules.Audience {
		return nil, invalid("it is for the userinfo endpoint only: the scopeRestrictions of the OAuth client %q lack api", a.Client)
	}
	return a, nil
}

// Issued verifies an access token for the API or for the userinfo endpoint, for callers that introspect or revoke it; it gives no access.
// The result is as that of Access.
func (v *Verifier) Issued(s string) (*Access, error) {
	if len(s) > MaxSize {
		return nil, invalid("it has %d bytes; %d are the most", len(s), MaxSize)
	}
	set := v.rules.Keys.KeySet()
	if e, ok := v.cache.get(s, set); ok {
		v.hits.Inc()
		return v.again(e)
	}
	v.misses.Inc()
	if strings.ContainsAny(s, "\r\n") { // base64 skips line ends, so that one token would have many spellings
		return nil, invalid("it has line ends")
	}
	var c accessClaims
	t, err := v.access.ParseWithClaims(s, &c, v.key(set, typeAccess))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if c.Subject == "" || c.Username == "" || c.ClientID == "" || c.Session == "" || c.ID == "" || c.IssuedAt == nil {
		return nil, invalid("it lacks one of sub, username, client_id, sid, jti, iat")
	}
	a := &Access{
		Audience: UserInfo(v.rules.Issuer),
		ID:       c.ID, Subject: c.Subject, Username: c.Username, Client: c.ClientID, Session: c.Session,
		Scopes: strings.Fields(c.Scope), Issued: c.IssuedAt.Time, Expires: c.ExpiresAt.Time,
	}
	if slices.Contains(c.Audience, v.rules.Audience) { // it may be for others besides (RFC 9068, 4)
		a.Audience = v.rules.Audience
	}
	kid, _ := t.Header["kid"].(string)
	v.cache.put(s, entry{access: a, set: set, retire: set.byID[kid].Retire})
	return a, nil
}

// again verifies of a verified token what may have changed since: the time.
func (v *Verifier) again(e entry) (*Access, error) {
	now := v.rules.Now()
	if !now.Before(e.access.Expires.Add(v.rules.Leeway)) {
		return nil, invalid("it has expired")
	}
	if !alive(time.Time{}, e.retire, now) {
		return nil, invalid("its key is retired")
	}
	return e.access, nil
}

// Identity verifies an ID token that comes back as a hint about whose session is meant. An expired one is good for that (OpenID Connect
// RP-Initiated Logout 1.0, 2).
func (v *Verifier) Identity(s string) (*Identity, error) {
	if len(s) > MaxSize {
		return nil, invalid("it has %d bytes; %d are the most", len(s), MaxSize)
	}
	var c identityClaims
	if _, err := v.identity.ParseWithClaims(s, &c, v.key(v.rules.Keys.KeySet(), typeIdentity)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if c.Issuer != v.rules.Issuer || c.Subject == "" || len(c.Audience) != 1 || c.IssuedAt == nil {
		return nil, invalid("it is no ID token of this issuer")
	}
	id := &Identity{Subject: c.Subject, Client: c.Audience[0], Session: c.Session, Issued: c.IssuedAt.Time,
		Username: c.Username, Name: c.Name, Email: c.Email, Locale: c.Locale}
	if c.ExpiresAt != nil {
		id.Expires = c.ExpiresAt.Time
	}
	if c.Authenticated != nil {
		id.Authenticated = c.Authenticated.Time
	}
	return id, nil
}

// key finds the key by the kid, in our own set only: no jwk, jku or x5c of the token is used.
func (v *Verifier) key(set *KeySet, typ string) jwt.Keyfunc {
	return func(t *jwt.Token) (any, error) {
		if got, _ := t.Header["typ"].(string); !sameType(got, typ) {
			return nil, errors.New("it is a token of another kind")
		}
		if _, ok := t.Header["crit"]; ok { // RFC 7515, 4.1.11: no extension is understood here
			return nil, errors.New("it has critical extensions")
		}
		id, _ := t.Header["kid"].(string)
		k := set.verifier(id, v.rules.Now())
		if k == nil {
			return nil, errors.New("it is signed with a key that is not, or no longer, ours")
		}
		return &k.Private.PublicKey, nil
	}
}

// sameType compares media types, whose "application/" may be left out (RFC 7515, 4.1.9).
func sameType(got, want string) bool {
	return slices.ContainsFunc([]string{want, "application/" + want}, func(s string) bool { return strings.EqualFold(s, got) })
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
