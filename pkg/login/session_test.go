package login

import (
	"errors"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var quiet = log.New(io.Discard, "", 0)

func TestALoginIsKept(t *testing.T) {
	i, dir := newIssuer(t), filepath.Join(t.TempDir(), "ks")
	first := tokenOf(t, newSession(t, i.options(t, dir)))
	if first.Access != "access-2" || first.ID == "" || time.Until(first.Expiry) < 50*time.Minute {
		t.Errorf("%+v", first)
	}
	o := i.options(t, dir)
	o.Way, o.Roots = Nobody, nil // no one is asked, not even the server
	second := tokenOf(t, newSession(t, o))
	if second.Access != first.Access || second.ID != first.ID || !second.Expiry.Equal(first.Expiry) {
		t.Errorf("%+v, want %+v", second, first)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, f := range append(files, dir) {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
		if strings.Contains(f, "alice") || strings.Contains(f, "access") {
			t.Errorf("the name %s says something", f)
		}
	}
}

func TestLoginsAreKeptApart(t *testing.T) {
	i, dir := newIssuer(t), t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	tokenOf(t, newSession(t, i.options(t, dir)))
	for name, change := range map[string]func(*Options){
		"ByScope": func(o *Options) { o.Scopes = []string{"openid"} },
		"ByUser":  func(o *Options) { o.User = "alice" },
		"ByHost":  func(o *Options) { o.Issuer = "https://other.example.com" },
		"ByID":    func(o *Options) { o.Client = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			o := i.options(t, dir)
			change(&o)
			if newSession(t, o).cache.read() != nil {
				t.Error("it is taken for another")
			}
		})
	}
	o := i.options(t, dir)
	o.Scopes = []string{"groups", "openid"}
	if newSession(t, o).cache.read() == nil {
		t.Error("the order of scopes makes a difference")
	}
}

func TestOneOfManyRefreshes(t *testing.T) { // T9700-9: a second use of the token would end the session
	i, dir := newIssuer(t), filepath.Join(t.TempDir(), "ks")
	i.life = 30 // never fresh enough
	tokenOf(t, newSession(t, i.options(t, dir)))
	i.change(func() { i.life = 3600 })
	tokens := make([]*Token, 12)
	var wg sync.WaitGroup
	for n := range tokens {
		o := i.options(t, dir)
		o.Way = Nobody
		s := newSession(t, o)
		wg.Go(func() {
			var err error
			if tokens[n], err = s.Token(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := i.count("/token refresh_token"); n != 1 {
		t.Errorf("%d refreshes", n)
	}
	for _, got := range tokens {
		if got == nil || got.Access != tokens[0].Access {
			t.Fatalf("different tokens: %+v", tokens)
		}
	}
}

func TestOneOfManyLogsIn(t *testing.T) {
	i, dir := newIssuer(t), filepath.Join(t.TempDir(), "ks")
	var wg sync.WaitGroup
	for range 8 {
		s := newSession(t, i.options(t, dir))
		wg.Go(func() {
			if _, err := s.Token(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := i.count("/authorize"); n != 1 {
		t.Errorf("%d pages were opened", n)
	}
}

func TestWhatBecomesOfARefresh(t *testing.T) {
	const grant = "/token refresh_token"
	for name, c := range map[string]struct {
		change func(*issuer, *Options)
		left   time.Duration // of the old token's life
		// access is the returned token, or "" for an error that contains says.
		access, says string
		logins       int
		kept         bool
	}{
		"ItIsRotated":          {left: 30 * time.Second, access: "access-3", kept: true},
		"WithoutAnIDToken":     {func(i *issuer, _ *Options) { i.noIDOnRefresh = true }, 0, "access-3", "", 0, true},
		"WithoutRotation":      {func(i *issuer, _ *Options) { i.noRotation = true }, 0, "access-3", "", 0, true},
		"AnEndedSessionLogsIn": {func(i *issuer, _ *Options) { i.end() }, 0, "access-4", "", 1, true},
		"AnEndedSessionWithNobody": {func(i *issuer, o *Options) { i.end(); o.Way = Nobody },
			0, "", "not logged in at", 0, false},
		"AServerThatCannotNow": {func(i *issuer, _ *Options) { i.fails[grant] = failure{503, "temporarily_unavailable", -1} },
			0, "", "(503 temporarily_unavailable: because[31m of this); nothing is lost", 0, true},
		"TheOldTokenServesMeanwhile": {func(i *issuer, _ *Options) { i.fails[grant] = failure{503, "temporarily_unavailable", -1} },
			30 * time.Second, "access-2", "", 0, true},
		"AServerThatIsAway":         {func(i *issuer, _ *Options) { i.Close() }, 0, "", "refused", 0, true},
		"AwayWhileTheOldTokenLives": {func(i *issuer, _ *Options) { i.Close() }, 30 * time.Second, "access-2", "", 0, true},
		"AClientThatIsGone": {func(i *issuer, _ *Options) { i.fails[grant] = failure{401, "invalid_client", -1} },
			0, "", "--client-id", 0, true},
		"AnotherPersonNow": {func(i *issuer, _ *Options) { i.person = "mallory" }, 0, "", "has to be", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			i, dir := newIssuer(t), filepath.Join(t.TempDir(), "ks")
			i.Config.ErrorLog = quiet
			o := i.options(t, dir)
			o.User = "alice"
			tokenOf(t, newSession(t, o))
			if c.change != nil {
				i.change(func() { c.change(i, &o) })
			}
			s := at(t, o, time.Hour-c.left)
			got, err := s.Token(t.Context())
			if c.access != "" && (err != nil || got.Access != c.access) || c.access == "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Fatalf("%+v, %v", got, err)
			}
			if name == "AnEndedSessionWithNobody" && !errors.Is(err, ErrLoginNeeded) {
				t.Error("it does not say that a login is needed")
			}
			if n := i.count("/authorize"); n != 1+c.logins {
				t.Errorf("%d logins", n)
			}
			k := s.cache.read()
			if (k != nil) != c.kept {
				t.Fatalf("kept: %+v", k)
			}
			if k != nil && (k.User != "alice" || k.Refresh == "") {
				t.Errorf("kept: %+v", k)
			}
		})
	}
}

func TestWhatIsBrokenIsALoginAnew(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, file string){
		"NoJSON": func(t *testing.T, f string) { must(t, os.WriteFile(f, []byte("{"), 0o600)) },
		"Empty":  func(t *testing.T, f string) { must(t, os.WriteFile(f, nil, 0o600)) },
		"OfAnotherLogin": func(t *testing.T, f string) {
			must(t, os.WriteFile(f, []byte(`{"issuer":"https://x","access_token":"stolen"}`), 0o600))
		},
		"ReadByOthers": func(t *testing.T, f string) { must(t, os.Chmod(f, 0o644)) },
		"NoFile":       func(t *testing.T, f string) { must(t, os.Remove(f)) },
		"ALink": func(t *testing.T, f string) {
			must(t, os.WriteFile(f+".x", []byte("{}"), 0o600))
			must(t, errors.Join(os.Remove(f), os.Symlink(f+".x", f)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			i, dir := newIssuer(t), filepath.Join(t.TempDir(), "ks")
			s := newSession(t, i.options(t, dir))
			tokenOf(t, s)
			spoil(t, s.cache.name+".json")
			if got := tokenOf(t, s); got.Access != "access-4" {
				t.Errorf("%+v", got)
			}
			if info, err := os.Stat(s.cache.name + ".json"); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}

func TestAFolderOfOthersIsRefused(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	i := newIssuer(t)
	if _, err := newSession(t, i.options(t, dir)).Token(t.Context()); err == nil || !strings.Contains(err.Error(), "yours alone") {
		t.Errorf("open to others: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Chmod(dir, 0o700))
	must(t, os.Symlink(dir, link))
	if _, err := newSession(t, i.options(t, link)).Token(t.Context()); err == nil {
		t.Error("a link was followed")
	}
	if n := i.count("/authorize"); n != 0 {
		t.Error("somebody was asked before")
	}
}

func TestALockThatIsHeldIsWaitedFor(t *testing.T) {
	i, dir := newIssuer(t), filepath.Join(t.TempDir(), "ks")
	s := newSession(t, i.options(t, dir))
	unlock, err := s.cache.lock(t.Context(), io.Discard)
	must(t, err)
	done := make(chan error, 1)
	other := newSession(t, i.options(t, dir))
	var got *Token
	go func() {
		var err error
		got, err = other.Token(t.Context())
		done <- err
	}()
	for !strings.Contains(other.Tell.(*told).String(), "Waiting for another program") { // shown once the wait is long
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(lockEvery):
		}
	}
	// All who waited accept what the holder of the lock got, however short its life.
	must(t, s.cache.write(&kept{Issuer: s.Issuer, Client: s.Client, Scopes: s.Scopes, Access: "of the holder", Expiry: time.Now().Add(freshness / 2)}))
	unlock()
	if must(t, <-done); got.Access != "of the holder" || len(i.calls) > 0 {
		t.Errorf("%+v, and the server was asked %v", got, i.calls)
	}
}

func TestLoginAsksTheServer(t *testing.T) {
	i, dir := newIssuer(t), filepath.Join(t.TempDir(), "ks")
	s := newSession(t, i.options(t, dir))
	for _, step := range []struct {
		name   string
		before func()
		logins int
	}{
		{"TheFirst", func() {}, 1},
		{"OneThatCounts", func() {}, 1},
		{"OneThatTheServerHasEnded", i.end, 2},
		{"AnAccessTokenAloneThatIsRefused", func() { i.access = map[string]bool{} }, 2}, // refreshed
	} {
		i.change(step.before)
		who, err := s.Login(t.Context())
		if err != nil || who.Name() != "alice" || i.count("/authorize") != step.logins {
			t.Errorf("%s: %+v, %v, %d logins", step.name, who, err, i.count("/authorize"))
		}
	}
}

func TestWhoami(t *testing.T) {
	i, dir := newIssuer(t), filepath.Join(t.TempDir(), "ks")
	s := newSession(t, i.options(t, dir))
	who, err := s.Whoami(t.Context())
	if err != nil || who.Name() != "alice" || strings.Join(who.Groups, ",") != "dev,op[31ms" {
		t.Errorf("%+v, %v", who, err)
	}
	i.change(i.end)
	if _, err := s.Whoami(t.Context()); err == nil || !strings.Contains(err.Error(), "kubectl ks login") {
		t.Errorf("after the end: %v", err)
	}
	if got := (&Person{Subject: "uid\x1b[2J"}).Name(); got != "uid[2J" {
		t.Errorf("without a name: %q", got)
	}
}

func TestLogout(t *testing.T) { // T7009-1 from the client's side
	i, dir := newIssuer(t), filepath.Join(t.TempDir(), "ks")
	o := i.options(t, dir)
	s := newSession(t, o)
	must(t, s.Logout(t.Context(), false)) // there is nothing to log out
	tokenOf(t, s)
	i.change(func() { i.fails["/revoke"] = failure{503, "temporarily_unavailable", 1} })
	if err := s.Logout(t.Context(), false); err == nil || s.cache.read() == nil {
		t.Errorf("a server that can't: %v", err)
	}
	must(t, s.Logout(t.Context(), false))
	if s.cache.read() != nil || i.refresh != "" || len(i.revoked) != 1 || i.revoked[0] != "refresh_token" {
		t.Errorf("kept %v, revoked %v", s.cache.read(), i.revoked)
	}
	o.Way = Nobody
	if _, err := newSession(t, o).Token(t.Context()); !errors.Is(err, ErrLoginNeeded) {
		t.Errorf("afterwards: %v", err)
	}
	tokenOf(t, s)
	i.Close()
	if err := s.Logout(t.Context(), false); err == nil || !strings.Contains(err.Error(), "--local") {
		t.Errorf("a server that is away: %v", err)
	}
	must(t, s.Logout(t.Context(), true))
	if s.cache.read() != nil {
		t.Error("--local forgets nothing")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
