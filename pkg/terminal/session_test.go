package terminal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/terminal"
)

// process is an Executor made of a function.
type process func(ctx context.Context, s terminal.Streams) error

func (p process) Exec(r *http.Request, s terminal.Streams) error { return p(r.Context(), s) }

// server serves sessions of a process. ended receives why each has ended.
type server struct {
	*httptest.Server
	ended chan *terminal.Ending
}

func serve(t *testing.T, o terminal.Options, g stream.Options, p process) *server {
	t.Helper()
	old := goleak.IgnoreCurrent()
	s := &server{ended: make(chan *terminal.Ending, 16)}
	guard := stream.New(g)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		over, r, err := guard.Over(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		defer over.Stop()
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: terminal.Protocols()})
		if err != nil {
			t.Error(err)
			return
		}
		s.ended <- terminal.New(conn, o).Run(r, p)
	}))
	t.Cleanup(func() {
		s.Close()
		goleak.VerifyNone(t, old) // the goroutines of each session have ended
	})
	return s
}

// client is the side of a page.
type client struct {
	t *testing.T
	*websocket.Conn
}

func (s *server) dial(t *testing.T) client {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return client{t, conn}
}

// patience is how long a failing test waits.
const patience = 2 * time.Minute

func (c client) send(text string) {
	c.t.Helper()
	if err := c.Write(c.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

func (c client) typed(text string) {
	c.t.Helper()
	data, _ := json.Marshal(text)
	c.send(`{"Op":"stdin","Data":` + string(data) + `}`)
}

type shown struct{ Op, Data string }

// next returns the next frame, or the error that ended the connection.
func (c client) next() (shown, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kind, raw, err := c.Read(ctx)
	if err != nil {
		return shown{}, err
	}
	var f shown
	if kind != websocket.MessageText || !utf8.Valid(raw) || json.Unmarshal(raw, &f) != nil {
		c.t.Fatalf("a frame of kind %v is %q", kind, raw)
	}
	return f, nil
}

// all returns what is shown until the connection ends, the toasts, and the close code.
func (c client) all() (output, toasts string, code websocket.StatusCode, reason string) {
	c.t.Helper()
	for {
		f, err := c.next()
		if err != nil {
			var e websocket.CloseError
			if !errors.As(err, &e) {
				c.t.Fatalf("the connection ended without a close code: %v", err)
			}
			return output, toasts, e.Code, e.Reason
		}
		switch f.Op {
		case "stdout":
			output += f.Data
		case "toast":
			toasts += f.Data
		default:
			c.t.Errorf("a frame has the Op %q", f.Op)
		}
	}
}

func (s *server) ending(t *testing.T) *terminal.Ending {
	t.Helper()
	select {
	case e := <-s.ended:
		return e
	case <-time.After(patience):
		t.Fatal("the session goes on")
		return nil
	}
}

// echo shows what is typed until a line says exit.
func echo(_ context.Context, s terminal.Streams) error {
	s.Started()
	buf := make([]byte, 1000)
	var all []byte
	for !bytes.Contains(all, []byte("exit\r")) {
		n, err := s.Stdin.Read(buf)
		if err != nil {
			return err
		}
		all = append(all, buf[:n]...)
		if _, err := s.Stdout.Write(buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

func TestWhatIsTypedArrivesAsItIs(t *testing.T) { // O3
	const text = "ls\r\x1b[A\x00\x7f<&>\u2028äöü世界\U0001F600\"\\/"
	for name, frames := range map[string][]string{
		"OneFrame":                 {`{"Op":"stdin","Data":` + quoted(text) + `}`},
		"OrderOfKeysDoesNotMatter": {`{"Data":` + quoted(text) + `, "Rows":0, "Op":"stdin"}`},
		"CutInAPairOfEscapes": {
			`{"Op":"stdin","Data":"ls\r\u001b[A\u0000\u007f<&>\u2028äöü世界\ud83d"}`,
			`{"Op":"stdin","Data":"\ude00\"\\\/"}`,
		},
		"CutWithAResizeBetween": {`{"Op":"stdin","Data":"ls\r\u001b[A\u0000\u007f<&>\u2028äöü世界\uD83D"}`,
			`{"Op":"resize","Cols":1,"Rows":1}`, `{"Op":"stdin","Data":"\uDE00\"\\/"}`},
		"OthersOpsAreIgnored": {`{"Op":"hello","Data":{"a":1}}`, `{}`,
			`{"Op":"stdin"}`, `{"Op":"stdin","Data":null}`, `{"Op":"stdin","Data":` + quoted(text) + `}`},
		"EscapedBackslashIsNotHalf": {`{"Op":"stdin","Data":` + quoted(text[:len(text)-1]) + `}`, `{"Op":"stdin","Data":"/"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, terminal.Options{}, stream.Options{}, echo)
			c := s.dial(t)
			for _, f := range frames {
				c.send(f)
			}
			c.typed("exit\r")
			out, toasts, code, reason := c.all()
			if out != text+"exit\r" || toasts != "" || code != websocket.StatusNormalClosure || reason != "exit status 0" {
				t.Errorf("%q %q %v %q", out, toasts, code, reason)
			}
			s.ending(t)
		})
	}
	t.Run("ABackslashBeforeWhatLooksLikeAHalf", func(t *testing.T) {
		s := serve(t, terminal.Options{}, stream.Options{}, echo)
		c := s.dial(t)
		c.send(`{"Op":"stdin","Data":"\\ud83d"}`)
		c.typed("exit\r")
		if out, _, _, _ := c.all(); out != `\ud83dexit`+"\r" {
			t.Errorf("%q", out)
		}
	})
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

func TestAFirstFrameSaysThatTheProcessRuns(t *testing.T) {
	s := serve(t, terminal.Options{}, stream.Options{}, echo)
	c := s.dial(t)
	if f, err := c.next(); err != nil || f != (shown{"stdout", ""}) {
		t.Errorf("%+v %v", f, err)
	}
	c.typed("exit\r")
	c.all()
}

// What a process writes is shown as it is, however it is cut.
func TestOutputIsCutAtAnyByte(t *testing.T) { // O3
	const text = "aä€\U0001F600\xff\xe4b\xf0\x9f\x98" // the end of it is no character
	want := "aä€\U0001F600\uFFFD\uFFFDb\uFFFD\uFFFD\uFFFD"
	for size := 1; size <= len(text); size++ {
		for first := range size {
			s := serve(t, terminal.Options{}, stream.Options{}, func(_ context.Context, s terminal.Streams) error {
				rest := []byte(text)
				for n := first; len(rest) > 0; n = size {
					n = min(n, len(rest))
					if _, err := s.Stdout.Write(rest[:n]); err != nil {
						return err
					}
					rest = rest[n:]
				}
				return nil
			})
			if out, _, _, _ := s.dial(t).all(); out != want {
				t.Errorf("cut at %d, then each %d: %q, want %q", first, size, out, want)
			}
		}
	}
}

func TestMuchOutputArrivesInOrderAndInSmallFrames(t *testing.T) { // O3
	const size = 8 << 20
	var want strings.Builder
	for i := 0; want.Len() < size; i++ {
		fmt.Fprintf(&want, "%d ä€\U0001F600\r\n", i)
	}
	s := serve(t, terminal.Options{}, stream.Options{}, func(_ context.Context, s terminal.Streams) error {
		_, err := io.Copy(s.Stdout, strings.NewReader(want.String()))
		return err
	})
	if out, _, code, _ := s.dial(t).all(); out != want.String() || code != websocket.StatusNormalClosure {
		t.Errorf("%d bytes of %d, %v", len(out), want.Len(), code)
	}
}

// A process gets no further than its client by more than the connection holds: nothing else is stored.
func TestASlowClientStopsTheProcess(t *testing.T) { // O3
	const chunk, chunks, held = 32 << 10, 2000, 16 << 20
	var written atomic.Int64
	s := serve(t, terminal.Options{}, stream.Options{}, func(_ context.Context, s terminal.Streams) error {
		line := bytes.Repeat([]byte("x"), chunk)
		for range chunks { // 64 MB
			if _, err := s.Stdout.Write(line); err != nil {
				return err
			}
			written.Add(chunk)
		}
		return nil
	})
	c := s.dial(t)
	read := 0
	for read < chunk*chunks {
		f, err := c.next()
		if err != nil {
			t.Fatalf("after %d bytes: %v", read, err)
		}
		read += len(f.Data)
		if ahead := written.Load() - int64(read); ahead > held {
			t.Fatalf("the process is %d bytes ahead of its client", ahead)
		}
	}
	if _, _, code, _ := c.all(); code != websocket.StatusNormalClosure {
		t.Errorf("%v", code)
	}
}

// A process that does not read stops the reading of the client, which loses nothing, and is not taken for a client that is gone.
func TestAProcessThatDoesNotReadLosesNothing(t *testing.T) { // O3
	begin := make(chan struct{})
	got := make(chan string, 1)
	const frames, each = 64, 60 << 10
	s := serve(t, terminal.Options{}, stream.Options{}, func(_ context.Context, s terminal.Streams) error {
		s.Started()
		<-begin
		all, err := io.ReadAll(io.LimitReader(s.Stdin, frames*each))
		got <- string(all)
		return err
	})
	c := s.dial(t)
	var want strings.Builder
	sent := make(chan struct{})
	for i := range frames {
		want.WriteString(strings.Repeat(string(rune('a'+i%26)), each))
	}
	go func() {
		defer close(sent)
		for i := range frames {
			_ = c.Write(context.Background(), websocket.MessageText, []byte(`{"Op":"stdin","Data":"`+want.String()[i*each:(i+1)*each]+`"}`))
		}
	}()
	close(begin)
	if text := <-got; text != want.String() {
		t.Errorf("%d bytes of %d", len(text), want.Len())
	}
	<-sent
	c.all()
}

func TestTheLastSizeCounts(t *testing.T) {
	sizes := make(chan terminal.Size)
	s := serve(t, terminal.Options{}, stream.Options{}, func(_ context.Context, s terminal.Streams) error {
		s.Started()
		buf := make([]byte, 1)
		for {
			if _, err := s.Stdin.Read(buf); err != nil {
				return err
			}
			select {
			case size := <-s.Sizes:
				sizes <- size
			default:
				sizes <- terminal.Size{}
			}
		}
	})
	c := s.dial(t)
	for _, step := range []struct {
		frames []string
		want   terminal.Size
	}{
		{[]string{`{"Op":"resize","Cols":151,"Rows":55}`}, terminal.Size{Width: 151, Height: 55}},
		{[]string{`{"Op":"resize","Cols":80,"Rows":24}`, `{"Op":"resize","Cols":1000,"Rows":1}`}, terminal.Size{Width: 1000, Height: 1}},
		{[]string{`{"Op":"resize","Cols":0,"Rows":24}`, `{"Op":"resize","Cols":80}`, `{"Op":"resize","Cols":1001,"Rows":24}`,
			`{"Op":"resize","Cols":-1,"Rows":24}`, `{"Op":"resize","Cols":80.5,"Rows":24}`, `{"Op":"resize","Cols":1e99,"Rows":24}`}, terminal.Size{}},
	} {
		for _, f := range step.frames {
			c.send(f)
		}
		c.typed("x")
		if got := <-sizes; got != step.want {
			t.Errorf("after %v: %+v, want %+v", step.frames, got, step.want)
		}
	}
	_ = c.Close(websocket.StatusNormalClosure, "")
	s.ending(t)
}

func TestBadFramesEndTheSession(t *testing.T) { // O3
	const secret = "hunter2"
	for name, c := range map[string]struct {
		kind  websocket.MessageType
		frame string
		want  websocket.StatusCode
	}{
		"NoJSON":         {websocket.MessageText, secret, websocket.StatusInvalidFramePayloadData},
		"HalfOfJSON":     {websocket.MessageText, `{"Op":"stdin","Data":"` + secret, websocket.StatusInvalidFramePayloadData},
		"DataIsNoText":   {websocket.MessageText, `{"Op":"stdin","Data":["` + secret + `"]}`, websocket.StatusInvalidFramePayloadData},
		"TwoValues":      {websocket.MessageText, `{"Op":"stdin"}{"Op":"stdin"}`, websocket.StatusInvalidFramePayloadData},
		"ColsIsNoNumber": {websocket.MessageText, `{"Op":"resize","Cols":"` + secret + `"}`, websocket.StatusInvalidFramePayloadData},
		"NotUTF8":        {websocket.MessageText, "{\"Op\":\"stdin\",\"Data\":\"\xff\"}", websocket.StatusInvalidFramePayloadData},
		"Binary":         {websocket.MessageBinary, `{"Op":"stdin","Data":"ls"}`, websocket.StatusUnsupportedData},
		"TooLong":        {websocket.MessageText, `{"Op":"stdin","Data":"` + strings.Repeat("x", 64<<10) + `"}`, websocket.StatusMessageTooBig},
		"Deep":           {websocket.MessageText, strings.Repeat("[", 30<<10), websocket.StatusInvalidFramePayloadData},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan string, 1)
			s := serve(t, terminal.Options{}, stream.Options{}, func(_ context.Context, s terminal.Streams) error {
				all, _ := io.ReadAll(s.Stdin)
				ended <- string(all)
				return nil
			})
			page := s.dial(t)
			if err := page.Write(t.Context(), c.kind, []byte(c.frame)); err != nil {
				t.Fatal(err)
			}
			_, toasts, code, reason := page.all()
			if code != c.want || strings.Contains(toasts+reason, secret) {
				t.Errorf("%v %q %q, want %v", code, toasts, reason, c.want)
			}
			if typed := <-ended; typed != "" {
				t.Errorf("the process reads %q", typed)
			}
			if e := s.ending(t); e.Code != c.want {
				t.Errorf("%+v", e)
			}
		})
	}
	t.Run("TheLongestIsTaken", func(t *testing.T) {
		s := serve(t, terminal.Options{}, stream.Options{}, echo)
		c := s.dial(t)
		const frame = `{"Op":"stdin","Data":""}`
		text := strings.Repeat("x", 64<<10-len(frame))
		c.send(frame[:len(frame)-2] + text + `"}`)
		c.typed("exit\r")
		if out, _, code, _ := c.all(); out != text+"exit\r" || code != websocket.StatusNormalClosure {
			t.Errorf("%d bytes, %v", len(out), code)
		}
	})
}

func TestEachEndHasItsCode(t *testing.T) { // O5
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		err    error
		want   websocket.StatusCode
		reason string
		toast  bool
		exit   int
	}{
		"Success":     {nil, websocket.StatusNormalClosure, "exit status 0", false, 0},
		"ExitStatus":  {&terminal.ExitError{Code: 3}, websocket.StatusNormalClosure, "exit status 3", false, 3},
		"NoShell":     {&terminal.ExitError{Code: 127}, terminal.CodeContainer, "exit status 127", true, 127},
		"NoPod":       {apierrors.NewNotFound(pods, "p"), terminal.CodeContainer, `pods "p" not found`, true, -1},
		"NoContainer": {apierrors.NewBadRequest("container x is not valid for pod p"), terminal.CodeContainer, "container x is not valid", true, -1},
		"NotFoundThere": {status.Errorf(500, `error executing command in container: exec: "sh": executable file not found in $PATH`),
			terminal.CodeContainer, "no such", true, -1},
		"Refused":     {fmt.Errorf("x: %w", apierrors.NewForbidden(pods, "p", errors.New("no"))), terminal.CodeRight, "kube-apiserver refuses", true, -1},
		"Unreachable": {apierrors.NewServiceUnavailable("kube-apiserver can't be reached"), websocket.StatusInternalError, "can't be reached", true, -1},
		"Lost":        {io.ErrUnexpectedEOF, websocket.StatusInternalError, "was lost", true, -1},
		"NoUpgrade":   {terminal.ErrNoUpgrade, terminal.CodeNoUpgrade, "could not be upgraded", true, -1},
		"LongReason":  {apierrors.NewNotFound(pods, strings.Repeat("ä", 200)), terminal.CodeContainer, "ä…", true, -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, terminal.Options{}, stream.Options{}, func(context.Context, terminal.Streams) error { return c.err })
			_, toasts, code, reason := s.dial(t).all()
			if code != c.want || !strings.Contains(reason, c.reason) || (toasts != "") != c.toast || !utf8.ValidString(reason) || len(reason) > 123 {
				t.Errorf("%v %q, toast %q; want %v %q", code, reason, toasts, c.want, c.reason)
			}
			if e := s.ending(t); e.Code != c.want || e.Exit != c.exit {
				t.Errorf("%+v", e)
			}
		})
	}
	t.Run("AShellWhoseLastCommandWasNotFound", func(t *testing.T) {
		s := serve(t, terminal.Options{}, stream.Options{}, func(_ context.Context, s terminal.Streams) error {
			_, _ = s.Stdin.Read(make([]byte, 1))
			return &terminal.ExitError{Code: 127}
		})
		c := s.dial(t)
		c.typed("x")
		if _, _, code, _ := c.all(); code != websocket.StatusNormalClosure {
			t.Errorf("%v", code)
		}
	})
}

// deaf is a process that reads to the end of its input and then reports what came after the session was ended.
func deaf(ended <-chan struct{}, late chan<- string) process {
	return func(ctx context.Context, s terminal.Streams) error {
		s.Started()
		<-ctx.Done()
		<-ended
		rest, _ := io.ReadAll(s.Stdin)
		late <- string(rest)
		return ctx.Err()
	}
}

func TestTheRightAndTheLoginEndASession(t *testing.T) { // O5, S53
	for name, c := range map[string]struct {
		why  error
		want websocket.StatusCode
	}{
		"Right":       {fmt.Errorf("authorize again: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", nil)), terminal.CodeRight},
		"Credentials": {errors.New("authenticate again: the token has expired"), terminal.CodeCredentials},
	} {
		t.Run(name, func(t *testing.T) {
			var withdrawn atomic.Bool
			ended, late := make(chan struct{}), make(chan string, 1)
			s := serve(t, terminal.Options{}, stream.Options{RecheckEvery: time.Millisecond, Recheck: func(context.Context, *http.Request) error {
				if withdrawn.Load() {
					return c.why
				}
				return nil
			}}, func(ctx context.Context, s terminal.Streams) error {
				go func() { <-ctx.Done(); close(ended) }()
				return deaf(ended, late)(ctx, s)
			})
			page := s.dial(t)
			if _, err := page.next(); err != nil {
				t.Fatal(err)
			}
			withdrawn.Store(true)
			<-ended
			_ = page.Write(t.Context(), websocket.MessageText, []byte(`{"Op":"stdin","Data":"rm -rf /\r"}`))
			if _, toasts, code, _ := page.all(); code != c.want || toasts == "" {
				t.Errorf("%v %q", code, toasts)
			}
			if text := <-late; text != "" {
				t.Errorf("the process reads %q after the end", text)
			}
		})
	}
	t.Run("TheServerStops", func(t *testing.T) {
		drain, stop := context.WithCancel(context.Background())
		s := serve(t, terminal.Options{}, stream.Options{Drain: drain}, echo)
		page := s.dial(t)
		if _, err := page.next(); err != nil {
			t.Fatal(err)
		}
		stop()
		if _, _, code, _ := page.all(); code != websocket.StatusServiceRestart {
			t.Errorf("%v", code)
		}
	})
}

