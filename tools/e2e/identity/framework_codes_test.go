package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// revocation is how long the end of a session may take to reach every replica.
const revocation = 5 * time.Second

// endsEverywhere waits until an access token opens nothing any more, on any replica.
func endsEverywhere(t *testing.T, access string, bases ...string) {
	t.Helper()
	for _, base := range append(bases, issuer) {
		within(t, revocation, "the session ends at "+base, func(ctx context.Context) error {
			a, err := try(ctx, http.MethodGet, base+me, nil, bearer(access)...)
			if err == nil && a.status != http.StatusUnauthorized {
				err = fmt.Errorf("%d %s", a.status, clip(a.body))
			}
			return err
		})
	}
}

func TestCodesAndTokensCannotBeGuessed(t *testing.T) {
	rule(t, "T6749-13")
	b := here(t)
	const n = 16
	var codes, refreshs, ids []string
	for range n {
		q := harbor.ask()
		code := q.code(t, b)
		got := q.redeem(t, code).tokens(t)
		_, payload := claims(t, got.Access)
		codes, refreshs, ids = append(codes, code), append(refreshs, got.Refresh), append(ids, fmt.Sprint(payload["jti"]))
	}
	// Of n random characters at one place, all are the same in one of 20^15 cases or less.
	for name, c := range map[string]struct {
		values []string
		bits   int // of a character, at least
	}{"codes": {codes, 6}, "refresh tokens": {refreshs, 5}, "names of tokens": {ids, 5}} {
		changing := 0
		for i := range len(c.values[0]) {
			for _, v := range c.values[1:] {
				if i >= len(v) || v[i] != c.values[0][i] {
					changing++
					break
				}
			}
		}
		if changing*c.bits < 128 {
			t.Errorf("%s: %d places change", name, changing)
		}
	}
	q := harbor.ask()
	code := q.code(t, b)
	refresh := harbor.ask().tokens(t, b).Refresh
	storesNothing(t, func() {
		for i := 0; i < len(code); i += max(1, len(code)/24) {
			q.redeem(t, changed(code, i)).fails(t, 400, "invalid_grant")
		}
		for i := 0; i < len(refresh); i += max(1, len(refresh)/24) {
			harbor.refresh(t, changed(refresh, i)).fails(t, 400, "invalid_grant")
		}
		q.redeem(t, code+"A").fails(t, 400, "invalid_grant")
		q.redeem(t, code[:len(code)-1]).fails(t, 400, "invalid_grant")
	})
	q.redeem(t, code).tokens(t)
	harbor.refresh(t, refresh).tokens(t) // attempts that were made up end nothing
}

// changed replaces one character by another.
func changed(s string, i int) string {
	other := "A"
	if s[i] == 'A' {
		other = "B"
	}
	return s[:i] + other + s[i+1:]
}

func TestCodesAreShortLived(t *testing.T) {
	rule(t, "T6749-14")
	b := logIn(t, bob)
	b.via = strict(t) // its codes are good for briefLife
	q := harbor.ask()
	begin := time.Now()
	code := q.code(t, b)
	wrong := func(ctx context.Context) error { // what is judged after the time
		a, err := try(ctx, http.MethodPost, issuer+"/oauth/token", q.redemption(code, "code_verifier", random()))
		if err == nil && !strings.Contains(a.field("error_description"), "expired") {
			err = fmt.Errorf("%d %s", a.status, a.body)
		}
		return err
	}
	if err := wrong(t.Context()); err == nil && time.Since(begin) < briefLife {
		t.Error("the code was never good")
	}
	within(t, briefLife+10*time.Second, "the code expires", wrong)
	storesNothing(t, func() { q.redeem(t, code).fails(t, 400, "invalid_grant") })
}

