package recording_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/terminal/recording"
)

// process is an Executor made of a function.
type process func(ctx context.Context, s terminal.Streams) error

func (p process) Exec(r *http.Request, s terminal.Streams) error { return p(r.Context(), s) }

// world has a Recorder and what it wrote.
type world struct {
	*recording.Recorder
	metrics *prometheus.Registry
	stop    func()
}

// record starts a Recorder. stop returns when all is written.
func record(t *testing.T, o recording.Options) *world {
	t.Helper()
	w := &world{metrics: prometheus.NewRegistry()}
	o.Registerer, o.Now = w.metrics, time.Now
	var err error
	if w.Recorder, err = recording.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	w.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(w.stop)
	return w
}

var subject = terminal.Subject{User: "bob", UID: "u-1", Source: "192.0.2.7", AuditID: "a-1", Namespace: "shop", Pod: "web", Container: "nginx"}

// session runs a recorded session, and returns its recording and the cause of its context's end.
func (w *world) session(t *testing.T, s terminal.Streams, p process) (terminal.Recording, error) {
	t.Helper()
	rec, err := w.Begin(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	return rec, run(t, rec, s, p)
}

func run(t *testing.T, rec terminal.Recording, s terminal.Streams, p process) error {
	t.Helper()
	info := &request.Info{Namespace: "shop", Name: "web"}
	r, err := http.NewRequestWithContext(request.WithInfo(t.Context(), info), http.MethodPost, "/api/v1/namespaces/shop/pods/web/exec?container=nginx", nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Stdout == nil {
		s.Stdout = io.Discard
	}
	if s.Stdin == nil {
		s.Stdin = strings.NewReader("")
	}
	r, by := rec.Over(r, p)
	_ = by.Exec(r, s)
	cause := context.Cause(r.Context())
	rec.End(&terminal.Ending{Code: 1000, Exit: 3}, 5, 7)
	return cause
}

// event is a line of a cast after the first.
type event struct {
	at         float64
	code, data string
}

// parse reads a cast.
func parse(t *testing.T, cast string) (header map[string]any, events []event) {
	t.Helper()
	lines := strings.SplitAfter(cast, "\n")
	if lines[len(lines)-1] != "" {
		t.Fatalf("the last line has no end: %q", lines[len(lines)-1])
	}
	if err := json.Unmarshal([]byte(lines[0]), &header); err != nil {
		t.Fatalf("%q: %v", lines[0], err)
	}
	for _, line := range lines[1 : len(lines)-1] {
		var e event
		if err := json.Unmarshal([]byte(line), &[]any{&e.at, &e.code, &e.data}); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if n := len(events); n > 0 && events[n-1].at > e.at || e.at < 0 {
			t.Errorf("the event %q is before the one that it follows", line)
		}
		events = append(events, e)
	}
	return header, events
}

// texts joins the events of a code.
func texts(events []event, code string) string {
	var all strings.Builder
	for _, e := range events {
		if e.code == code {
			all.WriteString(e.data)
		}
	}
	return all.String()
}

func read(t *testing.T, elements ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func folder(t *testing.T, maxBytes int64, maxAge time.Duration) *recording.Folder {
	t.Helper()
	f, err := recording.NewFolder(filepath.Join(t.TempDir(), "casts"), maxBytes, maxAge, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestACastIsWhatWasShown(t *testing.T) { // O12
	f := folder(t, 0, 0)
	w := record(t, recording.Options{Sink: f})
	const text = "aä€\U0001F600\x1b[31m\"\\\u2028\xff\xe4b\xf0\x9f"
	const want = "aä€\U0001F600\x1b[31m\"\\\u2028\uFFFD\uFFFDb\uFFFD"
	sizes := make(chan terminal.Size, 1)
	sizes <- terminal.Size{Width: 100, Height: 30}
	var screen, got bytes.Buffer
	rec, _ := w.session(t, terminal.Streams{Stdin: strings.NewReader("secret\r"), Stdout: &screen, Sizes: sizes}, func(_ context.Context, s terminal.Streams) error {
		if size := <-s.Sizes; size.Width != 100 {
			t.Errorf("the process has the size %v", size)
		}
		for i := range len(text) {
			if _, err := s.Stdout.Write([]byte(text[i : i+1])); err != nil {
				t.Error(err)
			}
		}
		sizes <- terminal.Size{Width: 80, Height: 24}
		<-s.Sizes
		_, err := got.ReadFrom(s.Stdin)
		return err
	})
	w.stop()
	if screen.String() != text || got.String() != "secret\r" {
		t.Errorf("the recording changes what is shown to %q, or typed to %q", screen.String(), got.String())
	}
	cast := read(t, f.Path, rec.ID()+".cast")
	header, events := parse(t, cast)
	if header["version"] != 2.0 || header["width"] != 100.0 || header["height"] != 30.0 || header["title"] != "bob @ shop/web/nginx" || header["timestamp"] == nil ||
		len(header) != 5 {
		t.Errorf("%v", header)
	}
	if texts(events, "o") != want || texts(events, "r") != "80x24" || texts(events, "i")+texts(events, "m") != "" {
		t.Errorf("%+v", events)
	}
	var meta struct {
		Session, Source, AuditID, Began, Ended string
		User                                   struct{ Username, UID string }
		Where                                  struct{ Namespace, Pod, Container string }
		Code, Exit                             int
		BytesIn, BytesOut                      int64
		Cast                                   struct {
			Bytes    int
			SHA256   string
			Complete bool
		}
	}
	if err := json.Unmarshal([]byte(read(t, f.Path, rec.ID()+".json")), &meta); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(cast))
	if meta.Session != rec.ID() || meta.User.Username != "bob" || meta.User.UID != "u-1" || meta.Source != "192.0.2.7" || meta.AuditID != "a-1" || meta.Where.Pod != "web" ||
		meta.Where.Container != "nginx" || meta.Code != 1000 || meta.Exit != 3 || meta.BytesIn != 5 || meta.BytesOut != 7 || meta.Began == "" || meta.Ended == "" ||
		meta.Cast.Bytes != len(cast) || meta.Cast.SHA256 != hex.EncodeToString(sum[:]) || !meta.Cast.Complete {
		t.Errorf("%+v", meta)
	}
	entries, err := os.ReadDir(f.Path)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has the mode %v: %v", e.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(f.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has the mode %v: %v", info.Mode(), err)
	}
	if n := count(t, w, "ks_terminal_recording_total", "complete"); n != 1 {
		t.Errorf("%v recordings are counted", n)
	}
}

// count returns the value of a metric.
func count(t *testing.T, w *world, name, label string) float64 {
	t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Errorf("%s has no series of %s: an alert on its increase would miss the first", name, label)
	return 0
}

func TestWhatIsTypedIsRecordedOnDemand(t *testing.T) { // O12
	f := folder(t, 0, 0)
	w := record(t, recording.Options{Sink: f, Input: true, Redact: []*regexp.Regexp{regexp.MustCompile(`token=\S+`)}})
	rec, _ := w.session(t, terminal.Streams{Stdin: strings.NewReader("ls token=abc\rpwd")}, func(_ context.Context, s terminal.Streams) error {
		_, err := io.Copy(s.Stdout, s.Stdin)
		return err
	})
	w.stop()
	_, events := parse(t, read(t, f.Path, rec.ID()+".cast"))
	const want = "ls REDACTED\rpwd"
	if texts(events, "i") != want || texts(events, "o") != want {
		t.Errorf("%+v", events)
	}
}

// memory is a Sink whose one recording is a text.
type memory struct {
	mu     sync.Mutex
	cast   bytes.Buffer
	meta   []byte
	block  chan struct{} // Write waits for it
	check  chan struct{} // Check does
	fail   error         // of Write
	gone   error         // of Check
	noOpen error
}

func (m *memory) Open(context.Context, string, []byte) (recording.Store, error) { return m, m.noOpen }
func (m *memory) Run(ctx context.Context)                                       { <-ctx.Done() }
func (m *memory) Lost() <-chan error                                            { return nil }
func (m *memory) Check() error {
	if m.check != nil {
		<-m.check
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone
}

func (m *memory) Write(p []byte) error {
	if m.block != nil {
		<-m.block
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail == nil {
		m.cast.Write(p)
	}
	return m.fail
}

func (m *memory) Finish(_ context.Context, meta []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meta = meta
	return nil
}

func (m *memory) set(fail, gone error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail, m.gone = fail, gone
}

func TestASecretInALineIsNotRecorded(t *testing.T) { // O12, O36
	patterns := []*regexp.Regexp{regexp.MustCompile(`AKIA[A-Z0-9]{4}`), regexp.MustCompile(`(?i)password: \S+`), regexp.MustCompile(`x*y|\b`)}
	long := strings.Repeat("z", 40<<10)
	for name, c := range map[string]struct {
		pieces []string
		want   string
	}{
		"InOnePiece":        {[]string{"a AKIA1234 b\r\nc"}, "a REDACTED b\r\nc"},
		"ByteByByte":        {strings.Split("PassWord: hunter2\r\nok", ""), "REDACTED\r\nok"},
		"Twice":             {[]string{"AKIA1234AKIA5678\nAKIA9999"}, "REDACTEDREDACTED\nREDACTED"},
		"Overlapping":       {[]string{"password: AKIA1234x\n"}, "REDACTED\n"},
		"NotAcrossLines":    {[]string{"AKIA\n1234"}, "AKIA\n1234"},
		"CutInTime":         {[]string{"password: hun", "", "ter2\n!"}, "REDACTEDREDACTED\n!"},
		"CutBeforeItIsOne":  {[]string{"AKIA12", "", "34 b\n"}, "AKIA12REDACTED b\n"},
		"InALongLine":       {[]string{long, "AKIA1234", long, "\n"}, long + "REDACTED" + long + "\n"},
		"CutCharacters":     {strings.Split("ä AKIA1234 \U0001F600", ""), "ä REDACTED \U0001F600"},
		"BytesOfCharacters": {[]string{"\xc3", "\xa4\xf0\x9f", "", "\x98\x80\n"}, "ä\U0001F600\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{}
				w := record(t, recording.Options{Sink: m, Redact: patterns})
				w.session(t, terminal.Streams{}, func(_ context.Context, s terminal.Streams) error {
					for _, p := range c.pieces {
						if p == "" {
							time.Sleep(2 * recording.Hold) // the time of the test
						}
						if _, err := s.Stdout.Write([]byte(p)); err != nil {
							t.Error(err)
						}
					}
					return nil
				})
				w.stop()
				if _, events := parse(t, m.cast.String()); texts(events, "o") != c.want {
					t.Errorf("%.200q, want %.200q", texts(events, "o"), c.want)
				}
			})
		})
	}
}

// What waits for the end of its line waits for a second.
func TestAPromptIsRecordedInASecond(t *testing.T) { // O12
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		w := record(t, recording.Options{Sink: m, Redact: []*regexp.Regexp{regexp.MustCompile("x+")}})
		w.session(t, terminal.Streams{}, func(_ context.Context, s terminal.Streams) error {
			_, err := s.Stdout.Write([]byte("$"))
			time.Sleep(recording.Hold * 3 / 4)
			_, _ = s.Stdout.Write([]byte(" ")) // which does not make the first byte wait for longer
			time.Sleep(recording.Hold / 4)
			synctest.Wait()
			m.mu.Lock()
			defer m.mu.Unlock()
			if _, events := parse(t, m.cast.String()); texts(events, "o") != "$ " || events[0].at > 1.0 {
				t.Errorf("%v", events)
			}
			return err
		})
		w.stop()
	})
}

