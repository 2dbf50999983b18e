package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is an HTTP/2 connection that does as it likes.
type frames struct {
	*http2.Framer
	conn  *tls.Conn
	host  string
	block bytes.Buffer
	enc   *hpack.Encoder
	next  uint32

	mu      sync.Mutex
	goAway  bool
	refused int           // streams that were reset by the server
	ended   chan struct{} // closed at the end of the connection
	late    bool          // which is only that of the test's patience
}

// newFrames connects, and reads what comes.
func newFrames(t *testing.T, base string) *frames {
	t.Helper()
	_, _, pool := authority(t)
	host := strings.TrimPrefix(base, "https://")
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}}).DialContext(t.Context(), "tcp",
		host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil { // of a test that fails
		t.Fatal(err)
	}
	f := &frames{Framer: http2.NewFramer(conn, conn), conn: conn.(*tls.Conn), host: host, next: 1, ended: make(chan struct{})}
	f.enc = hpack.NewEncoder(&f.block)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go f.read()
	return f
}

func (f *frames) read() {
	defer close(f.ended)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.late = errors.Is(err, os.ErrDeadlineExceeded)
			return
		}
		f.mu.Lock()
		switch frame.(type) {
		case *http2.GoAwayFrame:
			f.goAway = true
		case *http2.RSTStreamFrame:
			f.refused++
		}
		f.mu.Unlock()
	}
}

// ask opens a stream, and resets it at once where reset is true. The error says that the server has closed the connection.
func (f *frames) ask(path, token string, reset bool) error {
	f.block.Reset()
	for _, h := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", f.host}, {":path", path}, {"authorization", "Bearer " + token}} {
		if h[0] != "authorization" || token != "" {
			_ = f.enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
	}
	id := f.next
	f.next += 2
	err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.block.Bytes(), EndStream: true, EndHeaders: true})
	if err == nil && reset {
		err = f.WriteRSTStream(id, http2.ErrCodeCancel)
	}
	return err
}

// over tells whether the server has ended the connection, or says that it is about to.
func (f *frames) over(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.ended:
		if !f.late {
			return nil
		}
	default:
	}
	if !f.goAway {
		return errors.New("the connection goes on")
	}
	return nil
}

// Streams that are opened and reset in floods, or opened and left, cost a bounded number of goroutines and bytes, and others are served meanwhile; a
// connection of somebody who has not logged in ends with its first answer.
func TestAFloodOfStreamsIsBounded(t *testing.T) {
	proves(t, "S55")
	p := newPassage(t)
	a := p.as(admin(t))
	// hang returns the path of an object that kube-apiserver never answers for, how many requests of it wait there, and the most that did.
	hang := func(name string) (path string, waiting, most *atomic.Int64) {
		waiting, most = new(atomic.Int64), new(atomic.Int64)
		p.answer(t, "/configmaps/"+name, func(_ http.ResponseWriter, r *http.Request) {
			now := waiting.Add(1)
			defer waiting.Add(-1)
			for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			<-r.Context().Done()
		})
		return "/api/v1/namespaces/" + p.ns + "/configmaps/" + name, waiting, most
	}
	hangs, waiting, _ := hang("hangs")
	goroutines := func(ctx context.Context) float64 {
		n, err := p.metric(ctx, t, "go_goroutines")
		if err != nil {
			t.Fatalf("somebody else is not served: %v", err)
		}
		return n
	}
	idle := goroutines(t.Context())
	before := memory(t, p.replica.PID)
	const (
		streams = 250 // at once in a connection
		each    = 4   // goroutines that a request which waits for kube-apiserver costs, here and on the way
	)
	bounded := func(what string, connections int) {
		t.Helper()
		a.must(t, http.StatusOK, http.MethodGet, "/kapi/v1/namespaces?limit=1", nil)
		if n := goroutines(t.Context()); n > idle+100+float64(connections*streams*each) { // 100: as in calm, what else the server does
			t.Errorf("%s: %v goroutines, of %v before", what, n, idle)
		}
		if now := memory(t, p.replica.PID); now-before > 512<<20 {
			t.Errorf("%s: %d MiB, of %d before", what, now>>20, before>>20)
		}
	}
	calm := func(what string, waiting *atomic.Int64) {
		t.Helper()
		eventually(t, what+" is over", func(ctx context.Context) error {
			if n := goroutines(ctx); n > idle+100 || waiting.Load() > 0 {
				return fmt.Errorf("%v goroutines, of %v before; %d requests wait", n, idle, waiting.Load())
			}
			return nil
		})
	}
	t.Run("without a login", func(t *testing.T) {
		for _, reset := range []bool{true, false} {
			for _, path := range []string{hangs, "/version", "/oauth/token"} {
				f := newFrames(t, p.tls)
				for range 1000 {
					if f.ask(path, "", reset) != nil {
						break
					}
				}
				eventually(t, "the connection is ended", f.over)
				_ = f.conn.Close()
			}
		}
		bounded("a flood without a login", 1)
		f := newFrames(t, p.tls)
		for range 100 {
			if err := f.ask("/version", "", false); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the hundredth answer is the last", f.over)
		calm("it", waiting)
	})
	t.Run("resets", func(t *testing.T) {
		const connections = 2
		var all sync.WaitGroup
		for range connections {
			f := newFrames(t, p.tls)
			all.Go(func() {
				for range 3000 {
					if f.ask(hangs, p.me.token, true) != nil {
						return
					}
				}
			})
		}
		bounded("while streams are reset", connections)
		all.Wait()
		bounded("after streams were reset", connections)
		calm("the flood of resets", waiting)
	})
	t.Run("streams that are left open", func(t *testing.T) {
		open, waiting, most := hang("left-open") // a path of its own: late requests of the floods before don't count
		f := newFrames(t, p.tls)
		for range 4 * streams {
			if f.ask(open, p.me.token, false) != nil {
				break
			}
		}
		bounded("streams that are left open", 1)
		if n := most.Load(); n > streams {
			t.Errorf("%d requests of one connection wait at kube-apiserver", n)
		}
		_ = f.conn.Close()
		calm("what was left open", waiting)
	})
	t.Run("headers without an end", func(t *testing.T) {
		f := newFrames(t, p.tls)
		f.block.Reset()
		_ = f.enc.WriteField(hpack.HeaderField{Name: ":method", Value: "GET"})
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.block.Bytes()})
		piece := bytes.Repeat([]byte{0x00, 0x01, 'a', 0x01, 'b'}, 3000) // literal headers, each of which is to be kept
		for i := 0; err == nil && i < 2000; i++ {
			err = f.WriteContinuation(1, false, piece)
		}
		eventually(t, "the connection is ended", f.over)
		bounded("headers without an end", 1)
	})
	t.Run("settings and pings", func(t *testing.T) {
		f := newFrames(t, p.tls)
		for i := range 20_000 {
			if f.WritePing(false, [8]byte{byte(i)}) != nil || f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)}) != nil {
				break
			}
		}
		bounded("settings and pings", 1)
	})
}
