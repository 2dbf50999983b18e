package providertoken_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"

	"kapis.dev/ks-apiserver/pkg/authn/providertoken"
	"kapis.dev/ks-apiserver/pkg/authn/review"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
	"kapis.dev/ks-apiserver/pkg/request"
)

// issuer is a provider whose tokens are its name, a colon and the subject.
type issuer string

func (issuer) Remote() bool                { return false }
func (issuer) Check(context.Context) error { return nil }
func (p issuer) Issued(token string) bool  { return strings.HasPrefix(token, string(p)+":") }
func (p issuer) Bearer(_ context.Context, token string) (*idp.Identity, error) {
	switch subject := strings.TrimPrefix(token, string(p)+":"); subject {
	case "forged":
		return nil, fmt.Errorf("%w: its token", idp.ErrRefused)
	case "down":
		return nil, fmt.Errorf("%w: at https://internal.example", idp.ErrUnavailable)
	default:
		return &idp.Identity{Subject: subject}, nil
	}
}

type accounts struct{}

func (accounts) Vouched(_ context.Context, e *idp.Entry, id *idp.Identity) (user.Info, error) {
	if id.Subject == "nobody" {
		return nil, errors.New("not linked")
	}
	return &user.DefaultInfo{Name: e.Name + "/" + id.Subject}, nil
}

func of(t *testing.T, now func() time.Time, entries ...*idp.Entry) *providertoken.Authenticator {
	return providertoken.New(providertoken.Options{Accounts: accounts{}, Directory: idptest.Directory(t, entries...), Now: now,
		Own: func(token string) bool { return token == "a:own" }})
}

// webhook is an issuer on another server.
type webhook struct {
	issuer
	asked atomic.Int64
	hang  chan struct{} // until it is closed, nothing is answered; nil for at once
}

func (*webhook) Remote() bool { return true }
func (w *webhook) Bearer(ctx context.Context, token string) (*idp.Identity, error) {
	w.asked.Add(1)
	if w.hang != nil {
		<-w.hang
	}
	return w.issuer.Bearer(ctx, token)
}

// from returns a context of a request from an address.
func from(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, request.SourceKey{}, address)
}

func TestAWebhookIsAskedOnceInSeconds(t *testing.T) {
	now := time.Now()
	w := &webhook{issuer: "a"}
	a := of(t, func() time.Time { return now }, &idp.Entry{Name: "one", Provider: w})
	for _, step := range []struct {
		token string
		later time.Duration
		asked int64
		ok    bool
	}{
		{"a:jane", 0, 1, true},
		{"a:jane", 4 * time.Second, 1, true},
		{"a:jane", time.Second, 2, true},
		{"a:forged", 0, 3, false},
		{"a:forged", 2 * time.Second, 3, false},
		{"a:forged", time.Second, 4, false},
		{"a:down", 0, 5, false},
		{"a:down", 0, 5, false},
		{"a:down", time.Second, 6, false},
		{"a:nobody", 0, 7, false}, // it has no User, and another question would not change that
		{"a:own", 0, 7, false},
	} {
		now = now.Add(step.later)
		_, ok, _ := a.AuthenticateToken(t.Context(), step.token)
		if got := w.asked.Load(); ok != step.ok || got != step.asked {
			t.Errorf("%s after %v: got %v and %d questions, want %v and %d", step.token, step.later, ok, got, step.ok, step.asked)
		}
	}
}

// Strangers send tokens that only the webhook can tell from good ones.
func TestAnAddressCanNotHaveAWebhookAskedWithoutEnd(t *testing.T) {
	now := time.Now()
	w := &webhook{issuer: "a"}
	a := of(t, func() time.Time { return now }, &idp.Entry{Name: "one", Provider: refusing{w}})
	for i := range 10 * review.BadAtOnce {
		_, _, err := a.AuthenticateToken(from(t.Context(), "192.0.2.1"), fmt.Sprintf("a:%d", i))
		if i >= review.BadAtOnce && !apierrors.IsTooManyRequests(err) {
			t.Fatalf("token %d: got %v, want 429", i, err)
		}
	}
	if got := w.asked.Load(); got != review.BadAtOnce {
		t.Errorf("got %d questions, want %d", got, review.BadAtOnce)
	}
	if _, _, err := a.AuthenticateToken(from(t.Context(), "192.0.2.2"), "a:x"); apierrors.IsTooManyRequests(err) {
		t.Errorf("another address: got %v, want it asked", err)
	}
	now = now.Add(time.Second)
	before := w.asked.Load()
	for i := range 100 {
		_, _, _ = a.AuthenticateToken(from(t.Context(), "192.0.2.1"), fmt.Sprintf("a:later-%d", i))
	}
	if got := w.asked.Load() - before; got != review.BadPerSecond {
		t.Errorf("a second later: got %d questions, want %d", got, review.BadPerSecond)
	}
}