func TestASlowSinkSlowsNoTerminal(t *testing.T) { // O12
	synctest.Test(t, func(t *testing.T) {
		m := &memory{block: make(chan struct{})}
		w := record(t, recording.Options{Sink: m})
		line := bytes.Repeat([]byte("0123456789abcde\n"), 64)
		rec, _ := w.session(t, terminal.Streams{}, func(_ context.Context, s terminal.Streams) error {
			for range 32 << 10 { // 32 MiB, and no time passes
				if _, err := s.Stdout.Write(line); err != nil {
					t.Error(err)
				}
				if held := w.Held(); held > recording.MaxWaiting {
					t.Fatalf("%d bytes wait", held)
				}
			}
			close(m.block)
			synctest.Wait()
			_, err := s.Stdout.Write([]byte("again"))
			return err
		})
		_ = rec
		w.stop()
		_, events := parse(t, m.cast.String())
		marker := texts(events, "m")
		if !strings.HasPrefix(marker, "cut: ") || strings.Count(marker, "cut") != 1 || events[len(events)-1].data != "again" || events[len(events)-2].code != "m" {
			t.Errorf("%d events, the markers are %q", len(events), marker)
		}
		if !strings.Contains(string(m.meta), `"complete":false`) || w.Held() != 0 {
			t.Errorf("%s, %d bytes wait", m.meta, w.Held())
		}
		if count(t, w, "ks_terminal_recording_cut_total", "full") != 1 || count(t, w, "ks_terminal_recording_total", "cut") != 1 {
			t.Error("the cut is not counted")
		}
	})
}