func TestTimesEndASession(t *testing.T) { // O5
	for name, c := range map[string]struct {
		options terminal.Options
		want    websocket.StatusCode
	}{
		"Idle": {terminal.Options{Idle: 50 * time.Millisecond}, terminal.CodeIdle},
		"Max":  {terminal.Options{Max: 50 * time.Millisecond}, terminal.CodeTime},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.options, stream.Options{}, echo)
			if _, toasts, code, _ := s.dial(t).all(); code != c.want || toasts == "" {
				t.Errorf("%v %q", code, toasts)
			}
		})
	}
	t.Run("WithAWarning", func(t *testing.T) {
		s := serve(t, terminal.Options{Idle: time.Minute + 50*time.Millisecond}, stream.Options{}, echo)
		c := s.dial(t)
		for {
			f, err := c.next()
			if err != nil {
				t.Fatal(err)
			}
			if f.Op == "toast" {
				if !strings.Contains(f.Data, "closes in 1m0s unless you type") {
					t.Errorf("%q", f.Data)
				}
				break
			}
		}
		c.typed("exit\r")
		c.all()
	})
}

func TestTheProcessEndsWithTheClient(t *testing.T) { // O5, U7
	for name, leave := range map[string]func(client){
		"Politely": func(c client) { _ = c.Close(websocket.StatusNormalClosure, "") },
		"Abruptly": func(c client) { _ = c.CloseNow() },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, terminal.Options{}, stream.Options{}, echo)
			c := s.dial(t)
			if _, err := c.next(); err != nil {
				t.Fatal(err)
			}
			leave(c)
			if e := s.ending(t); e.Code != websocket.StatusGoingAway {
				t.Errorf("%+v", e)
			}
		})
	}
}
