package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func newMetrics(t testing.TB) *Metrics {
	t.Helper()
	m, err := NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func event(uri string) *Event {
	now := time.Now()
	return &Event{ID: "id", Level: auditv1.LevelMetadata, Stage: auditv1.StageResponseComplete, URI: uri, Verb: "get", Code: 200,
		Received: now, At: now}
}

// decoded returns the events of lines, each of which must be a whole one.
func decoded(t *testing.T, lines []byte) (all []auditv1.Event) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// The file has an event on each line, its owner alone may read it whatever it was before, and a stop writes what is queued.
func TestFileHasALineForEachEvent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, nil, 0o644); err != nil { //nolint:gosec // so that there is something to correct
		t.Fatal(err)
	}
	f, err := NewFile(FileOptions{Path: path, MaxSize: 1, MaxBackups: 10, Metrics: newMetrics(t), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { f.Run(ctx) })
	const senders, each = 4, 2000 // 8 000 events of 600 bytes are more than four files
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for range each {
				f.Record(event("/" + strings.Repeat("x", 300)))
			}
		})
	}
	all.Wait()
	stop()
	run.Wait()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, though one has at most 1 MiB: %v", len(files), err)
	}
	n := 0
	for _, name := range files {
		st, err := os.Stat(name)
		if err != nil || st.Mode().Perm() != 0o600 || st.Size() > 1<<20 {
			t.Errorf("%s has mode %v and %d bytes: %v", name, st.Mode(), st.Size(), err)
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n += len(decoded(t, raw))
	}
	if n != senders*each || f.Fault() != nil {
		t.Errorf("%d events: %v", n, f.Fault())
	}
}

