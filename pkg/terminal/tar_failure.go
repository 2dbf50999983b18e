package terminal

import (
	"errors"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/status"
)

// maxStderr bounds what is told of tar's messages, in bytes.
const maxStderr = 4 << 10

// messages is the beginning of what tar says, which names the reason. A process that ends with a request's context may still write to it.
type messages struct {
	mu   sync.Mutex
	text []byte
}

// tarFailure returns the answer for a tar that did not end well, by the error of Exec and what tar said.
func tarFailure(err error, said string) error {
	var exit *ExitError
	var refused apierrors.APIStatus
	switch {
	case errors.As(err, &exit) && (exit.Code == 126 || exit.Code == 127): // some runtimes start no process and say it so
		return status.Errorf(http.StatusUnprocessableEntity, "the container has no tar that could be run (exit status %d): %s", exit.Code, said)
	case errors.As(err, &exit):
		return status.Errorf(http.StatusUnprocessableEntity, "tar in the container ended with the exit status %d: %s", exit.Code, said)
	case errors.Is(err, ErrNoUpgrade):
		return status.Errorf(http.StatusBadGateway, "%v", ErrNoUpgrade)
	case errors.As(err, &refused) && absent(refused.Status().Message):
		return status.Errorf(http.StatusUnprocessableEntity, "there is no such container, it does not run, or it has no tar: %s",
			refused.Status().Message)
	case errors.As(err, &refused):
		return err
	}
	klog.V(2).InfoS("a transfer of files was lost", "reason", err)
	return status.Errorf(http.StatusBadGateway, "the connection to the container was lost before tar ended: what it did until then stays")
}

// Write implements io.Writer.
func (m *messages) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = append(m.text, p[:min(len(p), maxStderr-len(m.text))]...)
	return len(p), nil
}

func (m *messages) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(m.text), "\uFFFD"))
}
