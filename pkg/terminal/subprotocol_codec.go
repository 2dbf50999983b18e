package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/coder/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
)

const (
	// ProtocolFrames is the sub-protocol of the console's frames, for clients that have to name one; they are what a client without any
	// speaks.
	ProtocolFrames = "frames.terminal.kapis.dev"
	// ProtocolChannels is that of Kubernetes' exec: each message begins with the number of its channel.
	ProtocolChannels = remotecommand.StreamProtocolV5Name
)

// Protocols are the sub-protocols (RFC 6455, 1.9) that a client of a session may speak.
func Protocols() []string { return []string{ProtocolFrames, ProtocolChannels} }

// wire is how a session is written in messages.
type wire interface {
	// kind is that of messages in either direction.
	kind() websocket.MessageType
	// decode reads a message of the client: input, the end of the input, a size, or nothing.
	decode(raw []byte) (message, error)
	// output writes what the process shows, nil where nothing is to be sent yet, and rest what is left at its end.
	output(p []byte) []byte
	rest() []byte
	// begun says that the process runs, and notice is a line of this server's.
	begun() []byte
	notice(text string) []byte
	// end says how the session has ended, nil for nothing.
	end(e *Ending) []byte
}

// message is what a client has sent.
type message struct {
	input []byte
	size  *Size
	eof   bool
}

// wireOf returns the wire of a sub-protocol.
func wireOf(protocol string) wire {
	if protocol == ProtocolChannels {
		return &channels{}
	}
	return &frames{}
}

// frames are those of the console.
type frames struct {
	in  decoder
	out encoder
}

func (f *frames) kind() websocket.MessageType { return websocket.MessageText }

func (f *frames) decode(raw []byte) (m message, err error) {
	m.input, m.size, err = f.in.decode(raw)
	return m, err
}

func (f *frames) output(p []byte) []byte { return f.out.encode(p) }
func (f *frames) rest() []byte           { return f.out.rest() }
func (f *frames) begun() []byte          { return f.out.frame(opStdout, nil) }
func (f *frames) end(*Ending) []byte     { return nil }

func (f *frames) notice(text string) []byte {
	return f.out.frame(opToast, []byte("\r\n"+text+"\r\n"))
}

// channels are those of v5.channel.k8s.io. Bytes pass as they are.
type channels struct{ buf []byte }

func (c *channels) kind() websocket.MessageType { return websocket.MessageBinary }

var errChannel = errors.New("a message is of no channel that takes input: 0 is standard input, 4 a size as" +
	" {\"Width\":80,\"Height\":24}, and 255 closes a channel")

func (c *channels) decode(raw []byte) (message, error) {
	if len(raw) == 0 {
		return message{}, nil
	}
	switch channel, data := raw[0], raw[1:]; channel {
	case remotecommand.StreamStdIn:
		return message{input: data}, nil
	case remotecommand.StreamResize:
		var s struct{ Width, Height json.Number }
		if json.Unmarshal(data, &s) != nil {
			return message{}, errChannel
		}
		return message{size: sizeOf(frame{Cols: s.Width, Rows: s.Height})}, nil
	case remotecommand.StreamClose:
		return message{eof: len(data) == 1 && data[0] == remotecommand.StreamStdIn}, nil
	}
	return message{}, errChannel
}

func (c *channels) output(p []byte) []byte { return c.message(remotecommand.StreamStdOut, p) }
func (c *channels) rest() []byte           { return nil }
func (c *channels) begun() []byte          { return c.message(remotecommand.StreamStdOut, nil) }

func (c *channels) notice(text string) []byte {
	return c.message(remotecommand.StreamStdErr, []byte("\r\n"+text+"\r\n"))
}

// end is the Status that the error channel has at the end of an exec, as kube-apiserver writes it.
func (c *channels) end(e *Ending) []byte {
	s := metav1.Status{Status: metav1.StatusSuccess}
	switch {
	case e.Exit > 0:
		s = metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %s", e.Reason),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
				{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(e.Exit)},
			}}}
	case e.Exit < 0:
		s = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
			Message: e.Reason}
	}
	text, err := json.Marshal(&s)
	if err != nil {
		return nil // texts and numbers can always be encoded
	}
	return c.message(remotecommand.StreamErr, text)
}

func (c *channels) message(channel byte, data []byte) []byte {
	c.buf = append(append(c.buf[:0], channel), data...)
	return c.buf
}
