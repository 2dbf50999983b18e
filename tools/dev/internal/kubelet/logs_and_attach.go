package kubelet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crilogs "k8s.io/cri-client/pkg/logs"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

func (p *pods) logs(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	options, err := logOptions(query, time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	file := p.Log
	if query.Get("previous") == "true" {
		file = p.PreviousLog
	}
	out := &flushing{w, http.NewResponseController(w)}
	if options.Follow { // the client waits for the header even while there is nothing to show
		_ = out.control.Flush()
	}
	var stdout, stderr io.Writer = out, out
	switch query.Get("stream") {
	case "Stdout":
		stderr = io.Discard
	case "Stderr":
		stdout = io.Discard
	}
	if err := crilogs.ReadLogs(r.Context(), file, "", options, running{}, stdout, stderr); err != nil && r.Context().Err() == nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// logOptions reads the query of core/v1 PodLogOptions.
func logOptions(query url.Values, now time.Time) (*crilogs.LogOptions, error) {
	o := &crilogs.LogOptions{
		Follow:    query.Get("follow") == "true",
		Timestamp: query.Get("timestamps") == "true",
	}
	var err error
	if o.TailLines, err = integer(query, "tailLines"); err != nil {
		return nil, err
	}
	if o.LimitBytes, err = integer(query, "limitBytes"); err != nil {
		return nil, err
	}
	seconds, err := integer(query, "sinceSeconds")
	if err != nil {
		return nil, err
	}
	if seconds != nil {
		o.Since = now.Add(-time.Duration(*seconds) * time.Second)
	}
	if text := query.Get("sinceTime"); text != "" {
		if o.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, fmt.Errorf("sinceTime: %w", err)
		}
	}
	return o, nil
}

func integer(query url.Values, name string) (*int64, error) {
	text := query.Get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%s: %q is not a number of at least 0", name, text)
	}
	return &n, nil
}

// AttachContainer implements remotecommand.Attacher: it sends what is appended to the log, until the client disconnects. A container that
// has a terminal and an input is taken for a shell, which runs on this machine for as long as the client is attached.
func (p *pods) AttachContainer(ctx context.Context, pod, uid, container string, in io.Reader, out, errOut io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize) error {
	if tty && in != nil {
		return p.ExecInContainer(ctx, pod, uid, container, []string{"sh"}, in, out, errOut, tty, resize, 0)
	}
	stdout, stderr := io.Discard, io.Discard
	if out != nil {
		stdout, stderr = out, out
	}
	if errOut != nil {
		stderr = errOut
	}
	options := &crilogs.LogOptions{TailLines: new(int64), Follow: true}
	if err := crilogs.ReadLogs(ctx, p.Log, "", options, running{}, stdout, stderr); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// running is a container runtime that never says that a container has stopped, so that following a log goes on.
type running struct {
	cri.RuntimeService
}

// ContainerStatus answers as a runtime that cannot be reached, in which case log readers take the container as running.
func (running) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	return nil, status.Error(codes.Unavailable, "simulated")
}

// flushing sends every line at once.
type flushing struct {
	io.Writer
	control *http.ResponseController
}

func (f *flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}
