package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/tools/stack"
)

const mergePatch = "Content-Type: application/merge-patch+json"

// configuration writes the product's configuration file with a section of authentication changed, and returns the file.
func configuration(t *testing.T, change func(authentication map[string]any)) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(product.Dir, "kubesphere.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := yaml.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	change(all["authentication"].(map[string]any))
	if raw, err = yaml.Marshal(all); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubesphere.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// differently starts a replica with a configuration of its own.
func differently(t *testing.T, change func(authentication map[string]any), args ...string) *stack.Replica {
	t.Helper()
	r, err := product.Replica(t.Context(), append(args, "--config="+configuration(t, change))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func issuerOf(authentication map[string]any) map[string]any {
	return authentication["issuer"].(map[string]any)
}

// knows waits until a replica knows a user, and does so without an attempt to log in.
func knows(t *testing.T, base, name string) {
	t.Helper()
	eventually(t, base+" knows "+name, func(ctx context.Context) error {
		a, err := try(ctx, http.MethodGet, base+"/kapis/iam.kubesphere.io/v1beta1/users/"+name+"/loginrecords", nil, bearer(administrator)...)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("%d %s", a.status, clip(a.body))
		}
		return err
	})
}

// over waits until an access token is refused.
func over(t *testing.T, base, access string) {
	t.Helper()
	within(t, revocation, "the token is refused at "+base, func(ctx context.Context) error {
		a, err := try(ctx, http.MethodGet, base+me, nil, bearer(access)...)
		if err == nil && a.status != http.StatusUnauthorized {
			err = fmt.Errorf("%d %s", a.status, clip(a.body))
		}
		return err
	})
}

// ends are the ways in which a session ends, from outside of it.
type end struct {
	name string
	do   func(t *testing.T, user string, in tokens)
}

func ends() []end {
	admins := func() string { return "Authorization: Bearer " + administrator }
	sessions := func(user string) string {
		return issuer + "/kapis/iam.kubesphere.io/v1beta1/users/" + user + "/sessions"
	}
	return []end{
		{"Logout", func(t *testing.T, _ string, in tokens) {
			call(t, http.MethodGet, issuer+"/oauth/logout", nil, bearer(in.Access)...).must(t, http.StatusOK)
		}},
		{"RevokedRefreshToken", func(t *testing.T, _ string, in tokens) { console.revoke(t, in.Refresh).must(t, http.StatusOK) }},
		{"RevokedAccessToken", func(t *testing.T, _ string, in tokens) { console.revoke(t, in.Access).must(t, http.StatusOK) }},
		{"AllRevoked", func(t *testing.T, user string, _ tokens) {
			if a := call(t, http.MethodDelete, sessions(user), nil, admins()); a.status > 299 {
				t.Fatalf("%d %s", a.status, clip(a.body))
			}
		}},
		{"OneRevoked", func(t *testing.T, user string, in tokens) {
			_, body := claims(t, in.Access)
			if a := call(t, http.MethodDelete, sessions(user)+"/"+body["sid"].(string), nil, admins()); a.status > 299 {
				t.Fatalf("%d %s", a.status, clip(a.body))
			}
		}},
		{"ObjectDeleted", func(t *testing.T, _ string, in tokens) {
			_, body := claims(t, in.Access)
			if err := objects.Resource(sessionsResource()).Delete(t.Context(), body["sid"].(string), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
		{"PasswordChanged", func(t *testing.T, user string, _ tokens) { patchUser(t, user, `{"spec":{"password":"Other-1234"}}`) }},
		{"Disabled", func(t *testing.T, user string, _ tokens) {
			call(t, http.MethodPatch, issuer+usersPath+"/"+user+"/status", `{"status":{"state":"Disabled"}}`, mergePatch, admins()).must(t, http.StatusOK)
		}},
		{"Deleted", func(t *testing.T, user string, _ tokens) {
			call(t, http.MethodDelete, issuer+usersPath+"/"+user, nil, admins()).must(t, http.StatusOK)
		}},
		{"DeletedAndMadeAgain", func(t *testing.T, user string, _ tokens) {
			call(t, http.MethodDelete, issuer+usersPath+"/"+user, nil, admins()).must(t, http.StatusOK)
			eventually(t, "another "+user, func(ctx context.Context) error { return makeUser(ctx, user) })
		}},
	}
}

// Every way of ending a session ends its tokens on every replica, on those that start later, and where access tokens live as long as their
// session.
func TestSessionsEndEverywhere(t *testing.T) {
	rule(t, "S34", "S36", "S37", "T9700-9")
	forever := differently(t, func(a map[string]any) { issuerOf(a)["accessTokenMaxAge"] = 0 })
	bases := []string{issuer, replica(t), forever.URL}
	var dead []tokens
	for _, e := range ends() {
		t.Run(e.name, func(t *testing.T) {
			name := newUser(t, "ends")
			knows(t, forever.URL, name)
			in := console.tokenAt(t, forever.URL, "grant_type", "password", "username", name, "password", password).tokens(t)
			if in.ExpiresIn < 300*24*3600 {
				t.Errorf("the access token lives for %d s only", in.ExpiresIn)
			}
			for _, base := range bases {
				aliveAt(t, base, in.Access) // at once: log in at one, ask another
			}
			e.do(t, name, in)
			for _, base := range bases {
				over(t, base, in.Access)
				console.tokenAt(t, base, "grant_type", "refresh_token", "refresh_token", in.Refresh).fails(t, http.StatusBadRequest, "invalid_grant")
			}
			dead = append(dead, in)
		})
	}
	t.Run("AfterARestart", func(t *testing.T) {
		late := differently(t, func(a map[string]any) { issuerOf(a)["accessTokenMaxAge"] = 0 })
		aliveAt(t, late.URL, admin(t))
		for i, in := range dead {
			if a := call(t, http.MethodGet, late.URL+me, nil, bearer(in.Access)...); a.status != http.StatusUnauthorized {
				t.Errorf("after %s: %d", ends()[i].name, a.status)
			}
			console.tokenAt(t, late.URL, "grant_type", "refresh_token", "refresh_token", in.Refresh).fails(t, http.StatusBadRequest, "invalid_grant")
		}
	})
}

// A refresh at one replica is refused at once when the session was ended at another, before its feed tells so.
func TestAnEndedSessionIsNotRefreshedAnywhere(t *testing.T) {
	rule(t, "S36")
	name := newUser(t, "ended")
	other := replica(t)
	for range 5 {
		in := passwordLogin(t, name)
		console.revoke(t, in.Refresh).must(t, http.StatusOK)
		console.tokenAt(t, other, "grant_type", "refresh_token", "refresh_token", in.Refresh).fails(t, http.StatusBadRequest, "invalid_grant")
	}
}

func TestSomebodyMadeAgainIsSomebodyElse(t *testing.T) {
	rule(t, "S37", "TCore-1")
	name := newUser(t, "again")
	b := logIn(t, name)
	got := harbor.ask().tokens(t, b)
	_, before := claims(t, got.ID)
	call(t, http.MethodDelete, issuer+usersPath+"/"+name, nil, "Authorization: Bearer "+admin(t)).must(t, http.StatusOK)
	eventually(t, "another "+name, func(ctx context.Context) error { return makeUser(ctx, name) })
	dead(t, got.Access)
	harbor.refresh(t, got.Refresh).fails(t, http.StatusBadRequest, "invalid_grant")
	b.open(t, harbor.ask().address()).shows(t, http.StatusOK, "Log in")
	_, after := claims(t, harbor.ask().tokens(t, logIn(t, name)).ID)
	if before["sub"] == after["sub"] || before["sub"] == name || after["preferred_username"] != name {
		t.Errorf("before %v, after %v", before["sub"], after["sub"])
	}
}

// S31: a server whose tokens could be guessed does not start. What it signs with otherwise is made at random.
func TestWeakSecretsKeepTheServerFromStarting(t *testing.T) {
	rule(t, "S31", "T8725-2")
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for name, secret := range map[string]string{"Empty": "", "Blank": strings.Repeat(" ", 40), "Short": "0123456789abcdef0123456789abcde",
		"Repeated": strings.Repeat("ab", 32)} {
		t.Run(name, func(t *testing.T) {
			file := configuration(t, func(a map[string]any) {
				issuerOf(a)["jwtSecret"], issuerOf(a)["acceptLegacyTokensUntil"] = secret, until
			})
			r, err := product.Replica(t.Context(), "--config="+file)
			if err == nil {
				_ = r.Stop()
				t.Fatal("it starts")
			}
			if !strings.Contains(err.Error(), "jwtSecret") || secret != "" && strings.TrimSpace(secret) != "" && strings.Contains(err.Error(), secret) {
				t.Errorf("%v", err)
			}
		})
	}
	v := openVault(t)
	if n := v.private.N.BitLen(); n < 2048 {
		t.Errorf("the key has %d bits", n)
	}
}

// S35: what the server makes up has 128 random bits at least, and nothing comes twice.
func TestWhatIsRandomIsRandom(t *testing.T) {
	rule(t, "S35")
	seen := map[string]bool{}
	once := func(kind, value string, least int) {
		if len(value) < least || seen[kind+value] {
			t.Errorf("%s: %q has %d characters, or came before", kind, value, len(value))
		}
		seen[kind+value] = true
	}
	b := here(t)
	letters := map[rune]int{}
	const rounds = 100
	for range rounds {
		a := harbor.device(t).must(t, http.StatusOK)
		once("device code", a.field("device_code"), 22)
		code := strings.ReplaceAll(a.field("user_code"), "-", "")
		once("user code", code, 8)
		for _, c := range code[3:11] {
			letters[c]++
		}
	}
	if len(letters) != 20 || slices.Max(slices.Collect(maps.Values(letters))) > 3*8*rounds/20 {
		t.Errorf("the letters of user codes are not alike: %v", letters)
	}
	for range 20 {
		once("code", harbor.ask().code(t, b), 22)
		_, body := claims(t, portal.token(t, "grant_type", "client_credentials").tokens(t).Access)
		once("jti", body["jti"].(string), 22)
	}
	for range 5 {
		got := harbor.ask("scope", "openid offline_access").tokens(t, b)
		once("refresh token", got.Refresh[strings.LastIndex(got.Refresh, ".")+1:], 43)
		harbor.revoke(t, got.Refresh)
	}
}

// S27: a token of dots costs no more than any other that is as long.
func TestLongTokensCostNothing(t *testing.T) {
	rule(t, "S27")
	allocated := func() float64 {
		a := get(t, "/metrics", admin(t)).must(t, http.StatusOK)
		for line := range strings.Lines(a.body) {
			if value, ok := strings.CutPrefix(line, "go_memstats_alloc_bytes_total "); ok {
				var n float64
				if err := json.Unmarshal([]byte(strings.TrimSpace(value)), &n); err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
		t.Fatal("there is no figure of the memory")
		return 0
	}
	const times, size = 200, 32 << 10
	cost := func(text string) float64 {
		raw := strings.Repeat(text, size/len(text))
		before := allocated()
		for range times {
			if a := get(t, me, raw); a.status != http.StatusUnauthorized && a.status != http.StatusRequestHeaderFieldsTooLarge {
				t.Fatalf("%d %s", a.status, clip(a.body))
			}
		}
		return allocated() - before
	}
	plain, dots := cost("x"), cost(".")
	if dots > 2*plain+times*size {
		t.Errorf("dots cost %.0f bytes, and other text %.0f", dots/times, plain/times)
	}
	if a, err := try(t.Context(), http.MethodGet, issuer+me, nil, bearer(strings.Repeat(".", 1<<20))...); err == nil &&
		a.status != http.StatusRequestHeaderFieldsTooLarge && a.status != http.StatusUnauthorized {
		t.Errorf("a MiB of dots: %d", a.status)
	}
}

// S29: where anonymous requests are answered, a token that somebody made up makes nobody of him.
func TestACraftedTokenIsNobodyWhereAnybodyMayAsk(t *testing.T) {
	rule(t, "S29")
	_, body := claims(t, passwordLogin(t, alice).Access)
	crafted := segments(`{"alg":"none","typ":"at+jwt"}`, claimed(claimed(body, "username", "admin"), "sub", uidOf(t, "admin")), "")
	for _, path := range []string{"/version", "/healthz", "/readyz?verbose", "/oauth/keys", "/.well-known/openid-configuration"} {
		open := get(t, path, "").must(t, http.StatusOK)
		a := get(t, path, crafted)
		if a.status != http.StatusUnauthorized && (a.status != open.status || a.body != open.body) {
			t.Errorf("%s: %d %s", path, a.status, clip(a.body))
		}
	}
	b := newBrowser(t)
	p := b.open(t, "/oauth/account", bearer(crafted)...)
	p.shows(t, http.StatusOK, "Log in")
	call(t, http.MethodGet, issuer+"/oauth/logout", nil, append(bearer(crafted), "Accept: application/json")...)
	alive(t, admin(t))
}
