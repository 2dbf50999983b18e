package terminal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/terminal"
)

// talk opens a session by a sub-protocol.
func (s *server) talk(t *testing.T, protocol string) client {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), s.URL, &websocket.DialOptions{Subprotocols: []string{protocol}})
	if err != nil {
		t.Fatal(err)
	}
	if got := conn.Subprotocol(); got != protocol {
		t.Fatalf("the sub-protocol is %q", got)
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return client{t, conn}
}

// channels reads what a client of v5.channel.k8s.io is sent, by channel, until the end.
func (c client) channels() (by map[byte][]byte, code websocket.StatusCode) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	by = map[byte][]byte{}
	for {
		kind, raw, err := c.Read(ctx)
		if err != nil {
			return by, websocket.CloseStatus(err)
		}
		if kind != websocket.MessageBinary || len(raw) == 0 {
			c.t.Fatalf("a message of kind %v is %q", kind, raw)
		}
		by[raw[0]] = append(by[raw[0]], raw[1:]...)
	}
}

func (c client) binary(raw ...byte) {
	c.t.Helper()
	if err := c.Write(c.t.Context(), websocket.MessageBinary, raw); err != nil {
		c.t.Fatal(err)
	}
}

func TestASessionByChannelsPassesEveryByte(t *testing.T) { // O3
	var all []byte
	for i := range 1 << 16 {
		all = append(all, byte(i), byte(i>>8))
	}
	s := serve(t, terminal.Options{}, stream.Options{}, func(_ context.Context, s terminal.Streams) error {
		s.Started()
		size := <-s.Sizes
		fmt.Fprintf(s.Stdout, "%dx%d ", size.Width, size.Height)
		_, err := io.Copy(s.Stdout, s.Stdin)
		if err == nil {
			err = &terminal.ExitError{Code: 3}
		}
		return err
	})
	c := s.talk(t, terminal.ProtocolChannels)
	c.binary(append([]byte{4}, `{"Width":151,"Height":55}`...)...)
	c.binary() // an empty message is none
	for rest := all; len(rest) > 0; {
		n := min(len(rest), 1000)
		c.binary(append([]byte{0}, rest[:n]...)...)
		rest = rest[n:]
	}
	c.binary(255, 0) // the end of the input
	got, code := c.channels()
	if !bytes.Equal(got[1], append([]byte("151x55 "), all...)) || len(got[2]) > 0 {
		t.Errorf("%d bytes are shown, and %q", len(got[1]), got[2])
	}
	const status = `{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: exit status 3","reason":"NonZeroExitCode",` +
		`"details":{"causes":[{"reason":"ExitCode","message":"3"}]}}`
	if string(got[3]) != status || code != websocket.StatusNormalClosure {
		t.Errorf("%v %s", code, got[3])
	}
	if e := s.ending(t); e.Exit != 3 {
		t.Errorf("%+v", e)
	}
}

func TestTheEndOfASessionByChannelsIsAStatus(t *testing.T) {
	for want, result := range map[string]error{`{"metadata":{},"status":"Success"}`: nil, `"status":"Failure"`: errors.New("lost")} {
		s := serve(t, terminal.Options{}, stream.Options{}, func(context.Context, terminal.Streams) error { return result })
		if got, _ := s.talk(t, terminal.ProtocolChannels).channels(); !strings.Contains(string(got[3]), want) {
			t.Errorf("%v: %q", result, got)
		}
		s.ending(t)
	}
	for _, raw := range [][]byte{{1, 'x'}, {4, '{'}, {9}} {
		s := serve(t, terminal.Options{}, stream.Options{}, echo)
		c := s.talk(t, terminal.ProtocolChannels)
		c.binary(raw...)
		if _, code := c.channels(); code != websocket.StatusInvalidFramePayloadData {
			t.Errorf("%q ends it with %v", raw, code)
		}
		s.ending(t)
	}
	s := serve(t, terminal.Options{}, stream.Options{}, echo)
	c := s.talk(t, terminal.ProtocolChannels)
	c.send(`{"Op":"stdin","Data":"x"}`)
	if _, code := c.channels(); code != websocket.StatusUnsupportedData {
		t.Errorf("text ends it with %v", code)
	}
	s.ending(t)
}

func TestTheFramesOfConsolesHaveAName(t *testing.T) {
	s := serve(t, terminal.Options{}, stream.Options{}, echo)
	c := s.talk(t, terminal.ProtocolFrames)
	c.typed("exit\r")
	if out, _, code, _ := c.all(); out != "exit\r" || code != websocket.StatusNormalClosure {
		t.Errorf("%q %v", out, code)
	}
}
