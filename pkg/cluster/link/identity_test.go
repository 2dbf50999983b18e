package link_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
)

const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"

// linked returns a link to a member with a handler, and what ends the member's end and returns its error.
func linked(t testing.TB, h http.HandlerFunc) (l *link.Link, stop func() error) {
	t.Helper()
	a := linktest.NewAuthority(t)
	one, other := linktest.Pair(t)
	served := make(chan error, 1)
	ctx, end := context.WithCancel(t.Context())
	go func() {
		served <- (&link.Handler{Identity: a.Member(t, uid), Handler: h}).Serve(ctx, other, time.Second)
	}()
	l, err := link.Open(t.Context(), one, uid, a.Hub(t))
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceValue(func() error { end(); return <-served })
	t.Cleanup(func() { _ = l.Close(); _ = stop() })
	return l, stop
}

func get(t testing.TB, path string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://member"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// F2: a request arrives as it was sent, whole, and marked as the hub's; the answer comes back likewise.
func TestRequestsArriveAsTheyWereSent(t *testing.T) {
	l, _ := linked(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %q %s %v", r.Method, r.RequestURI, body, r.Header.Get("X-Asked"), link.FromHub(r.Context()))
	})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			r := get(t, fmt.Sprintf("/a%%2fb/%d?q=%%20&q=2", i))
			r.Method, r.Body = http.MethodPut, io.NopCloser(strings.NewReader(strings.Repeat("x", i)))
			r.Header.Set("X-Asked", "asked")
			resp, err := l.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			want := fmt.Sprintf("PUT /a%%2fb/%d?q=%%20&q=2 %q asked true", i, strings.Repeat("x", i))
			if err != nil || string(got) != want || resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Answer") != "yes" {
				t.Errorf("got %d %s, %v, want %s", resp.StatusCode, got, err, want)
			}
		})
	}
	all.Wait()
	if link.FromHub(t.Context()) {
		t.Error("a context of nobody is the hub's")
	}
}

// F17, F39: the header of an answer has a bound, far beyond what any answer has.
func TestTheHeaderOfAnAnswerHasABound(t *testing.T) {
	l, _ := linked(t, func(w http.ResponseWriter, r *http.Request) {
		n := 1 << 9
		if r.URL.Path == "/long" {
			n = 3 << 10
		}
		for i := range n {
			w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1<<10))
		}
	})
	for _, path := range []string{"/short", "/long"} {
		resp, err := l.RoundTrip(get(t, path))
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != (path == "/short") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// F3: each end proves a certificate of the fleet for its role, and the member for its UID, whatever is between them.
func TestBothEndsProveWhoTheyAre(t *testing.T) {
	fleet, other := linktest.NewAuthority(t), linktest.NewAuthority(t)
	const another = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
	mixed := func(own, believed link.Identity) link.Identity {
		return link.Identity{Certificate: own.Certificate, Authorities: believed.Authorities}
	}
	for name, tc := range map[string]struct{ hub, member link.Identity }{
		"MemberOfAnotherFleet":     {fleet.Hub(t), mixed(other.Member(t, uid), fleet.Member(t, uid))},
		"AnotherMember":            {fleet.Hub(t), fleet.Member(t, another)},
		"HubAsMember":              {fleet.Hub(t), fleet.Identity(t, link.HubName(), time.Hour, x509.ExtKeyUsageServerAuth)},
		"ExpiredMember":            {fleet.Hub(t), fleet.Identity(t, link.MemberName(uid), -time.Minute, x509.ExtKeyUsageServerAuth)},
		"HubOfAnotherFleet":        {mixed(other.Hub(t), fleet.Hub(t)), fleet.Member(t, uid)},
		"MemberAsHub":              {fleet.Identity(t, link.MemberName(uid), time.Hour, x509.ExtKeyUsageClientAuth), fleet.Member(t, uid)},
		"ExpiredHub":               {fleet.Identity(t, link.HubName(), -time.Minute, x509.ExtKeyUsageClientAuth), fleet.Member(t, uid)},
		"HubWithACertificateToBe":  {fleet.Identity(t, link.HubName(), time.Hour, x509.ExtKeyUsageServerAuth), fleet.Member(t, uid)},
		"MemberWithAHubsPurpose":   {fleet.Hub(t), fleet.Identity(t, link.MemberName(uid), time.Hour, x509.ExtKeyUsageClientAuth)},
		"AMemberWhoKnowsNoFleet":   {fleet.Hub(t), link.Identity{Certificate: fleet.Member(t, uid).Certificate}},
		"AHubWhoKnowsNoFleet":      {link.Identity{Certificate: fleet.Hub(t).Certificate}, fleet.Member(t, uid)},
		"ASuffixOfTheMembersName":  {fleet.Hub(t), fleet.Identity(t, "x"+link.MemberName(uid), time.Hour, x509.ExtKeyUsageServerAuth)},
		"AWildcardForEveryMember":  {fleet.Identity(t, "*.fleet.kapis.dev", time.Hour, x509.ExtKeyUsageServerAuth), fleet.Member(t, uid)},
		"AnotherNameOfTheHubsZone": {fleet.Identity(t, "x."+link.HubName(), time.Hour, x509.ExtKeyUsageClientAuth), fleet.Member(t, uid)},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := linktest.Pair(t)
			served := make(chan error, 1)
			h := &link.Handler{Identity: tc.member, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was served") })}
			go func() { served <- h.Serve(t.Context(), two, 0) }()
			l, err := link.Open(t.Context(), one, uid, tc.hub)
			foreign := slices.Contains([]string{"MemberOfAnotherFleet", "AnotherMember", "HubAsMember", "ExpiredMember", "ASuffixOfTheMembersName",
				"MemberWithAHubsPurpose"}, name)
			if foreign != errors.Is(err, link.ErrIdentity) {
				t.Errorf("that the member is another one is said: %v, %v", !foreign, err)
			}
			if err == nil { // in TLS 1.3 a client learns with its first answer that it was refused
				_ = l.Close()
				t.Error("the link is open")
			}
			if err := <-served; err == nil {
				t.Error("the member served the link")
			}
		})
	}
}

