package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/tools/stack"
)

// guarded is a replica that believes this machine where requests come from, so that tests can come from many places.
func guarded(t *testing.T) *stack.Replica {
	t.Helper()
	r, err := product.Replica(t.Context(), "--config="+configuration(t, func(a map[string]any) { a["trustedProxies"] = []string{"127.0.0.1"} }))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// attempt tries a password from a place.
func attempt(ctx context.Context, base, place, name, pass string) (answer, error) {
	return try(ctx, http.MethodPost, base+"/oauth/token", console.form("grant_type", "password", "username", name, "password", pass),
		"X-Forwarded-For: "+place)
}

var lockouts = schema.GroupVersionResource{Group: "session.kapis.dev", Version: "v1alpha1", Resource: "lockouts"}

var comparisons = regexp.MustCompile(`(?m)^ks_password_checks_total\{result="([a-z]+)"\} ([0-9]+)$`)

// compared returns how many passwords the servers have compared with a hash so far, whatever came of it.
func compared(t *testing.T, bases ...string) (n int) {
	t.Helper()
	for _, base := range bases {
		a := call(t, http.MethodGet, base+"/metrics", nil, bearer(admin(t))...).must(t, http.StatusOK)
		for _, found := range comparisons.FindAllStringSubmatch(a.body, -1) {
			if found[1] == "wrong" || found[1] == "ok" || found[1] == "suspended" {
				count, err := strconv.Atoi(found[2])
				if err != nil {
					t.Fatal(err)
				}
				n += count
			}
		}
	}
	return n
}

// S47: of many wrong passwords at two servers at once five are compared; it stays so after a crash; others are not held up, the person
// himself elsewhere is not, and no crowd of names makes it forgotten.
func TestGuessingIsLimitedOnAllServers(t *testing.T) {
	rule(t, "S47", "T6749-23")
	const tries, guesses, attacker = 5, 10_000, "203.0.113.7"
	a, b := guarded(t), guarded(t)
	t.Cleanup(func() {
		a.Kill()
		b.Kill()
	})
	name := newUser(t, "victim")
	knows(t, a.URL, name)
	knows(t, b.URL, name)
	before := compared(t, a.URL, b.URL)
	var wg sync.WaitGroup
	work := make(chan int)
	for range 128 { // a refusal takes 300 ms, whatever was wrong
		wg.Go(func() {
			for i := range work {
				got, err := attempt(t.Context(), []string{a.URL, b.URL}[i%2], attacker, name, fmt.Sprint("Wrong-", i))
				if err != nil || got.status == http.StatusOK || got.status == http.StatusBadRequest && got.field("error") != "invalid_grant" {
					t.Errorf("%d %s %v", got.status, clip(got.body), err)
				}
			}
		})
	}
	for i := range guesses {
		work <- i
	}
	close(work)
	wg.Wait()
	if n := compared(t, a.URL, b.URL) - before; n > tries {
		t.Errorf("%d of %d wrong passwords were compared, %d may be", n, guesses, tries)
	}
	limited := func(t *testing.T, base, place, pass string) {
		t.Helper()
		got, err := attempt(t.Context(), base, place, name, pass)
		if err != nil || got.status != http.StatusTooManyRequests {
			t.Errorf("%d %s %v", got.status, clip(got.body), err)
		}
	}
	limited(t, a.URL, attacker, "Wrong-again")
	limited(t, b.URL, attacker, "Wrong-again")
	limited(t, b.URL, attacker, password) // or the attacker would learn which one is right
	t.Run("OthersGoOn", func(t *testing.T) {
		if got, err := attempt(t.Context(), a.URL, attacker, alice, password); err != nil || got.status != http.StatusOK {
			t.Errorf("%d %s %v", got.status, clip(got.body), err)
		}
	})
	t.Run("ACrashForgetsNothing", func(t *testing.T) {
		b.Kill()
		b = guarded(t)
		limited(t, b.URL, attacker, "Wrong-again")
	})
	t.Run("MadeUpNamesPushNothingOut", func(t *testing.T) {
		for i := range 6 {
			if _, err := attempt(t.Context(), b.URL, attacker, fmt.Sprint("nobody-", i), "Wrong"); err != nil {
				t.Fatal(err)
			}
		}
		limited(t, b.URL, attacker, "Wrong-again")
	})
	t.Run("ThePersonHimselfGoesOnElsewhere", func(t *testing.T) {
		got, err := attempt(t.Context(), b.URL, "198.51.100.9", name, password)
		if err != nil {
			t.Fatal(err)
		}
		alive(t, got.tokens(t).Access)
	})
}

// S71, S47: as it is shipped, all who log in through the console come from its address. Whatever a stranger sends there, nobody is locked out for longer
// than seconds; he who logs in from where he usually does waits for nothing; and guesses stay as few as ever.
func TestAStrangerLocksNobodyOutOfTheConsole(t *testing.T) {
	rule(t, "S71", "S47")
	bases := []string{issuer, replica(t)} // without trusted proxies
	name := newUser(t, "shared")
	for _, base := range bases {
		knows(t, base, name)
	}
	through := func(ctx context.Context, base, browser, pass string) (answer, error) {
		return try(ctx, http.MethodPost, base+"/oauth/token", console.form("grant_type", "password", "username", name, "password", pass), "X-Client-Ip: "+browser)
	}
	const tries, home = 5, "192.0.2.44"
	must := func(base, browser string) {
		t.Helper()
		if got, err := through(t.Context(), base, browser, password); err != nil || got.status != http.StatusOK {
			t.Fatalf("%d %s %v", got.status, clip(got.body), err)
		}
	}
	must(issuer, home)
	eventually(t, "both servers know where he logs in", func(ctx context.Context) error {
		got, err := objects.Resource(lockouts).Get(ctx, uidOf(t, name), metav1.GetOptions{})
		if err == nil && !strings.Contains(fmt.Sprint(got.Object), "known") {
			err = errors.New("not written yet")
		}
		return err
	})
	began, before := time.Now(), compared(t, bases...)
	var wg sync.WaitGroup
	var told atomic.Int64
	for worker := range 32 {
		wg.Go(func() {
			for i := range 20 {
				got, err := through(t.Context(), bases[worker%2], fmt.Sprintf("203.0.113.%d", worker), fmt.Sprint("Wrong-", worker, "-", i))
				if err != nil || got.status == http.StatusOK {
					t.Errorf("%d %s %v", got.status, clip(got.body), err)
				}
				if got.status == http.StatusTooManyRequests && got.header.Get("Retry-After") != "" {
					told.Add(1)
				}
			}
		})
	}
	wg.Wait()
	// One more for each delay, of which the first has 4 s, less a second that times are rounded by.
	most := tries + int(time.Since(began)/(3*time.Second))
	if n := compared(t, bases...) - before; n > most || told.Load() == 0 {
		t.Errorf("%d passwords were compared, %d may be; %d were told when to try again", n, most, told.Load())
	}
	for _, base := range bases {
		must(base, home)
	}
	eventually(t, "he logs in from elsewhere too", func(ctx context.Context) error {
		got, err := through(ctx, issuer, "198.51.100.77", password)
		if err == nil && got.status != http.StatusOK {
			err = fmt.Errorf("%d %s", got.status, clip(got.body))
		}
		return err
	})
}

// S47: whoever says by himself where he comes from is not believed, unless he is a proxy that was named.
func TestNobodyInventsWhereHeComesFrom(t *testing.T) {
	rule(t, "S47", "T9700-13")
	base := replica(t) // where all of them come from one address
	name := newUser(t, "place")
	knows(t, base, name)
	limited := false
	for i := range 8 {
		got, err := attempt(t.Context(), base, fmt.Sprintf("192.0.2.%d", i), name, "Wrong")
		if err != nil {
			t.Fatal(err)
		}
		limited = limited || got.status == http.StatusTooManyRequests
	}
	if !limited {
		t.Error("eight wrong passwords were taken, each from another place by its own word")
	}
}

// S50: nobody learns from an answer, or from what it costs, who is there: a name that nobody has, one whose password is wrong, one that is
// disabled, and one that only an identity provider knows.
func TestNobodyLearnsWhoHasAnAccount(t *testing.T) {
	rule(t, "S50")
	base := guarded(t)
	t.Cleanup(base.Kill)
	known, disabled := newUser(t, "known"), newUser(t, "disabled")
	knows(t, base.URL, disabled)
	call(
		t,
		http.MethodPatch,
		issuer+usersPath+"/"+disabled+"/status",
		`{"status":{"state":"Disabled"}}`,
		mergePatch,
		"Authorization: Bearer "+admin(t),
	).must(t, http.StatusOK)
	u := newUpstream(t, "elsewhere")
	b, q, back := u.journey(t)
	q.landed(t, b.open(t, back.String(), "Sec-Fetch-Site: cross-site"))
	knows(t, base.URL, u.name+"-jane")
	type seen struct {
		answer
		cost int
	}
	all := map[string]seen{}
	for what, name := range map[string]string{"Unknown": unique("nobody"), "WrongPassword": known, "Disabled": disabled, "OfAProvider": u.name + "-jane",
		"EMail": known + "@example.com", "UnknownEMail": "nobody@example.com", "Strange": "*)(uid=*", "Long": strings.Repeat("x", 300)} {
		before := compared(t, base.URL)
		got, err := attempt(t.Context(), base.URL, "192.0.2.1", name, "Wrong-1")
		if err != nil {
			t.Fatal(err)
		}
		all[what] = seen{got, compared(t, base.URL) - before}
	}
	for what, s := range all {
		if s.status != http.StatusBadRequest || s.body != all["WrongPassword"].body || s.cost != 1 {
			t.Errorf("%s: %d %s, %d comparisons", what, s.status, s.body, s.cost)
		}
	}
	right, err := attempt(t.Context(), base.URL, "192.0.2.1", disabled, password)
	if err != nil || right.status != http.StatusBadRequest || right.body == all["WrongPassword"].body {
		t.Errorf("who has the right password is not told that the account is disabled: %d %s %v", right.status, right.body, err)
	}
	// The page says the same of each.
	said := map[string]bool{}
	for _, name := range []string{unique("nobody"), known, disabled} {
		n := newBrowser(t)
		p := n.login(t, n.open(t, "/oauth/login"), name, "Wrong-2")
		said[strconv.Itoa(p.status)+p.alert()] = true
	}
	if len(said) != 1 {
		t.Errorf("the page says %v", said)
	}
}

// alert is what the page says went wrong.
func (p *page) alert() string {
	_, rest, _ := strings.Cut(p.body, `role="alert"`)
	text, _, _ := strings.Cut(rest, "</div>")
	return text
}
