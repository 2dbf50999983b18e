package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/stream"
)

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// events is a watch: one event, and then silence until the client disconnects.
func events(gone chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "event\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		if gone != nil {
			gone <- struct{}{}
		}
	}
}

// watch opens a watch and returns the rest of it after its first event.
func watch(t *testing.T, url string) (*bufio.Reader, func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // of a failing test
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	leave := func() { cancel(); _ = res.Body.Close() }
	t.Cleanup(leave)
	r := bufio.NewReader(res.Body)
	if line, err := r.ReadString('\n'); err != nil || line != "event\n" { // before the watch ends: it was flushed
		t.Fatalf("the first event is %q: %v", line, err)
	}
	return r, leave
}

var longPaths = []string{"/api/v1/pods?watch=true", "/api/v1/watch/pods", "/api/v1/namespaces/a/pods/p/log?follow=true"}

func TestEventsArriveAtOnceAndTheEndIsPassedOn(t *testing.T) {
	gone := make(chan struct{})
	_, srv := proxied(t, events(gone))
	for _, path := range longPaths {
		_, leave := watch(t, srv.URL+path)
		leave()
		<-gone // the backend learns that the client left
	}
}

func TestWatchesEndWithTheRight(t *testing.T) { // S53
	b := newBackend(t, events(nil))
	for _, path := range longPaths {
		var withdrawn atomic.Bool
		checked := make(chan struct{}, 100)
		k := newKube(t, KubeOptions{Config: b.config(), Streams: stream.New(stream.Options{RecheckEvery: 2 * time.Millisecond,
			Recheck: func(_ context.Context, r *http.Request) error {
				select {
				case checked <- struct{}{}:
				default:
				}
				if withdrawn.Load() {
					return errors.New("the token was revoked")
				}
				return nil
			}})})
		rest, _ := watch(t, front(t, k, bob, allowed).URL+path)
		<-checked
		<-checked // it is checked again and again
		withdrawn.Store(true)
		if more, err := io.ReadAll(rest); err != nil || len(more) > 0 {
			t.Errorf("%s: the end is not a clean one: %q %v", path, more, err)
		}
	}
}

// A part of a download is not taken for the whole one, over either version of HTTP.
func TestADownloadThatThisServerEndsIsCut(t *testing.T) {
	for name, x := range map[string]struct {
		path, media string
		http2, cut  bool
	}{
		"Service":     {path: "/api/v1/namespaces/a/services/s/proxy/backup.tar", media: "application/x-tar", cut: true},
		"Pod":         {path: "/api/v1/namespaces/a/pods/p/proxy/backup.tar", cut: true},
		"Node":        {path: "/api/v1/nodes/n/proxy/logs/messages", cut: true},
		"HTTP2":       {path: "/api/v1/namespaces/a/services/s/proxy/backup.tar", http2: true, cut: true},
		"EventStream": {path: "/api/v1/namespaces/a/services/s/proxy/events", media: "text/event-stream; charset=utf-8"},
		"WatchHTTP2":  {path: longPaths[0], http2: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
				if x.media != "" {
					w.Header().Set("Content-Type", x.media)
				}
				events(nil)(w, r)
			})
			drain, stop := context.WithCancel(context.Background())
			defer stop()
			k := newKube(t, KubeOptions{Config: b.config(), Streams: stream.New(stream.Options{Drain: drain})})
			srv := httptest.NewUnstartedServer(filtered(k, bob, allowed))
			srv.EnableHTTP2 = x.http2
			srv.StartTLS()
			defer srv.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+x.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if line, err := bufio.NewReaderSize(res.Body, 16).ReadString('\n'); err != nil || (res.ProtoMajor == 2) != x.http2 {
				t.Fatalf("it begins with %q by HTTP/%d: %v", line, res.ProtoMajor, err)
			}
			stop()
			if _, err := io.ReadAll(res.Body); (err != nil) != x.cut {
				t.Errorf("it ends with %v, want it cut: %v", err, x.cut)
			}
		})
	}
}

func TestACheckThatHangsEndsTheWatch(t *testing.T) { // S53
	b := newBackend(t, events(nil))
	k := newKube(t, KubeOptions{Config: b.config(), Streams: stream.New(stream.Options{RecheckEvery: time.Millisecond,
		Recheck: func(ctx context.Context, _ *http.Request) error { <-ctx.Done(); return ctx.Err() }})})
	rest, _ := watch(t, front(t, k, bob, allowed).URL+longPaths[0])
	if _, err := io.ReadAll(rest); err != nil {
		t.Errorf("the end is not a clean one: %v", err)
	}
}

