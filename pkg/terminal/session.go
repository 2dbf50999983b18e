package terminal

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	// progress is how long a client may take to receive one frame.
	progress = 30 * time.Second
	// closeTimeout is how long a client may take to receive the frame that is being sent when its session ends.
	closeTimeout = 3 * time.Second
	// pingEvery is how often a client is asked whether it is there, well within the time after which proxies cut off silent connections;
	// gone is how long it may be silent.
	pingEvery = 25 * time.Second
	gone      = 60 * time.Second
	// warning is how long before its end by a limit of time a client is told of it.
	warning = time.Minute
)

// Options are what limits a session.
type Options struct {
	// Idle is how long nothing may be typed, and Max how long a session may last; 0 for as long as the client likes.
	Idle, Max time.Duration
	// Hint is added to the reason of an end with CodeContainer.
	Hint string
}

// Session is a terminal of one client.
type Session struct {
	options Options
	conn    *websocket.Conn
	sizes   chan Size

	mu  sync.Mutex // of what follows: the output comes from one goroutine, warnings from another
	out wire

	writing   context.Context // ends when nothing more can be sent
	typed     atomic.Int64    // when input came last, Unix nanoseconds
	heard     atomic.Int64    // when anything came last
	blocked   atomic.Bool     // the process does not read: nor is the client read
	bytesIn   atomic.Int64
	bytesOut  atomic.Int64
	startOnce sync.Once
}

// New returns the session of a client that is connected by conn. Run runs it.
func New(conn *websocket.Conn, o Options) *Session {
	conn.SetReadLimit(maxFrame)
	return &Session{options: o, conn: conn, sizes: make(chan Size, 1), out: wireOf(conn.Subprotocol())}
}

// Bytes returns how many bytes were typed and shown so far.
func (s *Session) Bytes() (in, out int64) { return s.bytesIn.Load(), s.bytesOut.Load() }

// Run connects the client to the command that r asks for, until one of them ends or r's context does, and closes the connection. It
// returns why it has ended, when nothing of the session is left. r is as Executor.Exec wants it.
func (s *Session) Run(r *http.Request, by Executor) *Ending {
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	s.writing = writing
	defer context.AfterFunc(ctx, func() {
		late := time.AfterFunc(closeTimeout, stopWriting)
		context.AfterFunc(writing, func() { late.Stop() })
	})()
	now := time.Now().UnixNano()
	s.typed.Store(now)
	s.heard.Store(now)

	stdin, keyboard := io.Pipe()
	var running sync.WaitGroup
	running.Go(func() { end(s.listen(ctx, keyboard)) })
	running.Go(func() { s.watch(ctx, end) })
	// What the client sends from the end on reaches nobody.
	defer context.AfterFunc(ctx, func() { _ = keyboard.Close() })()

	screen := writerFunc(func(p []byte) (int, error) {
		n, err := s.show(ctx, p)
		if err != nil {
			end(ending(websocket.StatusGoingAway, "the client does not read"))
		}
		return n, err
	})
	err := by.Exec(r.WithContext(ctx), Streams{Stdin: stdin, Stdout: screen, TTY: true, Sizes: s.sizes, Started: s.begin})
	e := endingOf(ctx, err, s.bytesIn.Load() > 0)
	if e.Code == CodeContainer && s.options.Hint != "" {
		e.Reason += "; " + s.options.Hint
	}
	end(e)
	_ = stdin.CloseWithError(io.ErrClosedPipe) // the listener waits no longer
	s.finish(e)
	running.Wait()
	return e
}

// finish tells the client of the end, and closes the connection.
func (s *Session) finish(e *Ending) {
	s.mu.Lock()
	if rest := s.out.rest(); rest != nil {
		_ = s.send(rest)
	}
	if !e.quiet {
		_ = s.send(s.out.notice(e.Reason))
	}
	if end := s.out.end(e); end != nil {
		_ = s.send(end)
	}
	s.mu.Unlock()
	_ = s.conn.Close(e.Code, short(e.Reason))
	_ = s.conn.CloseNow()
}

// listen passes on what the client sends, and returns why it has ended.
func (s *Session) listen(ctx context.Context, keyboard *io.PipeWriter) error {
	for {
		// Without ctx: a read that its context ends closes the connection, and the client is to be told why.
		kind, raw, err := s.conn.Read(context.WithoutCancel(ctx))
		if err != nil {
			return lost(err)
		}
		s.heard.Store(time.Now().UnixNano())
		if kind != s.out.kind() {
			return ending(websocket.StatusUnsupportedData, "a frame is %s: send %s", word(kind), word(s.out.kind()))
		}
		in, err := s.out.decode(raw)
		switch {
		case err != nil:
			return ending(websocket.StatusInvalidFramePayloadData, "%v", err)
		case in.size != nil:
			s.resize(*in.size)
		case in.eof:
			_ = keyboard.Close()
		case len(in.input) > 0 && ctx.Err() == nil:
			s.typed.Store(time.Now().UnixNano())
			s.bytesIn.Add(int64(len(in.input)))
			s.blocked.Store(true)
			_, err = keyboard.Write(in.input)
			s.blocked.Store(false)
			if err != nil {
				continue // the process has ended, or the session: the client's end of the connection is still read
			}
		}
	}
}

func word(kind websocket.MessageType) string {
	if kind == websocket.MessageText {
		return "text"
	}
	return "binary"
}

// lost returns why nothing more comes from the client. If the session has ended already, that is the reason which counts.
func lost(err error) error {
	if errors.Is(err, websocket.ErrMessageTooBig) {
		return ending(websocket.StatusMessageTooBig, "a frame has more than %d bytes: send several", maxFrame)
	}
	return ending(websocket.StatusGoingAway, "the client has left")
}

// resize replaces the size that the process does not know yet.
func (s *Session) resize(size Size) {
	select {
	case <-s.sizes:
	default:
	}
	s.sizes <- size
}

// begin tells the client that it may type: pages wait for a first frame.
func (s *Session) begin() {
	s.startOnce.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = s.send(s.out.begun())
	})
}

var errEnded = errors.New("the session has ended")

// show sends output. It waits for the client, so that the process does.
func (s *Session) show(ctx context.Context, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rest := p; len(rest) > 0; {
		if ctx.Err() != nil {
			return len(p) - len(rest), errEnded
		}
		n := min(len(rest), maxOutput)
		if text := s.out.output(rest[:n]); text != nil {
			if err := s.send(text); err != nil {
				return len(p) - len(rest), err
			}
		}
		s.bytesOut.Add(int64(n))
		rest = rest[n:]
	}
	return len(p), nil
}

// send sends a frame. It is called with mu held.
func (s *Session) send(text []byte) error {
	ctx, cancel := context.WithTimeout(s.writing, progress)
	defer cancel()
	return s.conn.Write(ctx, s.out.kind(), text)
}

// toast shows the client a line that is not the process's.
func (s *Session) toast(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.send(s.out.notice(text))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
