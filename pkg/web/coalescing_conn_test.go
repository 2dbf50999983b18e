package web

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// joinedServer answers with a body of as many bytes as the query says, in writes of as many, and with as many in a header.
func joinedServer(t testing.TB) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.FormValue("n"))
		size, _ := strconv.Atoi(r.FormValue("writes"))
		pad, _ := strconv.Atoi(r.FormValue("pad"))
		w.Header()["Content-Length"], w.Header()["X-Pad"] = []string{strconv.Itoa(n)}, []string{strings.Repeat("x", pad)}
		if r.FormValue("join") != "" {
			defer Coalesce(r.Context(), int64(n))()
		}
		for body := bodyOf(n); len(body) > 0; {
			part := body[:min(size, len(body))]
			if _, err := w.Write(part); err != nil {
				t.Error(err)
				return
			}
			body = body[len(part):]
		}
	}))
	s.Listener, s.Config.ConnContext = CoalesceWrites(s.Listener), CoalesceContext
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func bodyOf(n int) []byte { return bytes.Repeat([]byte("0123456789abcde\n"), n/16+1)[:n] }

// This holds for any lengths of header, body and writes, on a connection that is used repeatedly.
func TestJoinedAnswersArriveWhole(t *testing.T) {
	s := joinedServer(t)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}, Timeout: 2 * time.Minute}
	defer client.CloseIdleConnections()
	random := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // a test that can be repeated
	for range 2000 {
		n, size, pad := random.IntN(3*firstWrite), 1+random.IntN(2*firstWrite), random.IntN(firstWrite)
		if random.IntN(3) == 0 {
			n = firstWrite + random.IntN(20) - 10
		}
		at := fmt.Sprintf("%s?n=%d&writes=%d&pad=%d", s.URL, n, size, pad)
		if random.IntN(4) > 0 {
			at += "&join=yes"
		}
		res, err := client.Get(at)
		if err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !bytes.Equal(body, bodyOf(n)) {
			t.Fatalf("%s: %d bytes, %v", at, len(body), err)
		}
	}
}

func TestTheFirstWriteWaitsForTheNext(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	c, err := CoalesceWrites(l).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	j, ctx := c.(*coalescingConn), CoalesceContext(t.Context(), c)
	write := func(n int, held bool) {
		t.Helper()
		if m, err := c.Write(bodyOf(n)); m != n || err != nil {
			t.Fatalf("wrote %d of %d: %v", m, n, err)
		}
		if (j.held != nil) != held {
			t.Fatalf("held after %d bytes: %v, want %v", n, !held, held)
		}
	}
	want := 0
	for _, answers := range [][2]int{{firstWrite, 1}, {firstWrite, 3 * firstWrite}} {
		done := Coalesce(ctx, firstWrite+1)
		write(answers[0], true)
		write(answers[1], false)
		done()
		want += answers[0] + answers[1]
	}
	Coalesce(ctx, firstWrite) // which may be the whole answer
	write(firstWrite, false)
	Coalesce(ctx, 2*firstWrite) // the first write is another one
	write(100, false)
	write(firstWrite, false)
	Coalesce(ctx, 2*firstWrite)() // nothing was written: the next write is another answer's
	write(firstWrite, false)
	want += 3*firstWrite + 100
	if _, err := io.ReadFull(client, make([]byte, want)); err != nil {
		t.Fatal(err)
	}
}

func TestJoinIsNothingElsewhere(t *testing.T) {
	Coalesce(t.Context(), 1<<20)()
	one, other := net.Pipe()
	defer func() { _, _ = one.Close(), other.Close() }()
	if CoalesceContext(t.Context(), one) != t.Context() {
		t.Error("a connection that can't hold anything back is noted")
	}
}