func TestDrainingEndsWatchesCleanly(t *testing.T) {
	b := newBackend(t, events(nil))
	drain, stop := context.WithCancel(context.Background())
	k := newKube(t, KubeOptions{Config: b.config(), Streams: stream.New(stream.Options{Drain: drain})})
	srv := front(t, k, bob, allowed)
	rest, _ := watch(t, srv.URL+longPaths[0])
	stop()
	if more, err := io.ReadAll(rest); err != nil || len(more) > 0 {
		t.Errorf("the end is not a clean one: %q %v", more, err)
	}
	res, _ := get(t, srv.URL+longPaths[0])
	if res.StatusCode != http.StatusServiceUnavailable && res.StatusCode != http.StatusOK {
		t.Errorf("a new watch is answered with %d", res.StatusCode)
	}
}

func TestTheConnectionServesOnAfterAnEndedWatch(t *testing.T) {
	b := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			events(nil)(w, r)
			return
		}
		ok(w, r)
	})
	k := newKube(t, KubeOptions{Config: b.config(), Streams: stream.New(stream.Options{RecheckEvery: time.Millisecond,
		Recheck: func(context.Context, *http.Request) error { return errors.New("no") }})})
	c := rawDial(t, front(t, k, bob, allowed))
	c.send("GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
	c.answer()
	c.send("GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n\r\n")
	if res, body := c.answer(); res.StatusCode != http.StatusOK || body != "ok" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

func TestNothingIsLeftOfAbandonedWatches(t *testing.T) {
	old := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, old) }) // runs last: after the servers are closed
	gone := make(chan struct{})
	b := newBackend(t, events(gone))
	k := newKube(t, KubeOptions{Config: b.config(), Streams: stream.New(stream.Options{RecheckEvery: time.Millisecond,
		Recheck: func(context.Context, *http.Request) error { return nil }})})
	srv := front(t, k, bob, allowed)
	for range 10 {
		_, leave := watch(t, srv.URL+longPaths[0])
		leave()
		<-gone
	}
}

// F7: a client that reads nothing holds no connection that others use, whatever it asks for.
func TestAClientThatReadsNothingIsCutOff(t *testing.T) {
	gone := make(chan string, 1)
	endless := func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				gone <- r.URL.Path
				return
			}
		}
	}
	atOnce := stream.New(stream.Options{Progress: 20 * time.Millisecond, Patience: time.Hour})
	atLast := stream.New(stream.Options{Progress: time.Hour, Patience: 20 * time.Millisecond})
	kube := func(by *stream.Guard) http.Handler {
		return newKube(t, KubeOptions{Config: newBackend(t, endless).config(), Streams: by})
	}
	members := func(by *stream.Guard) http.Handler { return NewMembers(newFleet(t, endless).members.ByName, by) }
	for _, c := range []struct {
		by     http.Handler
		target string
	}{
		{kube(atOnce), "/api/v1/pods"},
		{kube(atOnce), "/api/v1/pods?watch=true"},
		{kube(atLast), "/api/v1/namespaces/a/pods/b/log"},
		{kube(atLast), "/api/v1/namespaces/a/pods/b/log?follow=true"},
		{members(atOnce), "/clusters/m1/api/v1/pods"},
		{members(atOnce), "/clusters/m1/api/v1/pods?watch=true"},
		{members(atLast), "/clusters/m1/api/v1/namespaces/a/pods/b/log"},
		{members(atLast), "/clusters/m1/api/v1/namespaces/a/pods/b/log?follow=true"},
	} {
		srv := httptest.NewServer(filtered(c.by, person, allowed))
		rawDial(t, srv).send("GET " + c.target + " HTTP/1.1\r\nHost: x\r\n\r\n")
		select {
		case <-gone:
		case <-time.After(time.Minute):
			t.Errorf("%s: it goes on", c.target)
		}
		srv.CloseClientConnections()
		srv.Close()
	}
}

func TestAClientThatLeavesBeforeTheAnswer(t *testing.T) {
	old := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, old) })
	arrived, gone := make(chan struct{}), make(chan struct{})
	b := newBackend(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	k := newKube(t, KubeOptions{Config: b.config()})
	var code atomic.Int64
	returned := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		filtered(k, bob, allowed)(&codeWriter{w, &code}, r)
	}))
	t.Cleanup(srv.Close)
	c := rawDial(t, srv)
	c.send("GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n\r\n")
	<-arrived
	_ = c.conn.Close()
	<-gone
	<-returned
	if code.Load() != relay.StatusClientClosed {
		t.Errorf("it is recorded as %d", code.Load())
	}
}

type codeWriter struct {
	http.ResponseWriter
	code *atomic.Int64
}

func (w *codeWriter) WriteHeader(code int) {
	w.code.Store(int64(code))
	w.ResponseWriter.WriteHeader(code)
}

func (w *codeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
