package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"

	"kapis.dev/ks-apiserver/pkg/terminal"
)

const (
	// execHandshake bounds how long kube-apiserver may take to accept a request to exec.
	execHandshake = 30 * time.Second
	// lastWord bounds how long the end of the input may take to be sent when a command is ended.
	lastWord = time.Second
	// execBuffer is how much is passed on at once.
	execBuffer = 32 << 10
	// maxExecStatus bounds the Status by which a command ends.
	maxExecStatus = 64 << 10
)

// execBuffers have one byte more, for the channel.
var execBuffers = sync.Pool{New: func() any { return new([1 + execBuffer]byte) }}

// Exec implements terminal.Executor, as the caller in r's context.
//
// It asks by WebSocket (v5.channel.k8s.io) first. kube-apiserver takes that for the verb get besides create, and what is on the way
// may not pass it on: then it asks by SPDY, for which create is enough. Of either kind, it holds what one message has, and reads the
// next one when that was taken.
func (k *Kube) Exec(r *http.Request, s terminal.Streams) error {
	info, err := checkAuthorized(r)
	switch {
	case err != nil:
		return err
	case info.Resource != "pods" || info.APIGroup != "" || info.Subresource != "exec" && info.Subresource != "attach" ||
		info.Verb != "create" || r.Method != http.MethodPost || r.URL.Path != info.Path || r.URL.RawPath != "":
		return fmt.Errorf("run a command: %s was authorized for %s, not %s %s", info.Path, info.Verb, r.Method, r.URL.Path)
	}
	conn, err := k.dialExec(r)
	if err == nil {
		return (&channels{conn, s}).run(r.Context())
	}
	if maySPDYHelp(err) {
		err = k.execBySPDY(r, s)
	}
	return execFailure(r, err)
}

// dialExec asks kube-apiserver to exec, by WebSocket. If kube-apiserver refuses by a Status, the error is that Status.
func (k *Kube) dialExec(r *http.Request) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(r.Context(), execHandshake)
	defer cancel()
	out := k.execRequest(r.WithContext(ctx))
	out.Header["Origin"] = k.origin // see rewrite
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := &http.Client{Transport: k.upgrading, CheckRedirect: stay}
	conn, res, err := websocket.Dial(ctx, out.URL.String(), &websocket.DialOptions{ //nolint:bodyclose // Dial's own, or answerOf closes it
		HTTPClient: client, HTTPHeader: out.Header, Subprotocols: []string{remotecommand.StreamProtocolV5Name},
	})
	switch {
	case err != nil && res != nil:
		return nil, answerOf(res, err)
	case err != nil:
		return nil, err
	case conn.Subprotocol() != remotecommand.StreamProtocolV5Name:
		_ = conn.CloseNow()
		return nil, fmt.Errorf("%w (the sub-protocol is %q)", terminal.ErrNoUpgrade, conn.Subprotocol())
	}
	conn.SetReadLimit(-1) // a message is passed on in pieces
	return conn, nil
}

// execRequest returns a request for the same as r to kube-apiserver, with the identity of r's caller and no credentials yet.
func (k *Kube) execRequest(r *http.Request) *http.Request {
	out := r.Clone(r.Context())
	k.address(out, r, false)
	return out
}

// answerOf returns the error for an answer that is no upgrade.
func answerOf(res *http.Response, err error) error {
	defer func() { _ = res.Body.Close() }()
	var s metav1.Status
	body, readErr := io.ReadAll(io.LimitReader(res.Body, maxExecStatus))
	if readErr == nil && json.Unmarshal(body, &s) == nil && s.Kind == "Status" && s.Code == int32(res.StatusCode) {
		return &apierrors.StatusError{ErrStatus: s}
	}
	return fmt.Errorf("%w: %w", terminal.ErrNoUpgrade, err)
}

// maySPDYHelp reports whether a request that failed by WebSocket may succeed by SPDY.
func maySPDYHelp(err error) bool {
	return errors.Is(err, terminal.ErrNoUpgrade) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// execFailure returns the error of Exec. What a client may not see of an error, such as addresses, is only logged.
func execFailure(r *http.Request, err error) error {
	var exit *terminal.ExitError
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &exit) || errors.As(err, &status) || errors.Is(err, terminal.ErrNoUpgrade) ||
		errors.Is(err, errExecLost) || errors.Is(err, errOutput) {
		return err
	}
	return failure(r, err)
}