// F7: answers that nobody reads hold no other request up, nor do bodies that nobody reads, or that do not end, however many there are.
func TestASlowStreamHoldsNoOther(t *testing.T) {
	const many, window, bodyWindow = 64, 256 << 10, 64 << 10
	full := make(chan struct{}, many)
	l, _ := linked(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			_, _ = w.Write(make([]byte, window))
			full <- struct{}{}
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case "/unread":
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/reads":
			_, _ = io.Copy(w, r.Body)
		}
	})
	filled := func(what string) {
		t.Helper()
		for range many {
			select {
			case <-full:
			case <-time.After(time.Minute):
				t.Fatalf("%s are held up by each other", what)
			}
		}
	}
	post := func(path string, body io.Reader) *http.Request {
		r := get(t, path)
		r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(body), -1
		return r
	}
	for range many {
		resp, err := l.RoundTrip(get(t, "/endless"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
	}
	filled("answers")
	for range many {
		sent := io.MultiReader(bytes.NewReader(make([]byte, bodyWindow)), atEnd(func() { full <- struct{}{} }))
		resp, err := l.RoundTrip(post("/unread", sent))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
	}
	filled("bodies")
	body, write := io.Pipe()
	defer write.Close()
	go func() {
		if resp, err := l.RoundTrip(post("/reads", body)); err == nil {
			_ = resp.Body.Close()
		}
	}()
	for range 100 {
		resp, err := l.RoundTrip(post("/reads", strings.NewReader("echo")))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "echo" {
			t.Fatalf("%q %v", got, err)
		}
		_ = resp.Body.Close()
	}
}

// atEnd is a reader of nothing that is called when it is read.
type atEnd func()

func (f atEnd) Read([]byte) (int, error) { f(); return 0, io.EOF }

// F22: an answer that is cut off fails, and a request that is given up ends at the member.
func TestACutAnswerIsNoWholeOne(t *testing.T) {
	gone := make(chan struct{}, 1)
	l, _ := linked(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a part")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	resp, err := l.RoundTrip(get(t, "/cut"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the answer ends well after %q", got)
	}
	_ = resp.Body.Close()

	ctx, cancel := context.WithCancel(t.Context())
	if resp, err = l.RoundTrip(get(t, "/waits").WithContext(ctx)); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	<-gone
}

// An upgrade is HTTP/1.1 to the member's handler, and a connection afterwards, both ways, until either end closes it.
func TestUpgradesHaveAStreamOfTheirOwn(t *testing.T) {
	l, _ := linked(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-Hub: %v\r\n\r\n", link.FromHub(r.Context()))
		_ = rw.Flush()
		_, _ = io.Copy(c, rw)
	})
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			ctx, asked := context.WithCancel(t.Context())
			defer asked()
			r := get(t, "/exec?command=a%20b").WithContext(ctx)
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", "echo")
			resp, err := l.Upgrading().RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("X-Hub") != "true" {
				t.Errorf("got %d %v", resp.StatusCode, resp.Header)
				return
			}
			asked() // the stream is not over with the request
			conn := resp.Body.(io.ReadWriteCloser)
			lines := bufio.NewReader(conn)
			for k := range 20 {
				line := fmt.Sprintf("%d %d\n", i, k)
				if _, err := io.WriteString(conn, line); err != nil {
					t.Error(err)
				}
				if got, err := lines.ReadString('\n'); got != line {
					t.Errorf("got %q, %v, want %q", got, err, line)
				}
			}
		})
	}
	all.Wait()
	resp, err := l.Upgrading().RoundTrip(get(t, "/"))
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("got %d without an upgrade, want 400", resp.StatusCode)
	}
	_ = resp.Body.Close()
}

