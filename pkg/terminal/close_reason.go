package terminal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coder/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/stream"
)

// The close codes of a session (RFC 6455, 7.4: those from 4000 on are the application's), after HTTP's where there is one.
const (
	CodeCredentials websocket.StatusCode = 4401 // the token, the session or the user has ended
	CodeRight       websocket.StatusCode = 4403 // the right has ended, or kube-apiserver refuses
	CodeContainer   websocket.StatusCode = 4404 // there is no such pod or container, or no shell in it
	CodeIdle        websocket.StatusCode = 4408 // nothing was typed for too long
	CodeTime        websocket.StatusCode = 4409 // the session has lasted as long as one may
	CodeNoUpgrade   websocket.StatusCode = 4503 // see ErrNoUpgrade
	CodeUnrecorded  websocket.StatusCode = 4507 // the session must be recorded, and can't be any more
)

// Ending is why a session has ended.
type Ending struct {
	// Code is the close code.
	Code websocket.StatusCode
	// Reason says it to people.
	Reason string
	// Exit is the exit status of the process, and -1 if it is not known.
	Exit int
	// quiet means that the reason needs no line in the terminal: the user has ended the process.
	quiet bool
}

// Error makes an Ending the cause of a context.
func (e *Ending) Error() string { return e.Reason }

func ending(code websocket.StatusCode, format string, args ...any) *Ending {
	return &Ending{Code: code, Reason: fmt.Sprintf(format, args...), Exit: -1}
}

// endingOf returns why a session has ended whose context is ctx and whose Exec returned err; typed means that there was input. The
// context comes first: it ends the process, and not the other way around.
func endingOf(ctx context.Context, err error, typed bool) *Ending {
	var own *Ending
	if errors.As(context.Cause(ctx), &own) {
		return own
	}
	switch stream.EndOf(ctx) {
	case stream.Stopping:
		return ending(websocket.StatusServiceRestart, "this server is stopping: open the terminal again")
	case stream.RightEnded:
		return ending(CodeRight, "the right to this terminal has ended")
	case stream.CredentialsEnded:
		return ending(CodeCredentials, "the login of this terminal has ended: log in again")
	}
	if ctx.Err() != nil {
		return ending(websocket.StatusGoingAway, "the client has left")
	}
	return endingOfProcess(err, typed)
}

// endingOfProcess returns how a process has ended.
func endingOfProcess(err error, typed bool) *Ending {
	var (
		exit    *ExitError
		refused apierrors.APIStatus
	)
	switch {
	case err == nil:
		return &Ending{Code: websocket.StatusNormalClosure, Reason: "exit status 0", quiet: true}
	case errors.As(err, &exit) && (exit.Code == 126 || exit.Code == 127) && !typed:
		// What some runtimes answer where the command is not there, as a shell does for the last command of a user.
		return &Ending{Code: CodeContainer, Reason: fmt.Sprintf("exit status %d: the container has no such shell", exit.Code), Exit: exit.Code}
	case errors.As(err, &exit):
		return &Ending{Code: websocket.StatusNormalClosure, Reason: fmt.Sprintf("exit status %d", exit.Code), Exit: exit.Code, quiet: true}
	case errors.Is(err, ErrNoUpgrade):
		return ending(CodeNoUpgrade, "%v", ErrNoUpgrade)
	case errors.As(err, &refused):
		return endingOfStatus(refused, err)
	}
	return ending(websocket.StatusInternalError, "the connection to the container was lost")
}

// endingOfStatus returns the ending by an answer of kube-apiserver, or of the kubelet.
func endingOfStatus(s apierrors.APIStatus, err error) *Ending {
	message := s.Status().Message
	switch s.Status().Code {
	case http.StatusForbidden:
		return ending(CodeRight, "kube-apiserver refuses: %s", message)
	case http.StatusNotFound, http.StatusBadRequest:
		return ending(CodeContainer, "%s", message)
	}
	if absent(message) {
		return ending(CodeContainer, "there is no such container, it does not run, or it has no such shell: %s", message)
	}
	if apierrors.IsInternalError(err) {
		return ending(websocket.StatusInternalError, "the container could not be reached: %s", message)
	}
	return ending(websocket.StatusInternalError, "kube-apiserver: %s", message)
}

// absent reports whether a message of the kubelet's says that there is no such container, that it does not run, or that it has no such
// program.
func absent(message string) bool {
	return slices.ContainsFunc([]string{"container not found", "executable file not found", "no such file or directory", "not found in pod",
		"container is not running", "not running"}, func(part string) bool { return strings.Contains(message, part) })
}

// maxReason bounds the reason in a close frame, in bytes (RFC 6455, 5.5).
const maxReason = 123

// short returns a reason as a close frame can have it.
func short(reason string) string {
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	if len(reason) <= maxReason {
		return reason
	}
	n := maxReason - len("…")
	for !utf8.RuneStart(reason[n]) {
		n--
	}
	return reason[:n] + "…"
}
