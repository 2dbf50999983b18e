package link

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// writes records what is written at once.
type writes struct {
	io.ReadWriteCloser
	all [][]byte
}

func (w *writes) Write(p []byte) (int, error) {
	w.all = append(w.all, bytes.Clone(p))
	return len(p), nil
}

// frame returns a frame with a payload, as a client sends it.
func frame(payload int) []byte {
	b := []byte{0x82}
	switch {
	case payload < 126:
		b = append(b, 0x80|byte(payload))
	case payload < 1<<16:
		b = append(b, 0x80|126, byte(payload>>8), byte(payload)) //nolint:gosec // its low byte
	default:
		b = append(b, 0x80|127, 0, 0, 0, 0, 0, byte(payload>>16), byte(payload>>8), byte(payload)) //nolint:gosec // the same
	}
	return append(append(b, 1, 2, 3, 4), bytes.Repeat([]byte{0xff}, payload)...)
}

// F40: however a WebSocket cuts its frames, each is written at once, and none is held back when it is whole.
func TestEachFrameIsWrittenAtOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	for range 300 {
		out := &writes{}
		w := &frameWriter{ReadWriteCloser: out}
		for range 5 {
			of := frame([]int{0, 1, 125, 126, 127, 4082, 4088, 4096, 16_406, mostHeld - 14}[r.IntN(10)])
			before := len(out.all)
			for rest := of; len(rest) > 0; {
				n := min(len(rest), []int{1, 2, 3, 4096, 1 << 20}[r.IntN(5)])
				if len(of) > 1000 {
					n = min(len(rest), max(n, 1000))
				}
				if got, err := w.Write(rest[:n]); err != nil || got != n {
					t.Fatal(got, err)
				}
				if rest = rest[n:]; len(rest) > 0 && len(out.all) != before {
					t.Fatalf("a part of a frame of %d bytes was written", len(of))
				}
			}
			if len(out.all) != before+1 || !bytes.Equal(out.all[before], of) {
				t.Fatalf("a frame of %d bytes became %d writes", len(of), len(out.all)-before)
			}
		}
	}
}

// F39: what is held back has a bound; a frame that is longer, and what follows it, is written as it comes.
func TestALongFrameIsNotHeldBack(t *testing.T) {
	out := &writes{}
	w := &frameWriter{ReadWriteCloser: out}
	all := append(frame(10), append(frame(100_000), frame(20)...)...)
	for rest := all; len(rest) > 0; {
		n := min(len(rest), 4096)
		if got, err := w.Write(rest[:n]); err != nil || got != n {
			t.Fatal(got, err)
		}
		if rest = rest[n:]; len(w.held) > mostHeld+4096 {
			t.Fatalf("%d bytes are held back", len(w.held))
		}
	}
	if got := bytes.Join(out.all, nil); !bytes.Equal(got, all) {
		t.Errorf("%d of %d bytes were written", len(got), len(all))
	}
	if len(out.all) < 10 {
		t.Errorf("%d writes", len(out.all))
	}
}

// countedWrites counts what is written to a connection.
type countedWrites struct {
	net.Conn
	n atomic.Int64
}

func (c *countedWrites) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}

// F40: a frame that has a whole record of the link is longer than one of the TLS around it, and is one write all the same, as it was sent.
func TestTheRecordsOfAFrameAreOneWrite(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	near, far := net.Pipe()
	counted := &countedWrites{Conn: near}
	conn, err := Corked(func(context.Context, string, string) (net.Conn, error) { return counted, nil })(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	hub := tls.Server(far, &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true})
	member := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}) //nolint:gosec // nobody is to be known
	defer func() { _ = near.Close() }()
	of := frame(16_406)
	read := make(chan []byte, 10)
	go func() {
		defer close(read)
		for {
			b := make([]byte, len(of))
			if _, err := io.ReadFull(hub, b); err != nil {
				return
			}
			read <- b
		}
	}()
	if err := member.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &frameWriter{ReadWriteCloser: member, below: corkedOf(member)}
	for range 3 {
		before := counted.n.Load()
		if n, err := w.Write(of); n != len(of) || err != nil {
			t.Fatal(n, err)
		}
		if n := counted.n.Load() - before; n != 1 {
			t.Errorf("a frame is %d writes", n)
		}
		if got := <-read; !bytes.Equal(got, of) {
			t.Error("another frame arrives")
		}
	}
	if corkedOf(near) != nil || corkedOf(tls.Client(near, &tls.Config{ServerName: "x"})) != nil { //nolint:gosec // not used
		t.Error("a connection that was not dialled so can hold back what is written")
	}
}