func TestFileThatCannotBeWrittenIsRefused(t *testing.T) {
	folder := t.TempDir()
	for name, path := range map[string]string{"Folder": folder, "NoFolder": filepath.Join(folder, "none", "audit.log"), "Device": os.DevNull} {
		if _, err := NewFile(FileOptions{Path: path, MaxSize: 1, Metrics: newMetrics(t), Now: time.Now}); err == nil ||
			!strings.Contains(err.Error(), "auditing.logOptions.path") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// O16, O17: the queue is bounded in events and bytes, what does not fit is dropped and counted, and an event tells how many and when.
func TestQueueIsBoundedAndTellsOfDrops(t *testing.T) {
	metrics := newMetrics(t)
	f := &File{backend: newBackend(backendFile, AppendJSON, 1, metrics, time.Now), out: standardOutput{}}
	if n := testutil.CollectAndCount(metrics.dropped); n != 3 {
		t.Errorf("%d reasons have a series before their first event: an alert on the increase would miss it", n)
	}
	for range maxQueuedEvents + 7 {
		f.Record(event("/a"))
	}
	if n := testutil.ToFloat64(metrics.dropped.WithLabelValues(backendFile, "full")); n != 7 {
		t.Errorf("%v events are counted as dropped", n)
	}
	if f.Fault() == nil {
		t.Error("nothing is degraded")
	}
	lines, n, told := f.queue.take()
	all := decoded(t, lines)
	if n != maxQueuedEvents+1 || len(all) != n || told.number != 7 {
		t.Fatalf("%d events, %d lines, %d told", n, len(all), told.number)
	}
	last := all[len(all)-1]
	if last.Verb != "dropped" || last.Annotations["kapis.dev/dropped"] != "7" || last.Annotations["kapis.dev/dropped-first"] == "" {
		t.Errorf("%+v", last)
	}
	f.Record(event("/a")) // what is being written counts
	f.queue.done(lines, false)
	if _, n, told = f.queue.take(); n != 1 || told.number != 1 {
		t.Errorf("%d events, %d told", n, told.number)
	}
	f.queue.done(nil, false)
	line := make([]byte, maxQueuedBytes/4)
	for range 10 {
		f.queue.put(line, time.Now())
	}
	if lines, n, told = f.queue.take(); len(lines) > maxQueuedBytes+2048 || n != 5 || told.number != 6 {
		t.Errorf("%d bytes, %d events, %d told", len(lines), n, told.number)
	}
}

// disk is a file on a disk that is full for a while: it takes a part of what is written, and then nothing.
type disk struct {
	bytes.Buffer
	room int
	full func() // is called when it was full
}

var errFull = errors.New("no space left on device")

func (d *disk) Write(p []byte) (int, error) {
	if len(p) <= d.room {
		d.room -= len(p)
		return d.Buffer.Write(p)
	}
	n, _ := d.Buffer.Write(p[:d.room])
	d.room = 0
	d.full()
	return n, errFull
}

func (d *disk) Close() error { return nil }

// O39: after a full disk each event is there once, on a line of its own; only the line that was cut off is broken.
func TestFileRecoversFromAFullDisk(t *testing.T) {
	for name, room := range map[string]int{"InALine": 1000, "BeforeTheFirst": 0} {
		t.Run(name, func(t *testing.T) {
			f := &File{backend: newBackend(backendFile, AppendJSON, 1, newMetrics(t), time.Now)}
			d := &disk{room: room}
			d.full = func() { d.room = 1 << 20 } // somebody cleans up
			f.out = d
			for range 20 {
				f.Record(event("/a"))
			}
			f.flush(t.Context())
			whole := 0
			for line := range bytes.Lines(d.Bytes()) {
				if json.Valid(line) {
					whole++
				}
			}
			broken := bytes.Count(d.Bytes(), []byte{0x0a}) - whole
			if whole != 20 || broken > 1 || (room == 0) != (broken == 0) || f.Fault() != nil {
				t.Errorf("%d whole events, %d broken lines: %v", whole, broken, f.Fault())
			}
		})
	}
	t.Run("ForEver", func(t *testing.T) {
		metrics := newMetrics(t)
		f := &File{backend: newBackend(backendFile, AppendJSON, 1, metrics, time.Now)}
		ctx, stop := context.WithCancel(t.Context())
		f.out = &disk{full: stop}
		f.Record(event("/a"))
		f.flush(ctx)
		if n := testutil.ToFloat64(metrics.dropped.WithLabelValues(backendFile, "stop")); n != 1 || f.Fault() == nil {
			t.Errorf("%v events are counted as lost: %v", n, f.Fault())
		}
	})
}

// The bounds of an event hold whatever a client sends, and the event is still JSON.
func TestEventIsBounded(t *testing.T) {
	e := event("/" + strings.Repeat("\x01", 100_000))
	e.UserAgent, e.Object.Resource, e.Object.Name = strings.Repeat("\xff\"", 50_000), "pods", strings.Repeat("ü", 50_000)
	e.Bound()
	line := AppendJSON(nil, e)
	all := decoded(t, line)
	if len(line) > 48<<10 || len(all) != 1 || all[0].Annotations["audit.k8s.io/truncated"] != "true" {
		t.Errorf("%d bytes", len(line))
	}
}

func TestPolicyFileIsReadAgain(t *testing.T) { // O13
	file := filepath.Join(t.TempDir(), "policy.yaml")
	set := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	level := func(p *Policy) auditv1.Level {
		l, _ := p.Evaluate(authorizer.AttributesRecord{Verb: "get", Path: "/version"})
		return l
	}
	const head = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n"
	for name, text := range map[string]string{
		"Empty": "", "NoRules": "apiVersion: audit.k8s.io/v1\nkind: Policy\n", "OtherKind": "apiVersion: v1\nkind: Pod\n",
		"NoSuchLevel": head + "- level: Everything\n", "NotYAML": "{",
	} {
		set(text)
		if _, err := OpenPolicy(file); err == nil || !strings.Contains(err.Error(), "auditing.policyFile") {
			t.Errorf("%s: %v", name, err)
		}
	}
	set(head + "- level: Metadata\n")
	p, err := OpenPolicy(file)
	if err != nil || level(p) != auditv1.LevelMetadata {
		t.Fatal(err)
	}
	set(head + "- level: None\n")
	if p.Reload(); level(p) != auditv1.LevelNone || p.Fault() != nil {
		t.Errorf("the new policy is not used: %v", p.Fault())
	}
	set(head + "- level: Everything\n")
	if p.Reload(); level(p) != auditv1.LevelNone || p.Fault() == nil {
		t.Errorf("a broken policy: %v", p.Fault())
	}
	set(head + "- level: None\n")
	if p.Reload(); p.Fault() != nil {
		t.Errorf("the former text is back: %v", p.Fault())
	}
}

// BenchmarkFile is what one event costs, from the request to the file: 20 000 events a second are 50 us each.
func BenchmarkFile(b *testing.B) {
	f, err := NewFile(FileOptions{Path: filepath.Join(b.TempDir(), "audit.log"), MaxSize: 100, MaxBackups: 1,
		Metrics: newMetrics(b), Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	e := event("/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/pods")
	e.Username, e.Groups, e.Sources, e.UserAgent = "admin", []string{"system:authenticated"}, []string{"192.0.2.1"}, "kubectl/v1.37"
	e.Object = auditv1.ObjectReference{Resource: "pods", Namespace: "default", APIGroup: "resources.kubesphere.io", APIVersion: "v1alpha3"}
	e.Decision, e.Reason = "allow", "kapis:global:platform-admin"
	b.ReportAllocs()
	for b.Loop() {
		f.Record(e)
		if f.queue.events >= 1000 {
			f.flush(b.Context())
		}
	}
	f.flush(b.Context())
	if n := testutil.ToFloat64(f.metrics.dropped.WithLabelValues(backendFile, "full")); n > 0 {
		b.Errorf("%v events were dropped", n)
	}
}
