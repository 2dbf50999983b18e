package recording_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/terminal/recording"
	"kapis.dev/ks-apiserver/pkg/webhook"
)

// put writes the files of a recording that is so old.
func put(t *testing.T, f *recording.Folder, age time.Duration, bytes int, suffixes ...string) (id string) {
	t.Helper()
	id = uuid.NewString()
	for _, s := range suffixes {
		path, at := filepath.Join(f.Path, id+s), f.Now().Add(-age)
		if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

func TestTheOldestRecordingsAreDeleted(t *testing.T) { // O12
	f := folder(t, 1000, 24*time.Hour)
	old := put(t, f, 25*time.Hour, 1, ".cast", ".json")
	killed := put(t, f, 26*time.Hour, 1, ".cast", ".open.json")
	third := put(t, f, 3*time.Hour, 300, ".cast", ".json")
	second := put(t, f, 2*time.Hour, 200, ".cast", ".json")
	first := put(t, f, time.Hour, 200, ".cast", ".json")
	others := put(t, f, recording.Abandoned/2, 10, ".cast", ".open.json") // another server writes it
	for _, name := range []string{"notes.cast", "x" + uuid.NewString() + ".cast", uuid.NewString() + ".txt"} {
		if err := os.WriteFile(filepath.Join(f.Path, name), make([]byte, 5000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Prune(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	for id, stays := range map[string]bool{old: false, killed: false, third: false, second: true, first: true, others: true} {
		if slices.Contains(left, id+".cast") != stays || slices.Contains(left, id+".json") && !stays {
			t.Errorf("of %v, %s: want %t", left, id, stays)
		}
	}
	if len(left) != 3*2+3 {
		t.Errorf("%v: what is no recording stays", left)
	}
}

func TestARecordingThatGoesOnIsNotDeleted(t *testing.T) {
	f := folder(t, 200<<20, time.Hour)
	w := record(t, recording.Options{Sink: f})
	f.MaxBytes = 1
	rec, _ := w.session(t, terminal.Streams{}, func(_ context.Context, s terminal.Streams) error {
		_, err := s.Stdout.Write([]byte("shown"))
		for f.Prune() == nil {
			if entries, wrong := os.ReadDir(f.Path); wrong != nil || len(entries) == 2 {
				return err
			}
		}
		t.Error("it can't be read")
		return err
	})
	f.MaxBytes = 0
	w.stop()
	if !strings.Contains(read(t, f.Path, rec.ID()+".cast"), "shown") {
		t.Error("it was deleted")
	}
}

// receiver is a webhook.
type receiver struct {
	*httptest.Server
	ca, token string

	mu    sync.Mutex
	metas []string
	casts map[string]string // by session
	auth  []string
	// refuse answers 500 to sidecars, refuseCast 507 to streams; abort drops the connection of a stream.
	refuse, refuseCast, abort bool
	streaming                 chan struct{}
}

func receive(t *testing.T) *receiver {
	t.Helper()
	rec := &receiver{casts: map[string]string{}, streaming: make(chan struct{}, 10)}
	rec.Server = httptest.NewTLSServer(http.HandlerFunc(rec.serve))
	t.Cleanup(rec.Close)
	dir := t.TempDir()
	rec.ca, rec.token = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rec.Certificate().Raw})
	for path, text := range map[string][]byte{rec.ca: text, rec.token: []byte("webhook-token\n")} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return rec
}

func (rec *receiver) serve(w http.ResponseWriter, r *http.Request) {
	rec.mu.Lock()
	refuse, refuseCast, abort := rec.refuse, rec.refuseCast, rec.abort
	rec.auth = append(rec.auth, r.Header.Get("Authorization"))
	rec.mu.Unlock()
	session := r.Header.Get("X-Kapis-Session")
	switch r.Header.Get("Content-Type") {
	case "application/json":
		raw, _ := io.ReadAll(r.Body) //nolint:errcheck // then it is no JSON
		if refuse {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		rec.mu.Lock()
		rec.metas = append(rec.metas, string(raw))
		rec.mu.Unlock()
	case "application/x-asciicast":
		if refuseCast {
			w.WriteHeader(http.StatusInsufficientStorage)
			return
		}
		buf := make([]byte, 1)
		n, _ := r.Body.Read(buf) //nolint:errcheck // the rest is read below
		rec.streaming <- struct{}{}
		if abort {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
			return
		}
		raw, _ := io.ReadAll(r.Body) //nolint:errcheck // then it is not whole
		rec.mu.Lock()
		rec.casts[session] = string(buf[:n]) + string(raw)
		rec.mu.Unlock()
	}
}

func (rec *receiver) sink(t *testing.T) *recording.Webhook {
	t.Helper()
	w, err := recording.NewWebhook(webhook.Endpoint{URL: rec.URL + "/casts?key=url-secret", CAFile: rec.ca, TokenFile: rec.token})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAWebhookReceivesACastWhileItIsShown(t *testing.T) { // O12
	hook := receive(t)
	w := record(t, recording.Options{Sink: hook.sink(t), Strict: true})
	rec, cause := w.session(t, terminal.Streams{}, func(_ context.Context, s terminal.Streams) error {
		_, err := s.Stdout.Write([]byte("one\r\n"))
		<-hook.streaming // it has the beginning, and the session goes on
		_, _ = s.Stdout.Write([]byte("two\r\n"))
		return err
	})
	w.stop()
	_, events := parse(t, hook.casts[rec.ID()])
	if texts(events, "o") != "one\r\ntwo\r\n" || cause != nil || w.Fault() != nil {
		t.Errorf("%v %v %v", events, cause, w.Fault())
	}
	if len(hook.metas) != 2 || len(hook.casts) != 1 {
		t.Fatalf("%d sidecars, %d casts", len(hook.metas), len(hook.casts))
	}
	var begin, end struct {
		Session string
		Cast    *struct {
			Bytes    int
			Complete bool
		}
	}
	if json.Unmarshal([]byte(hook.metas[0]), &begin) != nil || begin.Session != rec.ID() || begin.Cast != nil ||
		json.Unmarshal([]byte(hook.metas[1]), &end) != nil || end.Session != rec.ID() || end.Cast.Bytes != len(hook.casts[rec.ID()]) || !end.Cast.Complete {
		t.Errorf("%v", hook.metas)
	}
	for _, a := range hook.auth {
		if a != "Bearer webhook-token" {
			t.Errorf("a request has %q", a)
		}
	}
}

func TestAWebhookThatRefusesOpensNoSession(t *testing.T) { // O12
	other := receive(t)
	down := receive(t)
	down.Close()
	refusing := receive(t)
	refusing.refuse = true
	noCasts := receive(t)
	noCasts.refuseCast = true
	if _, err := recording.NewWebhook(webhook.Endpoint{URL: other.URL, CAFile: other.token}); err == nil {
		t.Error("a file without a certificate is taken for one")
	}
	unknown, err := recording.NewWebhook(webhook.Endpoint{URL: other.URL}) // the system's authorities have not signed its certificate
	if err != nil {
		t.Fatal(err)
	}
	for name, sink := range map[string]recording.Sink{"Down": down.sink(t), "Refusing": refusing.sink(t), "RefusingTheStream": noCasts.sink(t),
		"WithAnotherCertificate": unknown} {
		t.Run(name, func(t *testing.T) {
			strict := record(t, recording.Options{Sink: sink, Strict: true})
			if rec, err := strict.Begin(t.Context(), subject); err == nil || strict.Fault() == nil || strings.Contains(strict.Fault().Error(), "url-secret") {
				t.Errorf("%v %v %v", rec, err, strict.Fault())
			}
			w := record(t, recording.Options{Sink: sink})
			if _, cause := w.session(t, terminal.Streams{}, func(_ context.Context, s terminal.Streams) error {
				_, err := s.Stdout.Write([]byte("shown"))
				return err
			}); cause != nil {
				t.Errorf("a session that need not be recorded ends: %v", cause)
			}
			w.stop()
			if count(t, w, "ks_terminal_recording_total", "failed") != 1 {
				t.Error("it is not counted")
			}
		})
	}
	for _, url := range []string{"http://recorder.example", "https://user@recorder.example", "recorder.example", ""} {
		if _, err := recording.NewWebhook(webhook.Endpoint{URL: url}); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
}

func TestASessionEndsWithItsWebhook(t *testing.T) { // O12
	hook := receive(t)
	hook.abort = true
	w := record(t, recording.Options{Sink: hook.sink(t), Strict: true})
	_, cause := w.session(t, terminal.Streams{}, func(ctx context.Context, s terminal.Streams) error {
		_, err := s.Stdout.Write([]byte("one"))
		<-ctx.Done()
		return err
	})
	var e *terminal.Ending
	if !errors.As(cause, &e) || e.Code != terminal.CodeUnrecorded {
		t.Errorf("%v", cause)
	}
}
