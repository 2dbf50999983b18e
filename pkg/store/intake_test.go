package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// randomObject is an object of random members, among them those that are cut.
func randomObject(r *rand.Rand) map[string]any {
	var value func(depth int) any
	text := func() string {
		alphabet := []string{"a", "b", `"`, `\`, "é", "\n", "{", "}", ",", ":", " ", "/", "\u2028", "<"}
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(alphabet[r.IntN(len(alphabet))])
		}
		return b.String()
	}
	object := func(depth int, names ...string) map[string]any {
		out := map[string]any{}
		for range r.IntN(5) {
			out[text()] = value(depth + 1)
		}
		for _, n := range names {
			if r.IntN(2) == 0 {
				out[n] = value(depth + 1)
			}
		}
		return out
	}
	value = func(depth int) any {
		switch n := r.IntN(8); {
		case n < 2 && depth < 5:
			return object(depth, "data", "spec")
		case n == 2 && depth < 5:
			return []any{value(depth + 1), value(depth + 1)}
		case n == 3:
			return r.IntN(2) == 0
		case n == 4:
			return nil
		case n == 5:
			return float64(r.IntN(1000)) / 8
		}
		return text()
	}
	out := object(0, "spec", "data", "stringData", "status")
	annotations := object(1, lastApplied)
	out["kind"], out["apiVersion"] = "Thing", "v1"
	out["metadata"] = map[string]any{
		"name": "n" + text(), "resourceVersion": "7", "managedFields": []any{object(1)}, "annotations": annotations, "labels": map[string]any{text(): text()},
	}
	return out
}

// U13: what is kept of an object is kept whole when it is read again, for every kind of cut; and only what is
// cut is missing.
func TestCuttingTwiceIsCuttingOnce(t *testing.T) {
	for name, cut := range map[string]rawjson.Cut{
		"Nothing": nil, "Data": rawjson.Cuts([]string{"data"}, []string{"stringData"}), "Deep": rawjson.Cuts([]string{"spec", "data"}, []string{"status"}),
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			d := newDecoder(noKind, &Schema{Cut: cut}, func() bool { return false })
			for range 3000 {
				o := randomObject(r)
				text, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				once, err := d.decode(string(text), "")
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				twice, err := d.decode(once.rec.JSON.String(), "")
				if err != nil || !reflect.DeepEqual(once, twice) {
					t.Fatalf("%s\nonce  %s\ntwice %s, %v", text, once.rec.JSON, twice.rec.JSON, err)
				}
				without(o, rawjson.Cuts([]string{"metadata", "managedFields"}, []string{"metadata", "annotations", lastApplied}))
				without(o, cut)
				var kept map[string]any
				if err := json.Unmarshal([]byte(once.rec.JSON.String()), &kept); err != nil || !reflect.DeepEqual(kept, o) {
					t.Fatalf("%s\nkept %s, %v", text, once.rec.JSON, err)
				}
			}
		})
	}
}

// without is the naive cut.
func without(o map[string]any, cut rawjson.Cut) {
	for name, below := range cut {
		if below == nil {
			delete(o, name)
		} else if inner, ok := o[name].(map[string]any); ok {
			without(inner, below)
		}
	}
}

// A decoder keeps nothing of the text that it is given: the text is a buffer that is used again.
func TestDecodedObjectsOutliveTheirText(t *testing.T) {
	text := strings.Repeat(`{"type":"ADDED","object":`+testPod("a", "one")+"}\n"+
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", 50)
	w := &watchStream{decoder: newDecoder(noKind, benchSchema, func() bool { return true }), meter: &meter{}}
	r := rawjson.NewReader(strings.NewReader(text), maxObject)
	var got []*decoded
	var then []string
	show := func(d *decoded) string { return fmt.Sprintf("%+v %+v %s %v", *d.rec, d.ref, d.raw, d.annotations) }
	for {
		e, err := w.event(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		d := e.Object.(*decoded)
		got, then = append(got, d), append(then, show(d))
	}
	if len(got) != 100 {
		t.Fatalf("%d events", len(got))
	}
	for i, d := range got {
		if show(d) != then[i] {
			t.Fatalf("event %d was %s\nand is %s", i, then[i], show(d))
		}
	}
}

func TestFramesAreReadHoweverTheyAreWritten(t *testing.T) {
	const object = `{"metadata":{"name":"a"}}`
	for name, frame := range map[string]string{
		"AsKubeAPIServerDoes": `{"type":"ADDED","object":` + object + `}`,
		"OtherOrder":          `{"object":` + object + `,"type":"ADDED"}`,
		"Spaces":              `{ "type" : "ADDED", "object" : ` + object + ` }`,
		"Lines":               "{\n  \"type\": \"ADDED\",\n  \"object\": " + object + "\n}",
		"Escapes":             `{"type":"\u0041DDED","object":` + object + `}`,
		"MoreMembers":         `{"type":"ADDED","x":{},"object":` + object + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, end := range []string{"\n", "", "\r\n"} {
				w := &watchStream{decoder: newDecoder(noKind, &Schema{}, func() bool { return false }), meter: &meter{}}
				r := rawjson.NewReader(strings.NewReader(frame+end+frame+end), maxObject)
				for range 2 {
					e, err := w.event(r)
					if err != nil || e.Type != "ADDED" || e.Object.(*decoded).ref.Name != "a" {
						t.Errorf("%q: %+v, %v", end, e, err)
					}
				}
			}
		})
	}
}

// Whatever comes in whatever order, a first list is kept as one put in object by object is.
func TestAFirstListIsTheSameAsItsObjects(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	c := newCollection(phase, clock.RealClock{})
	model := map[string]*incoming{}
	var list []*incoming
	for i := range 3000 {
		ns, name := fmt.Sprintf("ns%d", r.IntN(4)), fmt.Sprintf("p%d", r.IntN(2000)) // some twice: the last one counts
		text := strings.ReplaceAll(testPod(ns, name, fmt.Sprintf(`"l":"%d","i":"%d"`, r.IntN(3), r.IntN(40)),
			fmt.Sprintf(`"phase":"%d","startTime":"2026-01-01T00:00:%02dZ"`, r.IntN(3), r.IntN(8))), "%RV%", fmt.Sprint(i))
		o := decodeText(t, phase, strings.Replace(text, "03:04:05Z", fmt.Sprintf("03:04:%02dZ", r.IntN(60)), 1))
		list = append(list, o)
		model[ns+"/"+name] = o
	}
	if gone := c.replace(list, "9999"); len(gone) != 0 {
		t.Errorf("gone: %v", gone)
	}
	checkSnapshot(t, c.current.Load(), model)
	for key, o := range model { // and it changes like any other
		if r.IntN(2) == 0 {
			c.delete(o.ref.Namespace, o.ref.Name, "2")
			delete(model, key)
		}
	}
	c.flush()
	checkSnapshot(t, c.current.Load(), model)
}

// source of bytes that grows with the time: one write of ten bytes each tenth of a millisecond.
type dripping struct {
	net.Conn
	began time.Time
	read  int
	reads int
}

func (d *dripping) Read(p []byte) (int, error) {
	d.reads++
	for {
		n := min(10*int(time.Since(d.began)/(100*time.Microsecond))-d.read, len(p))
		if n > 0 {
			d.read += n
			return n, nil
		}
		if d.read >= 100_000 {
			return 0, io.EOF
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// A connection on which much comes is read seldom, and gives all of it.
func TestBusyConnectionsAreReadSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dripping{began: time.Now()}
		n, err := io.Copy(io.Discard, io.LimitReader(&batchingConn{Conn: d}, 100_000))
		if err != nil || n != 100_000 {
			t.Fatal(n, err)
		}
		if d.reads > 510 { // of 10 000 writes in a second
			t.Errorf("%d reads", d.reads)
		}
	})
}

// burst gives what it has, as much at a time as there is room for.
type burst struct {
	net.Conn
	rest  *bytes.Reader
	pause time.Duration // before each read
}

func (b *burst) Read(p []byte) (int, error) {
	time.Sleep(b.pause)
	return b.rest.Read(p)
}

// Nothing waits for more where much is there already, nor on a connection that was quiet.
func TestConnectionsWaitForNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		pause time.Duration
		most  time.Duration
	}{
		"MuchIsThere": {0, readPause}, // the end, which is a short read, is waited for
		"Quiet":       {10 * readPause, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const size = 1 << 20
				began, reads := time.Now(), 0
				b := &burst{rest: bytes.NewReader(make([]byte, size)), pause: c.pause}
				in := &batchingConn{Conn: b}
				buf := make([]byte, size)
				for n := 0; n < size; reads++ {
					k, err := in.Read(buf[n:])
					if err != nil {
						t.Fatal(err)
					}
					n += k
				}
				if took := time.Since(began) - time.Duration(reads)*c.pause; took > c.most {
					t.Errorf("%v of waiting in %d reads", took, reads)
				}
			})
		})
	}
}

// metrics returns the values of a kind by the names of metrics, with the type of events behind it.
func metricsOf(t *testing.T, g prometheus.Gatherer, gvr string) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["gvr"] != gvr {
				continue
			}
			value := m.GetGauge().GetValue()
			if f.GetType().String() == "COUNTER" {
				value = m.GetCounter().GetValue()
			}
			out[strings.TrimSuffix(f.GetName()+"/"+labels["type"], "/")] = value
		}
	}
	return out
}

func TestMetricsTellWhatHappened(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, testPod("a", "one"))
	registry := prometheus.NewPedanticRegistry()
	st := newStore(t, srv, func(o *Options) { o.Registerer = registry })
	serves(t, st, "[a/one]")
	if _, there := metricsOf(t, registry, "v1/pods")["ks_cache_last_error_age_seconds"]; there {
		t.Error("the age of an error, and there was none")
	}
	srv.put(podsPath, testPod("a", "one", `"app":"b"`))
	srv.put(podsPath, testPod("a", "two"))
	srv.remove(podsPath, "a/one")
	serves(t, st, "[a/two]")
	srv.cut(podsPath, 0)
	eventually(t, "another watch", func() bool { return condition(st, podsGVR).Restarts == 1 })
	srv.cut(podsPath, http.StatusGone)
	eventually(t, "another list", func() bool { return condition(st, podsGVR).Resyncs == 1 })
	snap, err := st.Snapshot(context.Background(), podsGVR)
	if err != nil {
		t.Fatal(err)
	}
	got := metricsOf(t, registry, "v1/pods")
	for name, want := range map[string]float64{
		"informers": 1, "synced": 1, "failing": 0, "objects": 1, "bytes": float64(snap.Bytes()), "resyncs_total": 1, "watch_restarts_total": 2,
		"events_total/added": 3, "events_total/modified": 1, "events_total/deleted": 1, "events_total/error": 1, "events_total/listed": 0,
	} {
		if value, there := got["ks_cache_"+name]; !there || value != want {
			t.Errorf("ks_cache_%s is %v, want %v", name, value, want)
		}
	}
	for _, name := range []string{"generation_age_seconds", "lag_seconds", "last_error_age_seconds", "events_total/bookmark"} {
		if value, there := got["ks_cache_"+name]; !there || value < 0 {
			t.Errorf("ks_cache_%s is %v", name, value)
		}
	}
}