// A full disk makes a gap, and not the end of a recording.
func TestARecordingGoesOnAfterAFullDisk(t *testing.T) { // O12, O39
	synctest.Test(t, func(t *testing.T) {
		m := &memory{fail: errors.New("no space left on device")}
		w := record(t, recording.Options{Sink: m})
		w.session(t, terminal.Streams{}, func(_ context.Context, s terminal.Streams) error {
			_, _ = s.Stdout.Write([]byte("one"))
			synctest.Wait()
			if w.Fault() == nil {
				t.Error("nobody is told")
			}
			m.set(nil, nil)
			time.Sleep(2 * time.Second)
			_, err := s.Stdout.Write([]byte("two"))
			return err
		})
		w.stop()
		header, events := parse(t, m.cast.String())
		if header["version"] != 2.0 || texts(events, "o") != "two" || !strings.HasPrefix(texts(events, "m"), "cut: ") || w.Fault() != nil {
			t.Errorf("%v %v %v", header, events, w.Fault())
		}
		if count(t, w, "ks_terminal_recording_cut_total", "write") != 1 {
			t.Error("the cut is not counted")
		}
	})
}

func TestNoSessionIsOpenedWithoutItsRecording(t *testing.T) { // O12
	f := folder(t, 0, 0)
	if err := os.RemoveAll(f.Path); err != nil {
		t.Fatal(err)
	}
	strict := record(t, recording.Options{Sink: f, Strict: true})
	rec, err := strict.Begin(t.Context(), subject)
	var s apierrors.APIStatus
	if !errors.As(err, &s) || s.Status().Code != http.StatusServiceUnavailable || rec != nil || strings.Contains(err.Error(), f.Path) || strict.Fault() == nil {
		t.Errorf("%v %v", rec, err)
	}
	w := record(t, recording.Options{Sink: f})
	ran := false
	w.session(t, terminal.Streams{}, func(_ context.Context, s terminal.Streams) error {
		ran = true
		_, err := s.Stdout.Write([]byte("shown"))
		return err
	})
	w.stop()
	if !ran || w.Fault() == nil || count(t, w, "ks_terminal_recording_total", "failed") != 1 {
		t.Errorf("it ran: %t; %v", ran, w.Fault())
	}
	// A sink that hangs is none.
	synctest.Test(t, func(t *testing.T) {
		hanging := hangs{make(chan struct{})}
		w := record(t, recording.Options{Sink: hanging, Strict: true})
		if _, err := w.Begin(t.Context(), subject); !errors.As(err, &s) || s.Status().Code != http.StatusServiceUnavailable {
			t.Errorf("%v", err)
		}
		close(hanging.until)
		w.stop()
	})
}

