package terminal

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Executor runs commands in containers. proxy.Kube is one.
type Executor interface {
	// Exec runs the command that r asks for, or attaches to the container's own process, and returns when that has ended: nil for the exit
	// status 0, an *ExitError for another, ErrNoUpgrade if nothing on the way to the container lets the connection through, a
	// metav1.Status of kube-apiserver's if it refuses. r is the POST to the sub-resource exec or attach of a pod, authorized as itself for
	// the caller in its context (authz.Permit); it has no body. When its context ends, the process gets the end of its input, and Exec
	// returns soon.
	Exec(r *http.Request, s Streams) error
}

// Streams are what a process is connected to.
type Streams struct {
	// Stdin is read until it ends. The caller makes it end once Exec has returned.
	Stdin io.Reader
	// Stdout and Stderr receive the output, Stderr only if there is no TTY. Nil means that it is not wanted. An error ends the command.
	Stdout, Stderr io.Writer
	// TTY means that the process gets a terminal.
	TTY bool
	// Sizes are the sizes of the terminal.
	Sizes <-chan Size
	// Started is called once kube-apiserver has accepted the request.
	Started func()
}

// Size is the size of a terminal, in characters. Its names are those of kube-apiserver's protocol.
type Size struct {
	Width, Height uint16
}

// ErrNoUpgrade says that something on the way to the container answers requests to upgrade a connection with something else.
var ErrNoUpgrade = errors.New("the connection to the container could not be upgraded: something on the way does not pass WebSocket" +
	" or SPDY on")

// ExitError is the end of a process with a status other than 0.
type ExitError struct {
	// Code is the exit status, of a shell 128+n after the signal n.
	Code int
}

// Error says how the process has ended.
func (e *ExitError) Error() string {
	return fmt.Sprintf("the process ended with the exit status %d", e.Code)
}
