package apiserver

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"kapis.dev/ks-apiserver/pkg/apiserver/drain"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

// F7: a client of HTTP/2 that opens its windows, and then reads nothing of its connection, is cut off too: nothing could tell it that an
// answer has ended.
func TestASilentHTTP2ClientIsCutOff(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	certificate := server.TLS.Certificates[0]
	server.Close()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		ln := &pipeListener{make(chan net.Conn, 1), make(chan struct{})}
		ln.conns <- far
		ctx, stop := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		endless := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			out := stream.New(stream.Options{}).Progress(w)
			for {
				if _, err := out.Write(make([]byte, 64<<10)); err != nil {
					gone <- err
					return
				}
			}
		})
		ended := make(chan error, 1)
		secured := tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
		go func() { ended <- serve(ctx, endless, []net.Listener{secured}, drain.New(), 0) }()
		client := tls.Client(near, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // in memory
		if _, err := io.WriteString(client, http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		frames := http2.NewFramer(client, client)
		for _, write := range []func() error{
			func() error {
				return frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
			},
			func() error { return frames.WriteWindowUpdate(0, 1<<30) },
			func() error {
				// :method GET, :scheme https, :path /, and :authority x, by HPACK's static table (RFC 7541, appendix A).
				return frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true,
					BlockFragment: []byte{0x82, 0x87, 0x84, 0x01, 0x01, 'x'}})
			},
		} {
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-gone; err == nil {
			t.Error("the answer goes on")
		}
		_ = near.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// F7: an answer that a client of HTTP/2 takes nothing of ends with its stream, however short it is: neither its handler nor a stop waits for it.
func TestAShortAnswerThatAnHTTP2ClientDoesNotTakeEnds(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	config := &tls.Config{Certificates: server.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	server.Close()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		ln := &pipeListener{make(chan net.Conn, 1), make(chan struct{})}
		ln.conns <- far
		ctx, stop := context.WithCancel(t.Context())
		var returned atomic.Int32
		answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer returned.Add(1)
			switch {
			case r.URL.Path != "/": // as a proxy writes, without a deadline of its own: it stays in net/http's buffer
				_, _ = io.WriteString(w, "short")
			case r.Method == http.MethodPost:
				web.WriteJSON(w, r, http.StatusOK, strings.Repeat("x", 10<<10))
			default:
				httpcache.Write(w, r, make([]byte, 10<<10))
			}
		})
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, answers, []net.Listener{tls.NewListener(ln, config)}, drain.New(), 0) }()
		client := tls.Client(near, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // in memory
		if _, err := io.WriteString(client, http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		frames := http2.NewFramer(client, client)
		go func() {
			_ = frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			for i, of := range [][2]byte{{0x82, 0x84}, {0x83, 0x84}, {0x82, 0x85}} { // GET /, POST /, GET /index.html; the rest as above
				_ = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), EndStream: true, EndHeaders: true,
					BlockFragment: []byte{of[0], 0x87, of[1], 0x01, 0x01, 'x'}})
			}
		}()
		began, reset := time.Now(), 0
		for reset < 3 {
			frame, err := frames.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if frame.Header().Type == http2.FrameRSTStream {
				reset++
			}
		}
		if d := time.Since(began); d > time.Minute {
			t.Errorf("an answer lasts %v", d)
		}
		synctest.Wait()
		if n := returned.Load(); n != 3 {
			t.Errorf("%d handlers of 3 have returned", n)
		}
		go func() { _, _ = io.Copy(io.Discard, client) }()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = near.Close()
	})
}

// F7: a body that nobody reads holds no other of its connection: the window of the connection is as large as those of all its streams.
func TestABodyThatNobodyReadsHoldsNoOther(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	config := &tls.Config{Certificates: server.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	server.Close()
	near, far := net.Pipe()
	ln := &pipeListener{make(chan net.Conn, 1), make(chan struct{})}
	ln.conns <- far
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, http.NotFoundHandler(), []net.Listener{tls.NewListener(ln, config)}, drain.New(), 0)
	}()
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // in memory
	if _, err := io.WriteString(client, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(client, client)
	go func() { _ = frames.WriteSettings() }()
	var streams, window uint32
	for all := uint32(65_535); window == 0 || all < streams*window; { // RFC 9113, 6.9.2
		frame, err := frames.ReadFrame()
		if err != nil {
			t.Fatalf("%d bytes for %d streams of %d: %v", all, streams, window, err)
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				streams, _ = f.Value(http2.SettingMaxConcurrentStreams)
				window, _ = f.Value(http2.SettingInitialWindowSize)
			}
		case *http2.WindowUpdateFrame:
			all += f.Increment
			if all < streams*window {
				t.Fatalf("%d bytes for %d streams of %d", all, streams, window)
			}
		}
	}
	_ = near.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// pipeListener is a listener with the connections in conns.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{} }

func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}
