package extension

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/inflight"
)

func TestABackendThatCantBeReachedIsNotAskedForAWhile(t *testing.T) { // X10
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	b := &breaker{}
	open := func() bool {
		wait, _ := b.enter(now)
		return wait > 0
	}
	for i := range breakerFailures {
		if open() {
			t.Fatalf("after %d failures it is not asked", i)
		}
		b.broke(now)
		now = now.Add(time.Second)
	}
	now = now.Add(-time.Second) // of the last failure
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		now = now.Add(pause*time.Second - time.Millisecond)
		if !open() {
			t.Fatalf("it is asked before %d s are over", pause)
		}
		now = now.Add(time.Millisecond)
		if open() {
			t.Fatalf("after %d s there is no trial", pause)
		}
		if !open() {
			t.Fatal("there are two trials at once")
		}
		b.broke(now)
	}
	now = now.Add(breakerLongest)
	if open() {
		t.Fatal("there is no trial")
	}
	b.left() // its client has gone
	if open() {
		t.Fatal("after a trial that ended early there is none")
	}
	b.worked()
	for range 2 * breakerFailures {
		if open() {
			t.Fatal("a backend that answers is not asked")
		}
	}
	for range breakerFailures - 1 {
		b.broke(now)
		now = now.Add(breakerWindow / 2)
	}
	b.broke(now)
	if open() {
		t.Error("failures that are far from each other count together")
	}
}

// X10: requests that were under way when the breaker opened, and fail later, do not make the first pause a longer one.
func TestX10WhatFailsLaterDoesNotMakeAPauseLonger(t *testing.T) {
	now, b := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), &breaker{}
	for range atMost { // all wait, and fail at one moment
		b.broke(now)
	}
	if wait, _ := b.enter(now); wait != time.Second {
		t.Errorf("the first trial is in %v", wait)
	}
}

// X10: a request that can't be sent, and an answer that can't be read, say nothing of whether the backend can be reached.
func TestX10OnlyWhatIsNotReachedIsNotAskedForAWhile(t *testing.T) {
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		switch r.URL.Path {
		case "/large":
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 4<<20)+"\r\n\r\n")
		case "/late":
			_, _ = io.WriteString(c, "HTTP/1.1 ")
			<-end
		}
		_ = c.Close()
	}))
	defer server.Close()
	defer close(end)
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		url, trailer string
		open         bool
	}{
		"ATrailerThatIsNone":       {server.URL, "a b", false},
		"AHeaderThatIsTooLarge":    {server.URL + "/large", "", false},
		"AnAnswerThatDoesNotBegin": {server.URL + "/close", "", true},
		"AnAnswerThatIsLate":       {server.URL + "/late", "", true},
		"ABackendThatIsNotThere":   {gone.URL, "", true},
		"ATrailerForOneThatIsNot":  {gone.URL, "a b", false},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := ParseEndpoint(&v1alpha1.Endpoint{URL: &c.url})
			if err != nil {
				t.Fatal(err)
			}
			u := newUpstream(a, &Options{Egress: egress.Options{AllowLoopback: true}})
			for range breakerFailures {
				ctx, cancel := context.WithCancelCause(t.Context())
				if strings.HasSuffix(c.url, "/late") {
					time.AfterFunc(50*time.Millisecond, func() { cancel(ErrHeaderTimeout) })
				}
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, io.NopCloser(strings.NewReader("x")))
				if err != nil {
					t.Fatal(err)
				}
				if c.trailer != "" {
					r.Trailer = http.Header{c.trailer: nil}
				}
				if resp, err := u.RoundTrip(r); err == nil {
					_ = resp.Body.Close()
					t.Errorf("it is answered: %d", resp.StatusCode)
				}
				cancel(nil)
			}
			if wait, _ := u.breaker.enter(time.Now()); wait > 0 != c.open {
				t.Errorf("the next one waits for %v", wait)
			}
		})
	}
}

// A trial that is never sent, as one that other bounds refuse, leaves the next one its turn.
func TestATrialThatIsNotSentIsNone(t *testing.T) { // X10
	u, now := newUpstream(&Address{Scheme: "http", Host: "backend.example"}, &Options{}), time.Now()
	for range breakerFailures {
		u.breaker.broke(now)
	}
	for i := range 3 {
		now = now.Add(breakerLongest)
		leave, err := u.Enter(User{Name: "ann"}, now)
		if err != nil {
			t.Fatalf("trial %d: %v", i, err)
		}
		if _, err := u.Enter(User{Name: "bob"}, now); err == nil {
			t.Error("there are two trials at once")
		}
		leave()
	}
}

func TestABackendHasBoundedRequests(t *testing.T) { // X9
	url := "http://backend.example"
	a, err := ParseEndpoint(&v1alpha1.Endpoint{URL: &url})
	if err != nil {
		t.Fatal(err)
	}
	u, now := newUpstream(a, &Options{}), time.Now()
	var leave []func()
	enter := func(user string) error {
		f, err := u.Enter(User{Name: user}, now)
		if err == nil {
			leave = append(leave, f)
		}
		return err
	}
	for range atMostOfOne {
		if err := enter("ann"); err != nil {
			t.Fatal(err)
		}
	}
	if err := enter("ann"); !errors.Is(err, inflight.ErrFullForOwner) {
		t.Errorf("one user: %v", err)
	}
	account := func(name string) (func(), error) {
		return u.Enter(User{UID: name, Name: "system:serviceaccount:shop:" + name}, now)
	}
	var accounts []func()
	for i := range atMostOfOne {
		f, err := account(strconv.Itoa(i))
		if err != nil {
			t.Fatal(i, err)
		}
		accounts = append(accounts, f)
	}
	if _, err := account("another"); !errors.Is(err, inflight.ErrFullForOwner) {
		t.Errorf("the service accounts of one namespace: %v", err)
	}
	for _, f := range accounts {
		f()
	}
	for i := atMostOfOne; i < atMost; i++ {
		if err := enter(string(rune('a' + i%8))); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := enter("zoe"); !errors.Is(err, inflight.ErrFull) {
		t.Errorf("all users: %v", err)
	}
	for _, f := range leave {
		f()
	}
	if err := enter("ann"); err != nil || u.requests.Running() != 1 {
		t.Errorf("after all have left: got %v and %d, want one", err, u.requests.Running())
	}
}

// X5: requests, upgrades among them, prove this server to a backend that asks for a certificate.
func TestX5ABackendIsShownTheClientCertificate(t *testing.T) {
	asked := 0
	e := v1alpha1.Endpoint{URL: ptr.To("https://backend.example")}
	a, err := ParseEndpoint(&e)
	if err != nil {
		t.Fatal(err)
	}
	u := newUpstream(a, &Options{ClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked++
		return &tls.Certificate{}, nil
	}})
	if get := u.transport.TLSClientConfig.GetClientCertificate; get == nil {
		t.Error("its transport shows none")
	} else if _, err := get(nil); err != nil {
		t.Error(err)
	}
	if asked != 1 {
		t.Errorf("it was asked for %d times", asked)
	}
}
