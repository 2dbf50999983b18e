package feed

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// dripping is a source of bytes that grows with the time: one write of ten bytes each tenth of a millisecond.
type dripping struct {
	net.Conn
	began time.Time
	read  int
	reads int
}

func (d *dripping) Read(p []byte) (int, error) {
	d.reads++
	for {
		n := min(10*int(time.Since(d.began)/(100*time.Microsecond))-d.read, len(p))
		if n > 0 {
			d.read += n
			return n, nil
		}
		if d.read >= 100_000 {
			return 0, io.EOF
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// A busy connection is read seldom, and loses nothing.
func TestBusyConnectionsAreReadSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dripping{began: time.Now()}
		n, err := io.Copy(io.Discard, io.LimitReader(&batchingConn{Conn: d}, 100_000))
		if err != nil || n != 100_000 {
			t.Fatal(n, err)
		}
		if d.reads > 510 { // of 10 000 writes in a second
			t.Errorf("%d reads", d.reads)
		}
	})
}

// burst returns what it has, as much at a time as there is room for.
type burst struct {
	net.Conn
	rest  *bytes.Reader
	pause time.Duration // before each read
}

func (b *burst) Read(p []byte) (int, error) {
	time.Sleep(b.pause)
	return b.rest.Read(p)
}

// A read does not wait where much is there already, nor on a connection that was quiet.
func TestConnectionsWaitForNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		pause time.Duration
		most  time.Duration
	}{
		"MuchIsThere": {0, readPause}, // the end, which is a short read, is waited for
		"Quiet":       {10 * readPause, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const size = 1 << 20
				began, reads := time.Now(), 0
				b := &burst{rest: bytes.NewReader(make([]byte, size)), pause: c.pause}
				in := &batchingConn{Conn: b}
				buf := make([]byte, size)
				for n := 0; n < size; reads++ {
					k, err := in.Read(buf[n:])
					if err != nil {
						t.Fatal(err)
					}
					n += k
				}
				if took := time.Since(began) - time.Duration(reads)*c.pause; took > c.most {
					t.Errorf("%v of waiting in %d reads", took, reads)
				}
			})
		})
	}
}

func TestTheConnectionIsFoundBelowTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	dialed := make(chan net.Conn, 1)
	dial := dialer(nil)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the certificate is of no interest
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			dialed <- c
			return struct{ net.Conn }{c}, err // as a client wraps it that may have to close it
		},
	}}
	defer client.CloseIdleConnections()
	var found *batchingConn
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { found = batchingConnOf(i.Conn) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if c := <-dialed; found == nil || net.Conn(found) != c {
		t.Errorf("found %v, want the connection that was dialed", found)
	}
	if c, other := net.Pipe(); batchingConnOf(c) != nil || other.Close() != nil {
		t.Error("found one of ours where there is none")
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noKind is a kind without hidden fields.
var noKind schema.GroupResource