// hangs is a Sink that opens nothing for as long as it likes.
type hangs struct{ until chan struct{} }

func (h hangs) Open(context.Context, string, []byte) (recording.Store, error) {
	<-h.until
	return &memory{}, nil
}
func (h hangs) Run(ctx context.Context) { <-ctx.Done() }

// A session ends within 5 s of the loss of its sink, with a code of its own; what is shown meanwhile is bounded.
func TestASessionEndsWithItsSink(t *testing.T) { // O12
	for name, c := range map[string]struct {
		sink func(t *testing.T) recording.Sink
		lose func(recording.Sink)
	}{
		"DeletedWhileNothingIsShown": {func(t *testing.T) recording.Sink { t.Helper(); return folder(t, 0, 0) },
			func(s recording.Sink) { _ = os.RemoveAll(s.(*recording.Folder).Path) }},
		"Failing":                    {func(*testing.T) recording.Sink { return &memory{} }, func(s recording.Sink) { s.(*memory).set(errors.New("full"), nil) }},
		"Gone":                       {func(*testing.T) recording.Sink { return &memory{} }, func(s recording.Sink) { s.(*memory).set(nil, errors.New("gone")) }},
		"Hanging":                    {func(*testing.T) recording.Sink { return &memory{block: make(chan struct{})} }, func(recording.Sink) {}},
		"HangingWhileNothingIsShown": {func(*testing.T) recording.Sink { return &memory{check: make(chan struct{})} }, func(recording.Sink) {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := c.sink(t)
				w := record(t, recording.Options{Sink: sink, Strict: true})
				var began time.Time
				_, cause := w.session(t, terminal.Streams{}, func(ctx context.Context, s terminal.Streams) error {
					c.lose(sink)
					began = time.Now()
					if name == "Failing" || name == "Hanging" {
						_, _ = s.Stdout.Write([]byte("shown"))
					}
					<-ctx.Done()
					_, err := s.Stdout.Write([]byte("too late"))
					if err == nil {
						t.Error("what is not recorded is shown")
					}
					return err
				})
				var e *terminal.Ending
				if !errors.As(cause, &e) || e.Code != terminal.CodeUnrecorded || time.Since(began) > 5*time.Second {
					t.Errorf("%v after %v", cause, time.Since(began))
				}
				if m, ok := sink.(*memory); ok {
					for _, hangs := range []chan struct{}{m.block, m.check} {
						if hangs != nil {
							close(hangs)
						}
					}
				}
				w.stop()
				if w.Held() != 0 || count(t, w, "ks_terminal_recording_total", "failed") != 1 {
					t.Errorf("%d bytes wait", w.Held())
				}
			})
		})
	}
}

