package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
)

const (
	// healthTimeout is how long kube-apiserver has to say that it is ready: longer than it gives etcd for that. healthFor is how long its
	// answer is used: each replica of a hub asks.
	healthTimeout, healthFor = 3 * time.Second, 2 * time.Second
	// maxReadyz bounds its answer, in bytes, and mostFaults how many checks that failed are named.
	maxReadyz, mostFaults = 64 << 10, 5
)

// health knows whether this cluster's kube-apiserver is ready.
type health struct {
	client *http.Client
	readyz string

	mu    sync.Mutex
	fault string
	until time.Time
}

func newHealth(c *rest.Config) (*health, error) {
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make a client that asks kube-apiserver whether it is ready: %w", err)
	}
	at, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, fmt.Errorf("find the address of kube-apiserver: %w", err)
	}
	return &health{client: client, readyz: at.JoinPath("readyz").String()}, nil
}

// now returns what a hub is told of that. Who asks meanwhile waits for the same answer.
func (h *health) now(ctx context.Context) (*fleetsync.Health, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !time.Now().Before(h.until) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
		defer cancel()
		h.fault = h.ask(ctx)
		h.until = time.Now().Add(healthFor)
	}
	return &fleetsync.Health{KubeAPIServer: h.fault}, nil
}

// ask returns what is wrong with kube-apiserver, without addresses; "" for nothing. One that refuses to say it does answer.
func (h *health) ask(ctx context.Context) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.readyz, nil)
	if err != nil {
		return "has no address"
	}
	resp, err := h.client.Do(r)
	if err != nil {
		return "does not answer"
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReadyz))
	switch {
	case resp.StatusCode < http.StatusInternalServerError:
		return ""
	case err != nil:
		return "does not answer"
	}
	var failed []string
	for line := range strings.Lines(string(text)) {
		if name, isFailed := strings.CutPrefix(line, "[-]"); isFailed && len(failed) < mostFaults {
			name, _, _ = strings.Cut(name, " ")
			failed = append(failed, strings.TrimSpace(name))
		}
	}
	if len(failed) == 0 {
		return fmt.Sprintf("is not ready (%d)", resp.StatusCode)
	}
	return "is not ready (" + strings.Join(failed, ", ") + ")"
}
