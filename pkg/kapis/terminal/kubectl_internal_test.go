package terminal

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/token"
)

// logins counts the sessions that are opened and ended, by their numbers.
type logins struct {
	mu     sync.Mutex
	opened int
	ended  string
	refuse bool
}

func (l *logins) Find(_ context.Context, name string) (*session.Session, *iam.User, error) {
	return &session.Session{Name: name}, &iam.User{Name: "bob", UID: "u"}, nil
}

func (l *logins) Open(context.Context, session.Login) (*session.Session, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse {
		return nil, "", errors.New("refused")
	}
	l.opened++
	return &session.Session{Name: strconv.Itoa(l.opened), User: "bob", UserUID: "u", Expires: time.Now().Add(kubectlLife)}, "", nil
}

func (l *logins) End(_ context.Context, name, _ string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended += name
	return nil
}

// This needs the time of its own that only a test inside of the package can have.
func TestALoginIsRenewedBeforeItEnds(t *testing.T) { // O9
	synctest.Test(t, func(t *testing.T) {
		keys, err := token.Generate(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		s := &logins{}
		l := &shellLogin{in: &session.Session{Name: "s"}, request: httptest.NewRequest(http.MethodGet, "/", nil), Logins: &Logins{Sessions: s, Now: time.Now,
			OriginOf: func(*http.Request) iam.Origin { return iam.Origin{} },
			Tokens:   &token.Issuer{Keys: keys, URL: "https://ks.example", Audience: "kapis", Now: time.Now}}}
		written, _, err := l.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at, full := time.Now(), false
		stop := during(t.Context(), func(ctx context.Context) {
			l.keep(ctx, func(_ context.Context, access string) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				if full {
					return errors.New("no space left")
				}
				written, at = access, time.Now()
				return nil
			})
		})
		pass := func(d time.Duration) { // what follows it has the lock
			time.Sleep(d)
			synctest.Wait()
			s.mu.Lock()
		}
		for range 60 { // an hour: the token in the pod is good at any time
			pass(time.Minute)
			if age := time.Since(at); age >= kubectlLife-time.Minute || strings.Count(written, ".") != 2 {
				t.Errorf("the token %q is %v old", written, age)
			}
			s.mu.Unlock()
		}
		s.mu.Lock()
		if s.opened != 7 || s.ended != "123456" {
			t.Errorf("%d sessions were opened, %q ended", s.opened, s.ended)
		}
		s.refuse = true
		s.mu.Unlock()
		pass(10 * time.Minute)
		s.refuse, full = false, true // the eighth can't be written
		s.mu.Unlock()
		pass(4 * time.Minute)
		if s.opened != 8 || s.ended != "1234568" {
			t.Errorf("after two failures, %d sessions were opened, %q ended", s.opened, s.ended)
		}
		full = false
		s.mu.Unlock()
		pass(time.Minute - time.Second)
		if age := time.Since(at); s.opened != 9 || s.ended != "12345687" || age > time.Minute {
			t.Errorf("then %d were opened, %q ended, and the token is %v old", s.opened, s.ended, age)
		}
		s.mu.Unlock()
		stop()
		l.close(t.Context())
		if s.ended != "123456879" {
			t.Errorf("%q have ended", s.ended)
		}
	})
}
