package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

const (
	terminalNamespace = "bench-terminal"
	// terminalKeys are typed in a round, one after the echo of the other, and terminalOutput bytes shown.
	terminalKeys, terminalOutput = 200, 40 << 20
	// terminalTimeout bounds a round.
	terminalTimeout = 2 * time.Minute
	// terminalsPerUser is how many a user may have.
	terminalsPerUser = 10
)

// measureTerminal measures terminals alone.
func (b *bench) measureTerminal(ctx context.Context) error {
	b.measured("terminal", func() ([]figure, error) { return b.terminals(ctx) })
	return ctx.Err()
}

// terminals measures a shell in a pod as the console opens it, next to the same exec at kube-apiserver, which is what kubectl opens; and how
// long a kubectl shell takes to show its first output.
func (b *bench) terminals(ctx context.Context) (figures []figure, err error) {
	pod, err := b.terminalPod(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), clusterTimeout)
		defer cancel()
		err = errors.Join(err, b.kube.CoreV1().Namespaces().Delete(end, terminalNamespace, metav1.DeleteOptions{}))
	}()
	ours := func(ctx context.Context) (terminal, error) {
		return openConsole(ctx, b.client, shellIn(pod))
	}
	theirs := func(ctx context.Context) (terminal, error) { return b.openExec(ctx, pod) }
	figures, err = compareTerminals(ctx, b.rounds, ours, theirs)
	if err != nil {
		return figures, err
	}
	idle, err := b.idleTerminals(ctx, pod)
	if err != nil {
		return figures, err
	}
	shells, err := b.kubectlShells(ctx)
	return append(append(figures, idle...), shells...), err
}

// idleTerminals measures what a shell takes in which nothing happens: by the heap and the stacks of a server that has no other work, and
// collects its garbage at every twentieth of growth.
func (b *bench) idleTerminals(ctx context.Context, pod string) (_ []figure, err error) {
	ctx, cancel := context.WithTimeout(ctx, terminalTimeout)
	defer cancel()
	tokens, err := b.makeWatchers(ctx)
	if err != nil {
		return nil, err
	}
	replica, err := b.stack.ReplicaWithEnv(ctx, []string{"GOGC=5"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, replica.Stop()) }()
	inUse := func() (float64, error) {
		raw, err := client{Server: replica.Server, token: b.client.token}.get(ctx, "/metrics")
		if err != nil {
			return 0, err
		}
		var inUse float64
		for name, value := range samples(raw.Body) {
			if name == "go_memstats_heap_inuse_bytes" || name == "go_memstats_stack_inuse_bytes" {
				inUse += value
			}
		}
		return inUse, nil
	}
	var before float64
	open := 0
	for round := range terminalsPerUser {
		for _, token := range tokens {
			t, err := openConsole(ctx, client{Server: replica.Server, token: token, pid: replica.PID}, shellIn(pod))
			if err != nil {
				return nil, err
			}
			defer t.close()
			if err := awaitShell(ctx, t); err != nil {
				return nil, err
			}
			open++
		}
		if round == 0 { // the first ones took what is there once for all
			if before, err = inUse(); err != nil {
				return nil, err
			}
			open = 0
		}
	}
	after, err := inUse()
	if err != nil {
		return nil, err
	}
	return []figure{{name: "terminal-idle", value: (after - before) / float64(open) / 1024, unit: "KiB", goal: "<= 100 KiB"}}, nil
}

// shellIn returns the path of terminals in a pod.
func shellIn(pod string) string {
	return "/kapis/terminal.kubesphere.io/v1alpha2/namespaces/" + terminalNamespace + "/pods/" + pod + "/exec?shell=sh"
}

