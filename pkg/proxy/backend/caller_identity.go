package backend

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/recent"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// tokenLife is how long a token for a backend is good; it is used for the first half of that.
	tokenLife = 5 * time.Minute
	// tokensKept bounds those that are in memory.
	tokensKept = 8192
)

// identity tells backends the caller of a request.
type identity struct {
	issuer *token.Issuer
	now    func() time.Time
	groups func(user.Info) []string // nil for all

	mu   sync.Mutex
	made *recent.Map[[sha256.Size]byte, madeToken]
}

type madeToken struct {
	text  string
	until time.Time
}

func newIdentity(o *Options) *identity {
	return &identity{issuer: o.Issuer, now: o.Now, groups: o.GroupsOf, made: recent.NewMap[[sha256.Size]byte, madeToken](tokensKept)}
}

// name sets the headers X-Remote-* of a request for a backend.
func (b *identity) name(h http.Header, u user.Info) {
	if !relay.Survives(u.GetName()) {
		return
	}
	h["X-Remote-User"] = []string{u.GetName()}
	if uid := u.GetUID(); uid != "" && relay.Survives(uid) {
		h["X-Remote-Uid"] = []string{uid}
	}
	if groups := b.shownGroups(u); len(groups) > 0 {
		h["X-Remote-Group"] = groups
	}
}

// shownGroups are the groups that a backend is told.
func (b *identity) shownGroups(u user.Info) (out []string) {
	all := u.GetGroups()
	if b.groups != nil {
		all = b.groups(u)
	}
	for _, g := range all {
		if relay.Assertable(g) {
			out = append(out, g)
		}
	}
	return out
}

// bearer returns the token that the backend gets: the caller's access token where that was approved, or else one that says who asks; "" for
// none. Keys, whose life is long, and all other credentials than access tokens of this server stay here.
func (c *call) bearer(ctx context.Context) (string, error) {
	d := c.backend.Directives
	if d != nil && d.Unauthorized() {
		return "", nil
	}
	if c.backend.Forwards && session.Of(c.user) != nil {
		if own := request.BearerTokenFrom(ctx); own != "" { // else it was in the console's cookie
			return own, nil
		}
	}
	if d != nil && !d.AuthProxy {
		return "", nil
	}
	return c.who.token(c.user, c.backend.Audience)
}

// token returns the token that names the caller to the backend of an audience; "" for a caller without an identity of this server.
func (b *identity) token(u user.Info, audience string) (string, error) {
	if u.GetUID() == "" || strings.HasPrefix(u.GetName(), "system:") {
		return "", nil
	}
	t := token.Backend{Subject: u.GetUID(), Username: u.GetName(), Groups: b.shownGroups(u), Audience: audience}
	if s := session.Of(u); s != nil {
		t.Session = s.Name
	}
	key := keyOf(append([]string{t.Subject, t.Username, t.Session, t.Audience}, t.Groups...))
	now := b.now()
	b.mu.Lock()
	is, ok := b.made.Use(key)
	b.mu.Unlock()
	if ok && now.Before(is.until) {
		return is.text, nil
	}
	t.Issued, t.Expires = now.Truncate(time.Second), now.Truncate(time.Second).Add(tokenLife)
	text, err := b.issuer.Backend(&t) // outside of the lock: two for one caller do no harm
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made.Set(key, madeToken{text, now.Add(tokenLife / 2)})
	return text, nil
}

// keyOf is a digest of texts, each with its length before it.
func keyOf(texts []string) [sha256.Size]byte {
	var all []byte
	for _, t := range texts {
		all = append(binary.AppendUvarint(all, uint64(len(t))), t...)
	}
	return sha256.Sum256(all)
}