// only is a listener of the connections that it is given.
type only chan net.Conn

func (o only) Accept() (net.Conn, error) {
	if c, ok := <-o; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (only) Close() error   { return nil }
func (only) Addr() net.Addr { return &net.TCPAddr{} }

// F17, F39: an upgrade that is given up, before the member has opened its stream, leaves nothing on the link, however many there are.
func TestAnUpgradeThatIsGivenUpLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := linktest.NewAuthority(t)
		own, err := a.Member(t, uid).Certificate()
		if err != nil {
			t.Fatal(err)
		}
		asked, conns := make(chan struct{}), make(only, 1)
		defer close(conns)
		member := &http.Server{ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols),
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				asked <- struct{}{}
				<-r.Context().Done()
			})}
		member.Protocols.SetHTTP2(true)
		one, other := net.Pipe()
		conns <- tls.Server(other, &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{*own},
			ClientAuth: tls.RequireAnyClientCert})
		go func() { _ = member.Serve(conns) }()
		l, err := link.Open(t.Context(), one, uid, a.Hub(t))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for range 100 {
			ctx, giveUp := context.WithCancel(t.Context())
			go func() {
				<-asked
				giveUp()
			}()
			r := get(t, "/exec").WithContext(ctx)
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", "echo")
			resp, err := l.Upgrading().RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if l.Finish(soon); soon.Err() != nil {
			t.Error("what was given up runs on")
		}
	})
}

// A member that stops lets what runs end, takes nothing new, and ends the link; so does a connection that breaks.
func TestALinkEnds(t *testing.T) {
	begun, on := make(chan struct{}), make(chan struct{})
	l, stop := linked(t, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-on
		_, _ = io.WriteString(w, "whole")
	})
	answered := make(chan string, 1)
	go func() {
		resp, err := l.RoundTrip(get(t, "/"))
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		answered <- fmt.Sprint(string(got), err)
	}()
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	close(on)
	if got := <-answered; got != "whole<nil>" {
		t.Errorf("what ran when the member stopped: %s", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("the member's end: %v", err)
	}
	<-l.Ended()
	if n := l.Available(); n != 0 {
		t.Errorf("a link that has ended has room for %d requests", n)
	}
	if resp, err := l.RoundTrip(get(t, "/")); err == nil {
		_ = resp.Body.Close()
		t.Error("a link that has ended carries a request")
	}
}

// What serves a link may do so for a request, by which the hub has dialled: nothing of that request is in those that come over the link.
func TestARequestHasNothingOfWhatServesTheLink(t *testing.T) {
	type key struct{}
	a := linktest.NewAuthority(t)
	one, other := linktest.Pair(t)
	got := make(chan any, 1)
	h := &link.Handler{Identity: a.Member(t, uid), Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Context().Value(key{}) })}
	go func() { _ = h.Serve(context.WithValue(t.Context(), key{}, "another's"), other, 0) }()
	l, err := link.Open(t.Context(), one, uid, a.Hub(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	resp, err := l.RoundTrip(get(t, "/"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if v := <-got; v != nil {
		t.Errorf("the context of a request has %v", v)
	}
}

func TestALinkThatBreaksEndsAtBothEnds(t *testing.T) {
	a := linktest.NewAuthority(t)
	one, other := linktest.Pair(t)
	served := make(chan error, 1)
	h := &link.Handler{Identity: a.Member(t, uid), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { served <- h.Serve(t.Context(), other, time.Second) }()
	l, err := link.Open(t.Context(), one, uid, a.Hub(t))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := l.RoundTrip(get(t, "/"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	_ = other.Close()
	<-l.Ended()
	if err := <-served; err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the member's end: %v", err)
	}
}

// F40: an answer of some pages' length is one frame, which wakes its reader once.
func TestAnAnswerIsOneFrame(t *testing.T) {
	const length = 60_000
	l, _ := linked(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, length)) })
	resp, err := l.RoundTrip(get(t, "/"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := resp.Body.Read(make([]byte, 2*length)); n != length || err != nil {
		t.Errorf("the first read has %d bytes, %v", n, err)
	}
}
