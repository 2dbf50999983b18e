package child

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
	helmkube "helm.sh/helm/v4/pkg/kube"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// maxInput bounds the job: a chart and values in base64, and certificates.
const maxInput = 2*helm.MaxArchive + 6*helm.MaxValues

// dataLimit is where the kernel refuses memory to this process. The parent kills it at half of that, unless it allocates faster than
// the parent looks.
const dataLimit = 1 << 30

// Main does the job that it reads, and writes lines. The error is that of the lines: how the job ended is in the last one.
func Main(ctx context.Context, in io.Reader, out *os.File) error {
	restrict()
	// What the SDK prints must not become a part of the lines.
	os.Stdout = os.Stderr
	l := &lines{out: out}
	result, err := run(ctx, in, l)
	last := helm.Line{Done: true, Result: result}
	if err != nil {
		last.Error = explain(err)
	} else if result == nil {
		last.Result = &helm.Result{}
	}
	return l.write(last)
}

// restrict bounds what this process can take, whatever a chart does.
func restrict() {
	debug.SetMaxStack(64 << 20)
	if helm.MemoryScale == 1 { // the race detector has reserved more than that
		_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: dataLimit, Max: dataLimit})
	}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	// Where the machine has no memory left, the kernel ends this process before its parent.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	// The name that Helm's CLI has: with server-side apply a release has one manager of its fields, no matter which program upgrades it.
	helmkube.ManagedFieldsManager = "helm"
}

func run(ctx context.Context, in io.Reader, l *lines) (result *helm.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &helm.Error{Reason: helm.ReasonFailed, Message: fmt.Sprintf("Helm operation: a panic: %v", r)}
		}
	}()
	var job helm.Job
	if err := json.NewDecoder(bufio.NewReader(io.LimitReader(in, maxInput))).Decode(&job); err != nil {
		return nil, &helm.Error{Reason: helm.ReasonInvalid, Message: "Helm operation: read the job: " + err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, job.Timeout)
	defer cancel()
	o, err := newOperation(job, l)
	if err != nil {
		return nil, err
	}
	return o.run(ctx)
}