// refusing refuses every token.
type refusing struct{ *webhook }

func (r refusing) Bearer(context.Context, string) (*idp.Identity, error) {
	r.asked.Add(1)
	return nil, idp.ErrRefused
}

func TestARequestForOneTokenIsSharedByAll(t *testing.T) {
	w := &webhook{issuer: "a", hang: make(chan struct{})}
	a := of(t, time.Now, &idp.Entry{Name: "one", Provider: w})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, ok, err := a.AuthenticateToken(from(t.Context(), fmt.Sprintf("192.0.2.%d", i)), "a:jane"); !ok || err != nil {
				t.Errorf("got %v, %v; want the user", ok, err)
			}
		})
	}
	close(w.hang)
	all.Wait()
	if got := w.asked.Load(); got != 1 {
		t.Errorf("got %d questions, want 1", got)
	}
}

func TestEachTokenIsVerifiedByItsProvider(t *testing.T) {
	a := of(t, time.Now, &idp.Entry{Name: "one", Provider: issuer("a")}, &idp.Entry{Name: "two", Provider: issuer("b")},
		&idp.Entry{Name: "off", Disabled: true, Provider: issuer("c")})
	for _, tc := range []struct {
		name, token, want string
		fails             bool
		code              int
	}{
		{"OfTheFirst", "a:jane", "one/jane", false, 0},
		{"OfTheSecond", "b:jane", "two/jane", false, 0},
		{"OfADisabledOne", "c:jane", "", false, 0},
		{"OfNone", "x:jane", "", false, 0},
		{"TooLong", "a:" + strings.Repeat("x", 16<<10), "", false, 0},
		{"Forged", "a:forged", "", true, 0},
		{"WithoutAUser", "a:nobody", "", true, 0},
		{"WhileTheProviderIsDown", "a:down", "", true, http.StatusServiceUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, ok, err := a.AuthenticateToken(t.Context(), tc.token)
			got := ""
			if ok {
				got = resp.User.GetName()
			}
			if got != tc.want || tc.fails != (err != nil) {
				t.Errorf("got %q, %v; want %q, an error: %v", got, err, tc.want, tc.fails)
			}
			var status apierrors.APIStatus
			if code := 0; tc.code != code && (!errors.As(err, &status) || int(status.Status().Code) != tc.code ||
				strings.Contains(err.Error(), "internal.example")) {
				t.Errorf("got %v, want a Status of %d that shows no address", err, tc.code)
			}
		})
	}
}

// Until the Secrets of identity providers are read, a token that no provider knows may be one of a provider that is not known yet. One that is
// evidently this server's own is not.
func TestATokenOfAProviderThatIsNotKnownYetCanNotBeTold(t *testing.T) {
	a := providertoken.New(providertoken.Options{Accounts: accounts{}, Now: time.Now, Own: func(token string) bool { return token == "a:own" },
		Directory: idp.NewDirectory(idp.DirectoryOptions{Secrets: fake.NewClientset().CoreV1().Secrets("kubesphere-system")})})
	if _, ok, err := a.AuthenticateToken(t.Context(), "b:jane"); ok || !apierrors.IsServiceUnavailable(err) {
		t.Errorf("%v, %v", ok, err)
	} else if seconds, wait := apierrors.SuggestsClientDelay(err); !wait || seconds == 0 {
		t.Errorf("%v says not when to try again", err)
	}
	if _, ok, err := a.AuthenticateToken(t.Context(), "a:own"); ok || err != nil {
		t.Errorf("its own: %v, %v", ok, err)
	}
	if _, ok, err := of(t, time.Now).AuthenticateToken(t.Context(), "b:jane"); ok || err != nil {
		t.Errorf("all are known: %v, %v", ok, err)
	}
}