// terminalPod makes a pod that runs, and returns its name.
func (b *bench) terminalPod(ctx context.Context) (name string, err error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: terminalNamespace}}
	if _, err := b.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("make a namespace for terminals: %w", err)
	}
	labels := map[string]string{"app": "shell"}
	_, err = b.kube.AppsV1().Deployments(terminalNamespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shell"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "shell", Image: "example/shell"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("make a pod for terminals: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, clusterTimeout, true, func(ctx context.Context) (bool, error) {
		pods, err := b.kube.CoreV1().Pods(terminalNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning {
				name = pods.Items[i].Name
			}
		}
		return name != "", nil
	})
	return name, err
}

// terminal is one end of a shell.
type terminal interface {
	// send types, and receive returns the next output.
	send(ctx context.Context, text string) error
	receive(ctx context.Context) (string, error)
	close()
}

// opener opens a terminal.
type opener func(context.Context) (terminal, error)

// compareTerminals measures the echo of a key and the rate of output, in turns.
func compareTerminals(ctx context.Context, rounds int, ours, theirs opener) ([]figure, error) {
	var rates, baseRates []float64
	var echoes, baseEchoes []time.Duration
	for round := range rounds {
		sides := []struct {
			open   opener
			rates  *[]float64
			echoes *[]time.Duration
		}{{ours, &rates, &echoes}, {theirs, &baseRates, &baseEchoes}}
		if round%2 == 1 {
			slices.Reverse(sides)
		}
		for _, side := range sides {
			rate, took, err := playTerminal(ctx, side.open)
			if err != nil {
				return nil, err
			}
			*side.rates = append(*side.rates, rate)
			*side.echoes = append(*side.echoes, took...)
		}
	}
	slices.Sort(echoes)
	slices.Sort(baseEchoes)
	const direct = "exec-at-kube-apiserver"
	out := []figure{{name: "terminal-output-rate", value: median(rates), unit: "MB/s", yardstick: direct, base: median(baseRates), goal: ">= 20 MB/s"}}
	for _, q := range []struct {
		suffix string
		of     float64
		goal   string
	}{{"p50", 0.5, "<= 2 ms"}, {"p99", 0.99, "<= 10 ms"}} {
		a, base := milliseconds(quantile(echoes, q.of)), milliseconds(quantile(baseEchoes, q.of))
		out = append(out,
			figure{name: "terminal-echo-" + q.suffix, value: a, unit: "ms", yardstick: direct, base: base},
			figure{name: "terminal-echo-" + q.suffix + "-beyond", value: a - base, unit: "ms", goal: q.goal})
	}
	return out, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// playTerminal plays one round: keys one by one, then much output.
func playTerminal(ctx context.Context, open opener) (rate float64, echoes []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, terminalTimeout)
	defer cancel()
	t, err := open(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer t.close()
	if err := awaitShell(ctx, t); err != nil {
		return 0, nil, err
	}
	for range terminalKeys {
		begun := time.Now()
		if err := t.send(ctx, "k"); err != nil {
			return 0, nil, err
		}
		if err := receiveUntil(ctx, t, "k"); err != nil {
			return 0, nil, err
		}
		echoes = append(echoes, time.Since(begun))
	}
	// Control-U removes what was typed.
	if err := t.send(ctx, fmt.Sprintf("\x15head -c %d /dev/zero | tr '\\0' x; echo ov''er\r", terminalOutput)); err != nil {
		return 0, nil, err
	}
	begun := time.Now()
	if err := receiveUntil(ctx, t, "xover\r\n"); err != nil {
		return 0, nil, err
	}
	return terminalOutput / 1e6 / time.Since(begun).Seconds(), echoes, nil
}

// awaitShell waits until a shell has run a command, and leaves it without a prompt.
func awaitShell(ctx context.Context, t terminal) error {
	if err := t.send(ctx, "PS1=; echo re''ady\r"); err != nil {
		return err
	}
	return receiveUntil(ctx, t, "ready\r\n")
}

// receiveUntil reads until the output ends with a text.
func receiveUntil(ctx context.Context, t terminal, text string) error {
	tail := ""
	for !strings.HasSuffix(tail, text) {
		got, err := t.receive(ctx)
		if err != nil {
			return fmt.Errorf("wait for %q in a terminal that shows %.200q: %w", text, tail, err)
		}
		tail += got
		tail = tail[max(0, len(tail)-len(text)-200):]
	}
	return nil
}

// console is a terminal by the frames of the console.
type console struct{ conn *websocket.Conn }

func openConsole(ctx context.Context, c client, path string) (terminal, error) {
	conn, res, err := websocket.Dial(ctx, c.URL+path, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + c.token}}})
	if res != nil && res.Body != nil {
		_ = res.Body.Close() // of a refusal: that of a WebSocket is empty
	}
	if err != nil {
		if res != nil {
			err = fmt.Errorf("%w: %s", err, res.Status)
		}
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	conn.SetReadLimit(1 << 20)
	return &console{conn}, nil
}

