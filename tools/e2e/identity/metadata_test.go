package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	openidDocument = "/.well-known/openid-configuration"
	oauthDocument  = "/.well-known/oauth-authorization-server"
)

func document(t *testing.T, base, path string, headers ...string) map[string]any {
	t.Helper()
	a := call(t, http.MethodGet, base+path, nil, headers...).must(t, 200)
	if kind := a.header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		t.Errorf("%s is of type %q", path, kind)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(a.body), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// texts is a list of the document.
func texts(doc map[string]any, name string) []string {
	var out []string
	list, _ := doc[name].([]any)
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

func TestThereIsOneIssuer(t *testing.T) {
	rule(t, "T8414-1")
	u, err := url.Parse(issuer)
	if err != nil || u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(issuer, "/") {
		t.Fatalf("%v %v", u, err)
	}
	for _, path := range []string{openidDocument, oauthDocument} {
		for _, base := range []string{issuer, product.URL, replica(t)} {
			if got := document(t, base, path)["issuer"]; got != issuer {
				t.Errorf("%s%s says %v", base, path, got)
			}
		}
		if got := document(t, issuer, path, "Host: evil.example", "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: http")["issuer"]; got != issuer {
			t.Errorf("a caller makes it %v", got)
		}
	}
	q := harbor.ask()
	p := here(t).open(t, q.address())
	if got := p.leads(t, q.redirect()); got.Get("iss") != issuer {
		t.Errorf("the answer says %v", got)
	}
	got := q.redeem(t, q.landed(t, p)).tokens(t)
	for name, token := range map[string]string{"access": got.Access, "ID": got.ID} {
		if _, payload := claims(t, token); payload["iss"] != issuer {
			t.Errorf("the %s token says %v", name, payload["iss"])
		}
	}
	if at := harbor.device(t).field("verification_uri"); !strings.HasPrefix(at, issuer+"/") {
		t.Errorf("devices show %q", at)
	}
	fromReplica := console.tokenAt(t, replica(t), "grant_type", "password", "username", bob, "password", password).tokens(t)
	if _, payload := claims(t, fromReplica.Access); payload["iss"] != issuer {
		t.Errorf("the replica says %v", payload["iss"])
	}
}

func TestBothDocumentsAreServed(t *testing.T) {
	rule(t, "T8414-2")
	one, other := document(t, issuer, openidDocument), document(t, issuer, oauthDocument)
	if fmt.Sprint(one) != fmt.Sprint(other) {
		t.Errorf("they differ:\n%v\n%v", one, other)
	}
	// Of an issuer with a path the document of RFC 8414 stands behind the well-known path, too (3.1).
	for _, path := range []string{openidDocument, oauthDocument, oauthDocument + strictPath} {
		if got := document(t, strict(t), path)["issuer"]; got != issuer+strictPath {
			t.Errorf("%s says %v", path, got)
		}
	}
	get(t, oauthDocument+"/elsewhere", "").is(t, 404)
}

func TestDocumentsAreComplete(t *testing.T) {
	rule(t, "T8414-3", "TDisc-1")
	doc := document(t, issuer, openidDocument)
	for _, name := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "revocation_endpoint", "introspection_endpoint",
		"device_authorization_endpoint", "end_session_endpoint"} {
		if at, _ := doc[name].(string); !strings.HasPrefix(at, issuer+"/oauth/") {
			t.Errorf("%s is %q", name, at)
		}
	}
	for name, least := range map[string]string{"response_types_supported": "code", "subject_types_supported": "public",
		"id_token_signing_alg_values_supported": "RS256",
		"scopes_supported":                      "openid", "grant_types_supported": "authorization_code", "claims_supported": "sub",
		"token_endpoint_auth_methods_supported": "client_secret_basic",
		"code_challenge_methods_supported":      "S256"} {
		if !slices.Contains(texts(doc, name), least) {
			t.Errorf("%s is %v", name, doc[name])
		}
	}
	for name, value := range doc {
		if list, ok := value.([]any); ok && len(list) == 0 || value == nil || value == "" {
			t.Errorf("%s is empty", name)
		}
	}
	if slices.Contains(texts(doc, "id_token_signing_alg_values_supported"), "none") || doc["request_uri_parameter_supported"] != false {
		t.Errorf("%v", doc)
	}
}

func TestKeysArePublicAndUnique(t *testing.T) {
	rule(t, "TDisc-2")
	seen := map[any]bool{}
	for _, k := range publicKeys(t, issuer) {
		for name := range k {
			if !slices.Contains([]string{"use", "kty", "kid", "alg", "n", "e"}, name) {
				t.Errorf("a key has %q", name)
			}
		}
		if seen[k["kid"]] || k["kid"] == "" {
			t.Errorf("two keys are called %v", k["kid"])
		}
		seen[k["kid"]] = true
	}
}

func TestKeysRotateWithoutAFailure(t *testing.T) {
	rule(t, "TDisc-2")
	third := guarded(t)
	t.Cleanup(third.Kill)
	bases := []string{issuer, replica(t), third.URL}
	old := harbor.ask().tokens(t, here(t))
	oldHeader, _ := claims(t, old.Access)
	r := readRing(t)
	next := newEntry(t, "rotated-by-a-test", time.Now().Add(time.Hour))
	end := next.NotBefore.Add(40 * 24 * time.Hour)
	for i := range r.Signing {
		r.Signing[i].Retire = &end
	}
	r.Signing = append(r.Signing, next)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var failures, verified atomic.Int64
	var byNext [3]atomic.Int64
	var load sync.WaitGroup
	for i, base := range bases {
		load.Go(func() {
			for ctx.Err() == nil {
				a, err := try(ctx, http.MethodPost, base+"/oauth/token", harbor.form("grant_type", "client_credentials"))
				if err != nil || a.status != http.StatusOK {
					continue // no verification
				}
				access := a.field("access_token")
				if strings.Contains(keyOf(access), next.ID) {
					byNext[i].Add(1)
				}
				for _, at := range bases {
					for _, token := range []string{access, old.Access} {
						a, err := try(ctx, http.MethodGet, at+me, nil, bearer(token)...)
						if err == nil && a.status != http.StatusOK {
							failures.Add(1)
							t.Errorf("%s refuses a token of %s: %d", at, base, a.status)
						}
						verified.Add(1)
					}
				}
			}
		})
	}
	r.write(t)
	eventually(t, "all servers know the new key", func(ctx context.Context) error { // for which they have 15 minutes in earnest
		for _, base := range bases {
			if a, err := try(ctx, http.MethodGet, base+"/oauth/keys", nil); err != nil || !strings.Contains(a.body, next.ID) {
				return fmt.Errorf("%s: %d %s %w", base, a.status, clip(a.body), err)
			}
		}
		return nil
	})
	r.Signing[len(r.Signing)-1].NotBefore = time.Now().UTC().Truncate(time.Second)
	r.write(t)
	eventually(t, "all servers sign with the new key", func(context.Context) error {
		if one, two, three := byNext[0].Load(), byNext[1].Load(), byNext[2].Load(); one < 5 || two < 5 || three < 5 {
			return fmt.Errorf("%d, %d and %d tokens so far", one, two, three)
		}
		return nil
	})
	stop()
	load.Wait()
	if failures.Load() > 0 || verified.Load() < 40 {
		t.Errorf("%d of %d verifications failed", failures.Load(), verified.Load())
	}
	var kids []string
	for _, k := range publicKeys(t, issuer) {
		kids = append(kids, fmt.Sprint(k["kid"]))
	}
	if !slices.Contains(kids, next.ID) || !slices.Contains(kids, fmt.Sprint(oldHeader["kid"])) {
		t.Errorf("published are %v", kids)
	}
	harbor.refresh(t, old.Refresh).tokens(t)
	if a := harbor.introspect(t, old.Access); a.object()["active"] != true {
		t.Errorf("a token of the old key: %s", a.body)
	}
}

// keyOf is the header of a token, as text.
func keyOf(token string) string {
	header, _, _ := strings.Cut(token, ".")
	return decoded(header)
}