// In the mode Strict a session waits for its recording: nothing is left out, and memory is bounded.
func TestAStrictRecordingLeavesNothingOut(t *testing.T) { // O12
	synctest.Test(t, func(t *testing.T) {
		m := &memory{block: make(chan struct{})}
		w := record(t, recording.Options{Sink: m, Strict: true})
		line := strings.Repeat("0123456789abcde\n", 256)
		ended := make(chan struct{})
		var disk sync.WaitGroup
		disk.Go(func() {
			defer close(m.block)
			for {
				time.Sleep(time.Millisecond)
				select {
				case m.block <- struct{}{}:
				case <-ended:
					return
				}
			}
		})
		_, cause := w.session(t, terminal.Streams{}, func(_ context.Context, s terminal.Streams) error {
			for range 2000 {
				if _, err := s.Stdout.Write([]byte(line)); err != nil {
					return err
				}
				if w.Held() > recording.MaxWaiting {
					t.Fatalf("%d bytes wait", w.Held())
				}
			}
			return nil
		})
		close(ended)
		disk.Wait()
		w.stop()
		if _, events := parse(t, m.cast.String()); texts(events, "o") != strings.Repeat(line, 2000) || texts(events, "m") != "" || cause != nil {
			t.Errorf("%d events: %v", len(events), cause)
		}
	})
}

func TestARecordingIsBounded(t *testing.T) { // O12
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprint(strict), func(t *testing.T) {
			f := folder(t, 0, 0)
			w := record(t, recording.Options{Sink: f, Strict: strict})
			w.SetLimit(10_000)
			var screen bytes.Buffer
			rec, cause := w.session(t, terminal.Streams{Stdout: &screen}, func(_ context.Context, s terminal.Streams) error {
				for range 1000 {
					if _, err := s.Stdout.Write([]byte("0123456789abcdef")); err != nil {
						return err
					}
				}
				return nil
			})
			if n := strings.Count(screen.String(), "f"); strict != (n < 1000) {
				t.Errorf("%d lines are shown", n)
			}
			w.stop()
			cast := read(t, f.Path, rec.ID()+".cast")
			_, events := parse(t, cast)
			if len(cast) > 10_200 || len(cast) < 9_000 || events[len(events)-1].code != "m" || strings.Count(texts(events, "m"), "cut") != 1 {
				t.Errorf("%d bytes, the last event is %v", len(cast), events[len(events)-1])
			}
			var e *terminal.Ending
			if errors.As(cause, &e) != strict || strict && e.Code != terminal.CodeUnrecorded {
				t.Errorf("%v", cause)
			}
			if count(t, w, "ks_terminal_recording_cut_total", "limit") != 1 {
				t.Error("the cut is not counted")
			}
		})
	}
}

func TestASessionThatWasNeverOpenedLeavesNothing(t *testing.T) {
	f := folder(t, 0, 0)
	w := record(t, recording.Options{Sink: f, Strict: true})
	rec, err := w.Begin(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	if read(t, f.Path, rec.ID()+".open.json") == "" {
		t.Error("a session that goes on has no sidecar")
	}
	rec.End(nil, 0, 0)
	rec.End(nil, 0, 0)
	w.stop()
	if entries, err := os.ReadDir(f.Path); err != nil || len(entries) != 0 {
		t.Errorf("%v %v", entries, err)
	}
	for _, result := range []string{"complete", "cut", "failed"} {
		if n := count(t, w, "ks_terminal_recording_total", result); n != 0 {
			t.Errorf("%v are counted as %s", n, result)
		}
	}
}
