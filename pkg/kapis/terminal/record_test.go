package terminal_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	kapisterminal "kapis.dev/ks-apiserver/pkg/kapis/terminal"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/terminal/recording"
)

// recorder records into a folder. stop returns when all is written.
func recorder(t *testing.T, o recording.Options) (r *recording.Recorder, folder string, stop func()) {
	t.Helper()
	f, err := recording.NewFolder(filepath.Join(t.TempDir(), "casts"), 0, 0, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	o.Sink, o.Now = f, time.Now
	if r, err = recording.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return r, f.Path, stop
}

// O12: where a shell must be recorded and can't be, nothing of it is opened: no exec, and no pod.
func TestWithoutARecordingNothingIsOpened(t *testing.T) {
	r, folder, _ := recorder(t, recording.Options{Strict: true})
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	p := newPlane(t, corev1.PodRunning)
	l := terminal.NewLimiter(terminal.PodLimits, time.Now)
	srv := serve(t, &kapisterminal.V1alpha2{Recorder: r, Nodes: nodes(p), Pods: l, Executor: executor(func(*http.Request, terminal.Streams) error {
		t.Error("it is opened")
		return nil
	})}, nil)
	for _, at := range []string{path, path + "/exec", nodePath} {
		conn, res, said := dial(t, srv.URL+at)
		if conn != nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(said, "recorded") ||
			strings.Contains(said, folder) {
			t.Errorf("%s: %d %s", at, res.StatusCode, said)
		}
	}
	if asked := p.questions(); asked != "" {
		t.Errorf("it asks for %s", asked)
	}
}

// O12: a shell whose recording is lost ends with a code and a line that says so.
func TestAShellEndsWithItsRecording(t *testing.T) {
	for _, at := range []string{path + "/exec", nodePath} {
		r, folder, stop := recorder(t, recording.Options{Strict: true})
		p := newPlane(t, corev1.PodRunning)
		srv := serve(t, &kapisterminal.V1alpha2{Recorder: r, Nodes: nodes(p), Executor: executor(func(r *http.Request, s terminal.Streams) error {
			s.Started()
			if err := os.RemoveAll(folder); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
			return r.Context().Err()
		})}, nil)
		conn, _, said := dial(t, srv.URL+at)
		if conn == nil {
			t.Fatal(said)
		}
		code, shown := ended(t, conn)
		if code != terminal.CodeUnrecorded || !strings.Contains(shown, "can't be recorded any more") {
			t.Errorf("%s: %d %q", at, code, shown)
		}
		stop()
		if at == nodePath {
			<-p.deleted
		}
	}
}

// O12, O36, O45: a cast has what was shown, but for what is redacted, and no key; no line of the log has either, nor a token.
func TestACastHasNoKeyAndTheLogHasNothing(t *testing.T) {
	const typed, shown, hidden, token = "canary-of-a-key", "canary-of-a-screen", "canary-of-a-pattern", "canary-of-a-token"
	var log syncBuffer
	defer klog.CaptureState().Restore()
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	r, folder, stop := recorder(t, recording.Options{Redact: []*regexp.Regexp{regexp.MustCompile(`canary-of-a-pat\w+`)}})
	p := newPlane(t, corev1.PodRunning)
	srv := serve(t, &kapisterminal.V1alpha2{Recorder: r, Nodes: nodes(p), Executor: executor(func(_ *http.Request, s terminal.Streams) error {
		s.Started()
		buf := make([]byte, len(typed))
		if _, err := io.ReadFull(s.Stdin, buf); err != nil || string(buf) != typed {
			t.Errorf("%q %v", buf, err)
		}
		_, err := io.WriteString(s.Stdout, shown+" "+hidden+"\r\n")
		return err
	})}, nil)
	for _, at := range []string{path + "/exec", nodePath} {
		conn, _, said := dial(t, srv.URL+at, "Authorization: Bearer "+token, "Cookie: token="+token)
		if conn == nil {
			t.Fatal(said)
		}
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"Op":"stdin","Data":"`+typed+`"}`)); err != nil {
			t.Fatal(err)
		}
		if code, screen := ended(t, conn); code != websocket.StatusNormalClosure || !strings.Contains(screen, shown+" "+hidden) {
			t.Errorf("%d %q", code, screen)
		}
	}
	srv.Close()
	stop()
	klog.Flush()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%v %v", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".cast") && !bytes.Contains(raw, []byte(shown+" REDACTED")) {
			t.Errorf("%s has %s", file, raw)
		}
		for _, secret := range []string{typed, hidden, token} {
			if bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%s is in %s", secret, raw)
			}
		}
	}
	if said := log.String(); strings.Contains(said, "canary") || strings.Count(said, `"terminal recorded"`) != 2 || strings.Count(said, `"terminal ended"`) != 2 {
		t.Errorf("the log is %s", said)
	}
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
