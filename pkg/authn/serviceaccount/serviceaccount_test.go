package serviceaccount

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

func newClock() *clocktesting.FakeClock {
	return clocktesting.NewFakeClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
}

// reviewer stands for kube-apiserver.
type reviewer struct {
	calls  atomic.Int64
	answer func(token string) (authenticationv1.TokenReviewStatus, error)
}

func (r *reviewer) Create(_ context.Context, in *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	r.calls.Add(1)
	s, err := r.answer(in.Spec.Token)
	if err != nil {
		return nil, err
	}
	in.Status = s
	return in, nil
}

func robot(name string, groups ...string) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
		Username: name, UID: "uid-1", Groups: groups, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}}
}

func tokenOf(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// newFor returns an Authenticator without the cluster's keys.
func newFor(t testing.TB, r Reviewer, now func() time.Time) *Authenticator {
	t.Helper()
	a, err := New(Options{Reviews: r, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const subject = `{"sub":"system:serviceaccount:default:robot"}`

func TestServiceAccountIsWhoKubeAPIServerSays(t *testing.T) {
	r := &reviewer{answer: func(string) (authenticationv1.TokenReviewStatus, error) {
		return robot("system:serviceaccount:default:robot", "system:serviceaccounts", "system:masters", "kapis:global:admin"), nil
	}}
	resp, ok, err := newFor(t, r, newClock().Now).AuthenticateToken(t.Context(), tokenOf(subject))
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	u := resp.User
	if u.GetName() != "system:serviceaccount:default:robot" || u.GetUID() != "uid-1" || u.GetExtra()["k"][0] != "v" ||
		!slices.Equal(u.GetGroups(), []string{"system:serviceaccounts", "system:authenticated"}) {
		t.Errorf("got %+v", u)
	}
}

func TestOnlyServiceAccountsAreAccepted(t *testing.T) {
	broken := errors.New("connection refused")
	for name, answer := range map[string]func(string) (authenticationv1.TokenReviewStatus, error){
		"not authenticated": func(string) (authenticationv1.TokenReviewStatus, error) {
			return authenticationv1.TokenReviewStatus{}, nil
		},
		"error beside the yes": func(string) (authenticationv1.TokenReviewStatus, error) {
			s := robot("system:serviceaccount:default:robot")
			s.Error = "expired"
			return s, nil
		},
		"an admin": func(string) (authenticationv1.TokenReviewStatus, error) { return robot("admin"), nil },
		"a node":   func(string) (authenticationv1.TokenReviewStatus, error) { return robot("system:node:n1"), nil },
		"down": func(string) (authenticationv1.TokenReviewStatus, error) {
			return authenticationv1.TokenReviewStatus{}, broken
		},
	} {
		t.Run(name, func(t *testing.T) {
			resp, ok, err := newFor(t, &reviewer{answer: answer}, newClock().Now).AuthenticateToken(t.Context(), tokenOf(subject))
			if ok || err == nil || resp != nil {
				t.Errorf("%v, %v", ok, err)
			}
			if down := apierrors.IsServiceUnavailable(err); down != (name == "down") || strings.Contains(err.Error(), "connection") {
				t.Errorf("a client is told: %v", err)
			}
		})
	}
}

func TestOtherTokensAreNotAskedAbout(t *testing.T) {
	r := &reviewer{answer: func(string) (authenticationv1.TokenReviewStatus, error) {
		return robot("system:serviceaccount:a:b"), nil
	}}
	a := newFor(t, r, newClock().Now)
	for name, s := range map[string]string{
		"empty": "", "opaque": "abc", "two parts": "a.b", "four parts": tokenOf(subject) + ".x", "no signature": strings.TrimSuffix(tokenOf(subject), "c2ln"),
		"no base64": "a.%%%.c", "no JSON": tokenOf("x"), "a person": tokenOf(`{"sub":"uid-1"}`), "no sub": tokenOf(`{}`),
		"dots": strings.Repeat(".", 1000), "too long": tokenOf(`{"sub":"system:serviceaccount:a:b","x":"` + strings.Repeat("x", maxToken) + `"}`),
	} {
		if _, ok, err := a.AuthenticateToken(t.Context(), s); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	if n := r.calls.Load(); n != 0 {
		t.Errorf("%d calls", n)
	}
}

func TestAnswersAreRememberedForSeconds(t *testing.T) {
	for name, test := range map[string]struct {
		claims string
		status authenticationv1.TokenReviewStatus
		keep   time.Duration
	}{
		"yes": {subject, robot("system:serviceaccount:default:robot"), keepGood},
		"no":  {subject, authenticationv1.TokenReviewStatus{}, keepBad},
		"yes, for 2 s": {fmt.Sprintf(`{"sub":"system:serviceaccount:a:b","exp":%d}`, newClock().Now().Add(2*time.Second).Unix()),
			robot("system:serviceaccount:a:b"), 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reviewer{answer: func(string) (authenticationv1.TokenReviewStatus, error) { return test.status, nil }}
			c := newClock()
			a := newFor(t, r, c.Now)
			for _, step := range []struct {
				wait  time.Duration
				calls int64
			}{{0, 1}, {0, 1}, {test.keep - time.Second, 1}, {time.Second, 2}} {
				c.Step(step.wait)
				_, _, _ = a.AuthenticateToken(t.Context(), tokenOf(test.claims))
				if n := r.calls.Load(); n != step.calls {
					t.Errorf("%d calls, want %d", n, step.calls)
				}
			}
		})
	}
}

func TestWaitingEndsWithTheRequest(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	r := &reviewer{answer: func(string) (authenticationv1.TokenReviewStatus, error) {
		<-end
		return authenticationv1.TokenReviewStatus{}, nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok, err := newFor(t, r, newClock().Now).AuthenticateToken(ctx, tokenOf(subject)); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", ok, err)
	}
}

func FuzzClaims(f *testing.F) {
	for _, s := range []string{tokenOf(subject), "", "..", "a.b.c", tokenOf(`{"sub":7}`), tokenOf(`{"sub":"system:serviceaccount:a:b","aud":["x",7]}`)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c, ok := claims(s); ok && !strings.HasPrefix(c.Subject, prefix) {
			t.Errorf("%q: %+v", s, c)
		}
	})
}