// T6749-14: ten minutes and a second after it was made no code is good, whatever is configured. What nobody can wait for is made with the product's own
// keys: the code of a moment ago, with the times that it had if it were older.
func TestNoCodeIsGoodAfterTenMinutes(t *testing.T) {
	rule(t, "T6749-14")
	const limit, purpose = 10 * time.Minute, "code"
	file := configuration(t, func(a map[string]any) { a["issuer"].(map[string]any)["authorizationCodeMaxAge"] = "10m" })
	longest, err := product.Replica(t.Context(), "--config="+file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(longest.Kill)
	v := openVault(t)
	b := logIn(t, bob)
	b.via = longest.URL
	aged := func(by time.Duration) (*request, string) {
		q := harbor.ask()
		raw, err := v.Open(purpose, q.code(t, b), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var c map[string]any
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		end, err := time.Parse(time.RFC3339Nano, c["e"].(string))
		if left := time.Until(end); err != nil || left > limit || left < limit-patience {
			t.Fatalf("a code is good until %v: %v", c["e"], err)
		}
		c["e"] = end.Add(-by).Format(time.RFC3339Nano)
		return q, v.sealed(t, purpose, c)
	}
	q, young := aged(limit - patience)
	q.redeem(t, young).tokens(t)
	q, old := aged(limit + time.Second)
	storesNothing(t, func() { q.redeem(t, old).fails(t, 400, "invalid_grant") })
	if r, err := product.Replica(t.Context(), "--config="+configuration(t, func(a map[string]any) {
		a["issuer"].(map[string]any)["authorizationCodeMaxAge"] = "10m1s"
	})); err == nil {
		r.Kill()
		t.Error("a server starts whose codes are good for longer")
	}
}

func TestCodesAreUsedOnce(t *testing.T) {
	rule(t, "T6749-15")
	other := replica(t)
	b := here(t)
	t.Run("OneAfterTheOther", func(t *testing.T) {
		q := harbor.ask()
		code := q.code(t, b)
		got := q.redeem(t, code).tokens(t)
		alive(t, got.Access)
		storesNothing(t, func() { q.redeem(t, code).fails(t, 400, "invalid_grant") })
		dead(t, got.Access) // at once where the code came in again
		endsEverywhere(t, got.Access, other)
		harbor.refresh(t, got.Refresh).fails(t, 400, "invalid_grant")
		q.redeem(t, code).fails(t, 400, "invalid_grant")
	})
	t.Run("OnAnotherReplica", func(t *testing.T) {
		q := desk.ask()
		code := q.code(t, b)
		got := q.redeem(t, code).tokens(t)
		storesNothing(t, func() {
			call(t, http.MethodPost, other+"/oauth/token", q.redemption(code)).fails(t, 400, "invalid_grant")
		})
		endsEverywhere(t, got.Access, other)
	})
	t.Run("FiftyAtOnce", func(t *testing.T) {
		q := harbor.ask()
		code := q.code(t, b)
		before := stored(t)
		answers := make([]answer, 50)
		var all sync.WaitGroup
		for i := range answers {
			base := []string{issuer, other}[i%2]
			all.Go(func() {
				var err error
				if answers[i], err = try(t.Context(), http.MethodPost, base+"/oauth/token", q.redemption(code)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var won []answer
		for _, a := range answers {
			if a.status == http.StatusOK {
				won = append(won, a)
			} else {
				a.fails(t, 400, "invalid_grant")
			}
		}
		if len(won) != 1 {
			t.Fatalf("%d of 50 got tokens", len(won))
		}
		if got := added(t, before, "sessions"); len(got) > 1 {
			t.Errorf("stored %v", got)
		}
		endsEverywhere(t, won[0].tokens(t).Access, other)
	})
}

func TestCodesAreBoundToClientAndAddress(t *testing.T) {
	rule(t, "T6749-16", "T6749-17")
	b := here(t)
	for name, c := range map[string]struct {
		request *request
		as      client
		change  []string
	}{
		"AnotherClient":                  {harbor.ask(), portal, nil},
		"AnotherClientWithItsAddress":    {harbor.ask(), portal, []string{"redirect_uri", portal.RedirectURIs[0]}},
		"APublicClient":                  {harbor.ask(), desk, nil},
		"APublicClientsByOneWithASecret": {desk.ask(), harbor, nil},
		"AnotherRegisteredAddress":       {portal.ask(), portal, []string{"redirect_uri", portal.RedirectURIs[1]}},
		"NoAddress":                      {portal.ask(), portal, []string{"redirect_uri", ""}},
		"AnAddressInOtherLetters":        {portal.ask(), portal, []string{"redirect_uri", "https://PORTAL.example/cb"}},
		"AnAddressWithoutItsQuery":       {portal.ask("redirect_uri", portal.RedirectURIs[1]), portal, []string{"redirect_uri", portal.RedirectURIs[0]}},
		"AnotherLoopbackPort":            {desk.ask("redirect_uri", "http://127.0.0.1:1234/cb"), desk, []string{"redirect_uri", "http://127.0.0.1:1235/cb"}},
	} {
		t.Run(name, func(t *testing.T) {
			code := c.request.code(t, b)
			form := c.request.redemption(code, c.change...)
			form.Del("client_secret")
			for k, v := range c.as.form() {
				form[k] = v
			}
			storesNothing(t, func() { call(t, http.MethodPost, issuer+"/oauth/token", form).fails(t, 400, "invalid_grant") })
			// Who steals a code and can't use it does not take it from whom it is for either.
			alive(t, c.request.redeem(t, code).tokens(t).Access)
		})
	}
	t.Run("WithoutOneInTheRequestNoneIsNeeded", func(t *testing.T) {
		q := harbor.ask("redirect_uri", "")
		q.redeem(t, q.code(t, b)).tokens(t)
		q = harbor.ask("redirect_uri", "")
		code := q.code(t, b)
		storesNothing(t, func() { q.redeem(t, code, "redirect_uri", "https://evil.example/cb").fails(t, 400, "invalid_grant") })
	})
	t.Run("ACodeOfNobody", func(t *testing.T) { // logged out before the code was redeemed
		q := harbor.ask()
		gone := logIn(t, bob)
		code := q.code(t, gone)
		p := gone.open(t, "/oauth/logout").shows(t, http.StatusOK, "Log out?")
		gone.submit(t, p, "answer", "yes")
		storesNothing(t, func() { q.redeem(t, code).fails(t, 400, "invalid_grant") })
	})
}
