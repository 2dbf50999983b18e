package backend_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// A backend that is built with k8s.io/apiserver has its groups below /apis.
func TestABackendHasItsGroupBelowAnotherRoot(t *testing.T) { // X4, X5
	w := newWorld(t)
	w.set("apiservices", "shop", obj{"group": "shop.example.com", "version": "v1", "url": w.URL},
		obj{"metadata": obj{"name": "shop", "annotations": obj{"kapis.dev/backend-root": "/apis"}}})
	for target, want := range map[string]string{things + "/x?a=%2F": "/apis/shop.example.com/v1/namespaces/a/things/x?a=%2F",
		"/clusters/host" + things: "/apis/shop.example.com/v1/namespaces/a/things", things + "/%2Fkapis%2F": "/apis/shop.example.com/v1/namespaces/a/things/%2Fkapis%2F"} {
		rec := w.ask(ann, http.MethodGet, target, "")
		switch {
		case rec.Code >= 400 && w.got == nil && strings.Contains(target, "%2Fkapis"): // it is refused as a path
		case rec.Code != 200 || w.got.RequestURI != want || w.got.Header.Get("X-Remote-User") != "ann":
			t.Errorf("%s: %d, the backend is asked %v", target, rec.Code, w.got)
		}
	}
}

// X10: uploads that their clients break off are not the backend's fault: nobody closes it for others.
func TestX10AnUploadThatIsBrokenOffSaysNothingOfTheBackend(t *testing.T) {
	w := newWorld(t)
	reads := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer reads.Close()
	w.set("apiservices", "shop", obj{"group": "shop.example.com", "version": "v1", "url": reads.URL}, nil)
	for range 10 {
		body := io.MultiReader(strings.NewReader(strings.Repeat("x", 64<<10)), iotest.ErrReader(io.ErrUnexpectedEOF))
		w.serve(ann).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, things, body))
	}
	if rec := w.ask(ann, http.MethodGet, things, ""); rec.Code != 200 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// X10: a client can't have requests fail by what it says of trailers, which would close the backend for others.
func TestX10WhatAClientSaysOfTrailersClosesNoBackend(t *testing.T) {
	w := newWorld(t)
	w.service()
	front := httptest.NewServer(w.serve(ann))
	defer front.Close()
	for range 10 {
		c, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(c, "POST "+things+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: a b, X-Remote-User\r\n\r\n"+
			"1\r\nx\r\n0\r\nX-Remote-User: root\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		_ = c.Close()
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
			t.Fatalf("%.300s %v", answer, err)
		}
		if w.body != "x" || len(w.got.Trailer) > 0 {
			t.Errorf("the backend has got %q %v", w.body, w.got.Trailer)
		}
	}
	if rec := w.ask(ann, http.MethodGet, things, ""); rec.Code != 200 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// paused is a body that closes sent when more than its first bytes are asked for: they have been sent by then.
type paused struct {
	io.ReadCloser
	first int
	sent  chan struct{}
}

func (b *paused) Read(p []byte) (int, error) {
	switch {
	case b.first > 0:
		p = p[:min(len(p), b.first)]
	case b.sent != nil:
		close(b.sent)
		b.sent = nil
	}
	n, err := b.ReadCloser.Read(p)
	b.first -= n
	return n, err
}

// X10: what one user sends, and the backend does not read, holds nobody else's requests, and its answer arrives all the same.
func TestX10ABodyThatTheBackendDoesNotReadHoldsNoOther(t *testing.T) {
	const window = 64 << 10 // of all bodies on a connection of HTTP/2
	w, end := newWorld(t), make(chan struct{})
	reads := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(rw, r.Body)
			return
		}
		rw.WriteHeader(http.StatusOK)
		rw.(http.Flusher).Flush()
		<-end
	}))
	reads.EnableHTTP2, reads.Config.HTTP2 = true, &http.HTTP2Config{MaxReceiveBufferPerConnection: window}
	reads.StartTLS()
	defer reads.Close()
	w.set("apiservices", "shop", obj{"group": "shop.example.com", "version": "v1", "url": reads.URL, "insecureSkipVerify": true}, nil)
	sent := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.Body = &paused{ReadCloser: r.Body, first: window, sent: sent}
		w.serve(ann).ServeHTTP(rw, r)
	}))
	defer front.Close()
	defer close(end)
	watch, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+things+"?watch=true", strings.NewReader(strings.Repeat("x", 2<<20)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(watch)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	defer resp.Body.Close()
	<-sent
	bob := &user.DefaultInfo{Name: "bob", UID: "uid-bob"}
	if rec := w.ask(bob, http.MethodPost, things, "0123456789"); rec.Code != http.StatusOK || rec.Body.String() != "0123456789" {
		t.Errorf("another user's body: %d %s", rec.Code, rec.Body)
	}
}

// X12: a backend that no object leads to any more is disconnected, and what it shared with others stays.
func TestX12ABackendThatIsLeftIsDisconnected(t *testing.T) {
	var mu sync.Mutex
	open, changed := map[net.Conn]bool{}, make(chan struct{}, 64)
	left := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	left.Config.ConnState = func(c net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if open[c] = true; state == http.StateClosed || state == http.StateHijacked {
			delete(open, c)
		}
		changed <- struct{}{}
	}
	left.Start()
	defer left.Close()
	connections := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(open)
	}
	w := newWorld(t)
	spec := func(url string) obj { return obj{"group": "shop.example.com", "version": "v1", "url": url} }
	w.set("apiservices", "shop", spec(left.URL), nil)
	w.set("reverseproxies", "shop", obj{"matcher": obj{"path": "/proxy/shop/*"}, "upstream": obj{"url": left.URL}}, nil)
	for _, path := range []string{things, "/proxy/shop/"} {
		if rec := w.ask(ann, http.MethodGet, path, ""); rec.Code != 200 {
			t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
	if n := connections(); n != 1 {
		t.Errorf("two objects with one backend have %d connections", n)
	}
	w.set("apiservices", "shop", spec(w.URL), nil)
	if rec := w.ask(ann, http.MethodGet, "/proxy/shop/", ""); rec.Code != 200 || connections() != 1 {
		t.Errorf("the other object: %d, %d connections", rec.Code, connections())
	}
	w.set("reverseproxies", "shop", obj{"matcher": obj{"path": "/proxy/shop/*"}, "upstream": obj{"url": w.URL}}, nil)
	for late := time.After(time.Minute); connections() > 0; {
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%d connections are open", connections())
		}
	}
}