func (c *console) send(ctx context.Context, text string) error {
	raw, err := json.Marshal(map[string]string{"Op": "stdin", "Data": text})
	if err != nil {
		return err
	}
	return c.conn.Write(ctx, websocket.MessageText, raw)
}

func (c *console) receive(ctx context.Context) (string, error) {
	_, raw, err := c.conn.Read(ctx)
	if err != nil {
		return "", err
	}
	var f struct{ Data string }
	err = json.Unmarshal(raw, &f)
	return f.Data, err
}

func (c *console) close() { _ = c.conn.CloseNow() }

// direct is a terminal by an exec at kube-apiserver.
type direct struct {
	in  *io.PipeWriter
	out *io.PipeReader
	end context.CancelFunc
	buf []byte
}

func (b *bench) openExec(ctx context.Context, pod string) (terminal, error) {
	r := b.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(terminalNamespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"sh"}, Stdin: true, Stdout: true, TTY: true}, scheme.ParameterCodec)
	by, err := remotecommand.NewWebSocketExecutor(b.restConfig, http.MethodGet, r.URL().String())
	if err != nil {
		return nil, fmt.Errorf("open an exec at kube-apiserver: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	go func() {
		_ = stdout.CloseWithError(by.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Tty: true}))
	}()
	return &direct{in, out, end, make([]byte, 64<<10)}, nil
}

func (d *direct) send(_ context.Context, text string) error {
	_, err := io.WriteString(d.in, text)
	return err
}

func (d *direct) receive(context.Context) (string, error) {
	n, err := d.out.Read(d.buf)
	return string(d.buf[:n]), err
}

func (d *direct) close() {
	d.end()
	_ = d.in.Close()
	_ = d.out.Close()
}

// kubectlShells measures how long it takes until a kubectl shell runs a command: the first one, whose pod is made, and one beside it.
func (b *bench) kubectlShells(ctx context.Context) ([]figure, error) {
	ctx, cancel := context.WithTimeout(ctx, terminalTimeout)
	defer cancel()
	replica, err := b.stack.ReplicaWithEnv(ctx, []string{"KUBESPHERE_TERMINAL_KUBECTL_IMAGE=example/kubectl"})
	if err != nil {
		return nil, err
	}
	c := client{Server: replica.Server, token: b.client.token, pid: replica.PID}
	open := func() (terminal, float64, error) {
		begun := time.Now()
		t, err := openConsole(ctx, c, "/kapis/terminal.kubesphere.io/v1alpha2/users/admin/kubectl?shell=sh")
		if err != nil {
			return nil, 0, err
		}
		if err := awaitShell(ctx, t); err != nil {
			t.close()
			return nil, 0, err
		}
		return t, milliseconds(time.Since(begun)), nil
	}
	first, took, err := open()
	if err != nil {
		return nil, err
	}
	defer first.close()
	var others []float64
	for range b.rounds {
		t, took, err := open()
		if err != nil {
			return nil, err
		}
		t.close()
		others = append(others, took)
	}
	return []figure{
		{name: "kubectl-shell-first", value: took, unit: "ms", goal: "<= 3000 ms"},
		{name: "kubectl-shell-next", value: median(others), unit: "ms", goal: "<= 300 ms"},
	}, nil
}
