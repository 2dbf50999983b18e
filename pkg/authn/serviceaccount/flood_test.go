package serviceaccount

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/authn/review"
	"kapis.dev/ks-apiserver/pkg/request"
)

// signer is the cluster's key, or a foreign one.
type signer struct {
	kid string
	key *ecdsa.PrivateKey
}

func newSigner(t testing.TB, kid string) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{kid, key}
}

func (s *signer) token(t testing.TB, claims map[string]any) string {
	t.Helper()
	j, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: s.key, KeyID: s.kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := j.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *signer) public() []byte {
	b, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &s.key.PublicKey, KeyID: s.kid, Algorithm: "ES256"}}})
	return b
}

const account = "system:serviceaccount:default:robot"

// knowing returns an Authenticator that knows the keys of a cluster, and the API's audience.
func knowing(t testing.TB, r Reviewer, now func() time.Time, s *signer) *Authenticator {
	t.Helper()
	a, err := New(Options{
		Reviews: r, Now: now, Keys: func(context.Context) ([]byte, error) { return s.public(), nil },
		OwnToken: func() string {
			return s.token(t, map[string]any{"sub": "system:serviceaccount:own:own", "aud": []string{"api"}})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.fetchKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

func accepting() *reviewer {
	return &reviewer{answer: func(string) (authenticationv1.TokenReviewStatus, error) { return robot(account), nil }}
}

func from(ctx context.Context, source string) context.Context {
	return context.WithValue(ctx, request.SourceKey{}, source)
}

// S68: kube-apiserver is asked neither about an expired token, nor about one for another audience, nor about one that names a key which did not sign it.
func TestForgedTokensAreAskedAboutByNobody(t *testing.T) {
	c, cluster, stranger := newClock(), newSigner(t, "k1"), newSigner(t, "k1")
	now := c.Now().Unix()
	for name, test := range map[string]struct {
		token string
		asked int64
	}{
		"Genuine":               {cluster.token(t, map[string]any{"sub": account, "aud": []string{"other", "api"}, "exp": now + 60}), 1},
		"WithoutAudienceAndEnd": {cluster.token(t, map[string]any{"sub": account}), 1},
		"AudienceAsText":        {cluster.token(t, map[string]any{"sub": account, "aud": "api", "n": 1}), 1},
		"ClocksThatDiffer":      {cluster.token(t, map[string]any{"sub": account, "exp": now - 30}), 1},
		"AnotherKey":            {stranger.token(t, map[string]any{"sub": account, "aud": []string{"api"}, "exp": now + 60}), 0},
		"NoAlgorithm":           {tokenOf(subject), 0},
		"Expired":               {cluster.token(t, map[string]any{"sub": account, "aud": []string{"api"}, "exp": now - 61}), 0},
		"ForOthers":             {cluster.token(t, map[string]any{"sub": account, "aud": []string{"vault"}, "exp": now + 60}), 0},
		"ForOthersAsText":       {cluster.token(t, map[string]any{"sub": account, "aud": "vault", "exp": now + 60}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := accepting()
			a := knowing(t, r, c.Now, cluster)
			_, ok, err := a.AuthenticateToken(t.Context(), test.token)
			if r.calls.Load() != test.asked || ok != (test.asked == 1) || !ok && !errors.Is(err, errRefused) {
				t.Errorf("%d questions, %v, %v", r.calls.Load(), ok, err)
			}
		})
	}
}

// S68: tokens with an unknown key, which only kube-apiserver can verify, are limited for each address; the cluster's own tokens never wait for them, even
// from that address.
func TestAFloodOfUnknownKeysCostsGenuineTokensNothing(t *testing.T) {
	cluster, stranger := newSigner(t, "k1"), newSigner(t, "unknown")
	c := newClock()
	hang, hanging := make(chan struct{}), make(chan struct{}, 1000)
	real := map[string]bool{}
	for i := range 50 {
		real[cluster.token(t, map[string]any{"sub": account, "aud": []string{"api"}, "n": i})] = true
	}
	r := &reviewer{answer: func(token string) (authenticationv1.TokenReviewStatus, error) {
		if real[token] {
			return robot(account), nil
		}
		hanging <- struct{}{}
		<-hang
		return authenticationv1.TokenReviewStatus{}, nil
	}}
	a := knowing(t, r, c.Now, cluster)
	var flood sync.WaitGroup
	var busy, refused atomic.Int64
	for i := range 500 {
		flood.Go(func() {
			_, ok, err := a.AuthenticateToken(from(t.Context(), fmt.Sprintf("203.0.113.%d", i%3)), stranger.token(t, map[string]any{"sub": account, "n": i}))
			switch {
			case ok:
				t.Error("a forged token is taken")
			case apierrors.IsTooManyRequests(err):
				if s, _ := apierrors.SuggestsClientDelay(err); s < 1 {
					t.Error("nobody says when to try again")
				}
				busy.Add(1)
			case errors.Is(err, errRefused):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	for range a.doubtful.AtOnce {
		<-hanging
	}
	for token := range real { // while the flood takes all the room that it can
		if _, ok, err := a.AuthenticateToken(from(t.Context(), "203.0.113.1"), token); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if len(hanging) != 0 {
		t.Errorf("more than %d forged tokens are asked about at once", a.doubtful.AtOnce)
	}
	close(hang)
	flood.Wait()
	most := int64(3 * review.BadAtOnce)
	if n := r.calls.Load() - int64(len(real)); n > most || refused.Load() > most || busy.Load() == 0 {
		t.Errorf("%d forged tokens were asked about, %d refused, %d told to wait", n, refused.Load(), busy.Load())
	}
}

// S68: after some refusals an address has to wait, and others do not.
func TestOneAddressHasFewRefusals(t *testing.T) {
	c, r := newClock(), &reviewer{answer: func(string) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{}, nil
	}}
	a := newFor(t, r, c.Now)
	n := 0
	try := func(source string) error {
		n++
		_, _, err := a.AuthenticateToken(from(t.Context(), source), tokenOf(fmt.Sprintf(`{"sub":%q,"n":%d}`, account, n)))
		return err
	}
	for range 10 * review.BadAtOnce {
		_ = try("2001:db8:1:2::" + fmt.Sprint(n%9+1))
	}
	if got := r.calls.Load(); got != review.BadAtOnce {
		t.Errorf("%d questions, want %d", got, review.BadAtOnce)
	}
	if err := try("2001:db8:1:2::ffff"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the address after %d refusals: %v", review.BadAtOnce, err)
	}
	if err := try("2001:db8:1:3::1"); !errors.Is(err, errRefused) {
		t.Errorf("another address: %v", err)
	}
	c.Step(time.Second)
	before := r.calls.Load()
	for range 50 {
		_ = try("2001:db8:1:2::1")
	}
	if got := r.calls.Load() - before; got != review.BadPerSecond {
		t.Errorf("%d questions a second later, want %d", got, review.BadPerSecond)
	}
}

// S68: no service account can block the others, however many genuine tokens it has.
func TestNoAccountKeepsOthersOut(t *testing.T) {
	cluster, hang := newSigner(t, "k1"), make(chan struct{})
	begun := make(chan struct{}, 1000)
	other := cluster.token(t, map[string]any{"sub": "system:serviceaccount:default:other"})
	r := &reviewer{answer: func(token string) (authenticationv1.TokenReviewStatus, error) {
		if token != other {
			begun <- struct{}{}
			<-hang
		}
		return robot(account), nil
	}}
	a := knowing(t, r, newClock().Now, cluster)
	var wg sync.WaitGroup
	for i := range 2 * a.genuine.MostOfOne {
		wg.Go(func() {
			token := cluster.token(t, map[string]any{"sub": account, "n": i})
			if _, ok, err := a.AuthenticateToken(context.Background(), token); !ok && !apierrors.IsTooManyRequests(err) {
				t.Error(err)
			}
		})
	}
	for range a.genuine.AtOnceOfOne {
		<-begun
	}
	if _, ok, err := a.AuthenticateToken(t.Context(), other); !ok || err != nil {
		t.Error(ok, err)
	}
	close(hang)
	wg.Wait()
	if n := r.calls.Load(); n > int64(2*a.genuine.MostOfOne)+1 {
		t.Errorf("%d questions", n)
	}
	if reviews, clients := a.genuine.Waiting(); reviews != 0 || clients != 0 {
		t.Errorf("%d questions and %d clients are left", reviews, clients)
	}
}

func TestTheSameQuestionIsAskedOnceAndFewAtATime(t *testing.T) {
	var under, most atomic.Int64
	cluster := newSigner(t, "k1")
	begun, end := make(chan struct{}, 1000), make(chan struct{})
	r := &reviewer{answer: func(string) (authenticationv1.TokenReviewStatus, error) {
		if n := under.Add(1); n > most.Load() {
			most.Store(n)
		}
		begun <- struct{}{}
		<-end
		under.Add(-1)
		return robot(account), nil
	}}
	a := knowing(t, r, newClock().Now, cluster)
	var wg sync.WaitGroup
	for i := range 40 {
		token := cluster.token(t, map[string]any{"sub": fmt.Sprint(account, i)})
		for range 5 {
			wg.Go(func() {
				if _, ok, err := a.AuthenticateToken(context.Background(), token); !ok || err != nil {
					t.Error(ok, err)
				}
			})
		}
	}
	for range a.genuine.AtOnce {
		<-begun
	}
	close(end)
	wg.Wait()
	if most.Load() > int64(a.genuine.AtOnce) || r.calls.Load() != 40 {
		t.Errorf("%d at once, %d calls for 40 tokens", most.Load(), r.calls.Load())
	}
}

// S68: memory is bounded, and bad answers evict no good one.
func TestBadAnswersPushNoGoodOneOut(t *testing.T) {
	r := &reviewer{answer: func(token string) (authenticationv1.TokenReviewStatus, error) {
		if token == tokenOf(subject) {
			return robot(account), nil
		}
		return authenticationv1.TokenReviewStatus{}, nil
	}}
	a := newFor(t, r, newClock().Now)
	if _, ok, err := a.AuthenticateToken(t.Context(), tokenOf(subject)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for i := range 3 * maxAnswers {
		_, _, _ = a.AuthenticateToken(from(t.Context(), fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)), tokenOf(fmt.Sprintf(`{"sub":%q,"n":%d}`, account, i)))
	}
	before := r.calls.Load()
	if _, ok, err := a.AuthenticateToken(t.Context(), tokenOf(subject)); !ok || err != nil || r.calls.Load() != before {
		t.Errorf("%v, %v, %d further questions", ok, err, r.calls.Load()-before)
	}
	if good, bad := a.answers.Len(); good > maxAnswers || bad > maxAnswers {
		t.Errorf("%d good and %d bad answers are remembered, want at most %d of each", good, bad, maxAnswers)
	}
	if n := a.sources.Len(); n > review.MostSources {
		t.Errorf("%d sources are remembered, want at most %d", n, review.MostSources)
	}
}

// A token with an unknown key makes the keys be read again, but no number of such tokens does so more often than the pause allows.
func TestANewKeyIsLearntFromItsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := newSigner(t, "k1"), newSigner(t, "k2")
		current := atomic.Pointer[signer]{}
		current.Store(old)
		var looks atomic.Int64
		a, err := New(Options{Reviews: accepting(), Now: time.Now, Keys: func(context.Context) ([]byte, error) {
			if looks.Add(1) == 1 {
				return nil, errors.New("not yet")
			}
			return current.Load().public(), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { a.Run(ctx) })
		is := func(s *signer, want signature) {
			t.Helper()
			if got := a.cluster.Load().signatureOf(s.token(t, map[string]any{"sub": account})); got != want {
				t.Errorf("the signature of %s is %d, want %d", s.kid, got, want)
			}
		}
		synctest.Wait()
		is(old, unknown)
		time.Sleep(keysPause + time.Second)
		is(old, genuine)
		current.Store(next)
		time.Sleep(keysPause)
		before := looks.Load()
		for range 100 {
			_, _, _ = a.AuthenticateToken(ctx, next.token(t, map[string]any{"sub": account}))
			time.Sleep(100 * time.Millisecond)
		}
		is(next, genuine)
		is(newSigner(t, "k2"), forged)
		if n := looks.Load() - before; n > 2 {
			t.Errorf("%d looks within %v", n, keysPause)
		}
		stop()
		wg.Wait()
	})
}

func TestKeysThatAreNoneAreLeftOut(t *testing.T) {
	good := newSigner(t, "k1")
	for name, raw := range map[string]string{
		"NoJSON": "x", "NoKeys": `{}`, "ASecret": `{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"k1"}]}`, "NoName": `{"keys":[{"kty":"oct"}]}`,
		"AKeyThatIsNone": `{"keys":[{"kty":"EC","kid":"k1","crv":"P-256","x":"AA","y":"AA"}, 7]}`,
	} {
		a, err := New(Options{Reviews: accepting(), Now: time.Now, Keys: func(context.Context) ([]byte, error) { return []byte(raw), nil }})
		if err != nil {
			t.Fatal(err)
		}
		_ = a.fetchKeys(t.Context())
		if got := a.cluster.Load().signatureOf(good.token(t, map[string]any{"sub": account})); got != unknown {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func BenchmarkRememberedToken(b *testing.B) {
	s := newSigner(b, "k1")
	a := knowing(b, accepting(), newClock().Now, s)
	token := s.token(b, map[string]any{"sub": account, "aud": []string{"api"}})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, _ := a.AuthenticateToken(b.Context(), token); !ok {
			b.Fatal("refused")
		}
	}
}

func BenchmarkForgedToken(b *testing.B) {
	a := knowing(b, accepting(), newClock().Now, newSigner(b, "k1"))
	token := newSigner(b, "k1").token(b, map[string]any{"sub": account, "aud": []string{"api"}})
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, _ := a.AuthenticateToken(b.Context(), token); ok {
			b.Fatal("taken")
		}
	}
}