// channels is an exec by v5.channel.k8s.io: the first byte of each message is its channel.
type channels struct {
	conn    *websocket.Conn
	streams terminal.Streams
}

var (
	errExecLost = errors.New("the connection to the container was lost before the process ended")
	errOutput   = errors.New("pass the output of a command on")
)

// run passes the streams on until the command has ended, or ctx has.
func (c *channels) run(ctx context.Context) error {
	// Reads and writes do not end with ctx, which would leave no time for the end of the input.
	until, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer func() { _ = c.conn.CloseNow() }()
	defer stop()
	defer context.AfterFunc(ctx, func() {
		c.endInput(until)
		_ = c.conn.CloseNow()
	})()
	if c.streams.Started != nil {
		c.streams.Started()
	}
	if c.streams.Stdin != nil {
		go c.input(until)
	}
	if c.streams.TTY {
		go c.sizes(until)
	}
	err := c.output(until)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// endInput tells the process that its input has ended.
func (c *channels) endInput(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastWord)
	defer cancel()
	_ = c.conn.Write(ctx, websocket.MessageBinary, []byte{remotecommand.StreamClose, remotecommand.StreamStdIn})
}

// input passes the input on. It ends with the input. It waits with a small buffer, as long as a terminal is open, and takes a large one for
// what is behind a full one.
func (c *channels) input(ctx context.Context) {
	var key [1 + 256]byte
	for more := false; ; {
		buf, release := key[:], func() {}
		if more {
			large := execBuffers.Get().(*[1 + execBuffer]byte)
			buf, release = large[:], func() { execBuffers.Put(large) }
		}
		buf[0] = remotecommand.StreamStdIn
		n, err := c.streams.Stdin.Read(buf[1:])
		more = n == len(buf)-1
		if n > 0 {
			if c.conn.Write(ctx, websocket.MessageBinary, buf[:1+n]) != nil {
				err = io.ErrClosedPipe
			}
		}
		release()
		if err != nil {
			c.endInput(ctx)
			return
		}
	}
}

// sizes passes the sizes of the terminal on.
func (c *channels) sizes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case size := <-c.streams.Sizes:
			text, err := json.Marshal(size)
			if err != nil || c.conn.Write(ctx, websocket.MessageBinary, append([]byte{remotecommand.StreamResize}, text...)) != nil {
				return
			}
		}
	}
}

// output passes the output on, and returns how the process has ended. Its Status is the last message.
func (c *channels) output(ctx context.Context) error {
	for {
		_, message, err := c.conn.Reader(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", errExecLost, err)
		}
		var channel [1]byte
		if _, err := io.ReadFull(message, channel[:]); err != nil {
			if errors.Is(err, io.EOF) {
				continue
			}
			return fmt.Errorf("%w: %w", errExecLost, err)
		}
		var to io.Writer
		switch channel[0] {
		case remotecommand.StreamStdOut:
			to = c.streams.Stdout
		case remotecommand.StreamStdErr:
			to = c.streams.Stderr
		case remotecommand.StreamErr:
			status, err := io.ReadAll(io.LimitReader(message, maxExecStatus))
			if err != nil {
				return fmt.Errorf("%w: %w", errExecLost, err)
			}
			if len(status) == 0 {
				continue
			}
			return exitOf(status)
		}
		if to == nil {
			to = io.Discard
		}
		buf := execBuffers.Get().(*[1 + execBuffer]byte)
		_, err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{message}, buf[:])
		execBuffers.Put(buf)
		if err != nil {
			return fmt.Errorf("%w: %w", errOutput, err)
		}
	}
}

// exitOf returns how a process has ended, by the Status of kube-apiserver (metav1.Status with the reason NonZeroExitCode).
func exitOf(raw []byte) error {
	var s metav1.Status
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("read how a command has ended: %w", err)
	}
	if s.Status == metav1.StatusSuccess {
		return nil
	}
	if s.Reason == remotecommand.NonZeroExitCodeReason && s.Details != nil {
		for _, cause := range s.Details.Causes {
			if cause.Type == remotecommand.ExitCodeCauseType {
				if code, err := strconv.ParseUint(cause.Message, 10, 8); err == nil {
					return &terminal.ExitError{Code: int(code)}
				}
			}
		}
	}
	return &apierrors.StatusError{ErrStatus: s}
}

var _ terminal.Executor = (*Kube)(nil)
