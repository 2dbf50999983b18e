package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// yardstickCommand is the hidden first argument of a process that is a yardstick: the compared servers are processes of their own,
// each with its own heap and its own processor time.
const yardstickCommand = "yardstick"

// answer is the bare handler's answer to one request URI.
type answer struct {
	URI    string
	Status int // 0 for 200
	Header http.Header
	Body   []byte
}

// serveYardstick is the main function of such a process. It reads the answers of the bare handler from in, and ends when in does,
// which is at the latest when its parent ends. Its address is the only line that it prints.
func serveYardstick(kind string, args []string, in io.Reader, out io.Writer) error {
	var h http.Handler
	switch {
	case (kind == "bare" || kind == "http2") && len(args) == 0, kind == "following" && len(args) == 1:
		var answers []answer
		if err := gob.NewDecoder(in).Decode(&answers); err != nil {
			return fmt.Errorf("read the answers to give: %w", err)
		}
		h = newBare(answers)
		if kind == "following" {
			if err := followChanges(context.Background(), args[0]); err != nil {
				return err
			}
		}
	case kind == "reading" && len(args) == 1:
		if err := readPods(context.Background(), args[0]); err != nil {
			return err
		}
	case kind == "sort" && len(args) == 1:
		pods, err := loadPods(args[0])
		if err != nil {
			return err
		}
		h = sorting{pods}
	case kind == "proxy" && len(args) == 1:
		h = newReverseProxy(args[0])
	case kind == "http2-proxy" && len(args) == 1:
		h = newHTTP2Proxy(args[0])
	default:
		return fmt.Errorf("there is no yardstick %q with %d arguments", kind, len(args))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if kind == "http2" {
		config, err := selfSigned()
		if err != nil {
			return err
		}
		l = tls.NewListener(l, config)
	}
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return fmt.Errorf("tell the address: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		_ = srv.Close() // Serve returns
	}()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// bare serves prepared answers: what net/http alone costs.
type bare map[string]answer

func newBare(answers []answer) bare {
	b := bare{}
	for _, a := range answers {
		a.Header = a.Header.Clone()
		for _, name := range []string{"Date", "Connection", "Transfer-Encoding"} { // net/http's own
			a.Header.Del(name)
		}
		if a.Status != http.StatusNotModified {
			a.Header.Set("Content-Length", strconv.Itoa(len(a.Body)))
		}
		b[a.URI] = a
	}
	return b
}

// ServeHTTP writes the prepared answer.
func (b bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, ok := b[r.RequestURI]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	for name, values := range a.Header {
		h[name] = values
	}
	if a.Status != 0 {
		w.WriteHeader(a.Status)
	}
	if len(a.Body) == 0 {
		return
	}
	_, _ = w.Write(a.Body) // the caller notices a short answer
}

// followedPaths are the lists at kube-apiserver of what a mix changes.
var followedPaths = [...]string{"/api/v1/pods", "/api/v1/configmaps", "/apis/coordination.k8s.io/v1/leases"}

// watchClient returns what requests objects as ks-apiserver reads them.
func watchClient(kubeconfig string) (rest.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return client.CoreV1().RESTClient(), nil
}

// readPods reads all pods as a reflector does that streams its list, and drops them: no program that lists them from memory needs less.
func readPods(ctx context.Context, kubeconfig string) error {
	client, err := watchClient(kubeconfig)
	if err != nil {
		return err
	}
	stream, err := client.Get().AbsPath("/api/v1/pods").Param("watch", "true").Param("allowWatchBookmarks", "true").
		Param("sendInitialEvents", "true").Param("resourceVersionMatch", "NotOlderThan").Stream(ctx)
	if err != nil {
		return fmt.Errorf("watch the pods: %w", err)
	}
	defer stream.Close()
	for lines := bufio.NewReaderSize(stream, 64<<10); ; {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // an object, and no bookmark
		case err != nil:
			return fmt.Errorf("read the pods: %w", err)
		case bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) && bytes.Contains(line, []byte(metav1.InitialEventsAnnotationKey)):
			return nil
		}
	}
}

// followChanges reads what changes from now on, and drops it, until the process ends.
func followChanges(ctx context.Context, kubeconfig string) error {
	client, err := watchClient(kubeconfig)
	if err != nil {
		return err
	}
	for _, path := range followedPaths {
		stream, err := client.Get().AbsPath(path).Param("watch", "true").Stream(ctx)
		if err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		go func() { _, _ = io.Copy(io.Discard, stream) }() // it ends with this process
	}
	return nil
}

// sorting is the plain way to serve a list: copy the slice, sort all of it, encode the page.
type sorting struct {
	pods []*corev1.Pod
}

// ServeHTTP writes the page of limit and page, newest first.
func (s sorting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limit, err := strconv.Atoi(r.FormValue("limit"))
	page, err2 := strconv.Atoi(cmp.Or(r.FormValue("page"), "1"))
	if err = errors.Join(err, err2); err != nil || limit < 1 || page < 1 {
		http.Error(w, fmt.Sprintf("limit and page must be numbers from 1: %v", err), http.StatusBadRequest)
		return
	}
	sorted := slices.Clone(s.pods)
	slices.SortFunc(sorted, newestFirst)
	from := min((page-1)*limit, len(sorted))
	to := min(from+limit, len(sorted))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"items": sorted[from:to], "totalItems": len(sorted)})
}

func newestFirst(a, b *corev1.Pod) int {
	return cmp.Or(
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		strings.Compare(b.Namespace, a.Namespace),
		strings.Compare(b.Name, a.Name),
	)
}

// loadPods reads all pods of a cluster.
func loadPods(kubeconfig string) ([]*corev1.Pod, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	protobuf(cfg)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	err = eachPod(context.Background(), client, "", func(p *corev1.Pod) {
		p.ManagedFields, p.APIVersion, p.Kind = nil, "v1", "Pod"
		pods = append(pods, p)
	})
	return pods, err
}

// process is a running yardstick.
type process struct {
	addr  string
	pid   int
	stdin io.Closer
	cmd   *exec.Cmd
}

// startYardstick starts a yardstick process and returns when it listens.
func startYardstick(ctx context.Context, answers []answer, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, append([]string{yardstickCommand}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a yardstick: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a yardstick: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a yardstick: %w", err)
	}
	p := &process{pid: cmd.Process.Pid, stdin: stdin, cmd: cmd}
	if answers != nil {
		err = gob.NewEncoder(stdin).Encode(answers)
	}
	if err == nil {
		_, err = fmt.Fscanln(stdout, &p.addr)
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("start a yardstick: %w: %s", err, said.String())
	}
	return p, nil
}

// stop ends it and waits. Its exit status does not matter.
func (p *process) stop() {
	p.stdin.Close()
	_ = p.cmd.Wait()
}
