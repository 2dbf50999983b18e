package packages_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/kapis/packages"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
)

// kinds is a cluster that serves ExtensionVersions.
var kinds = storetest.Kinds{v1alpha1.SchemeGroupVersion: storetest.Cluster("extensionversions ExtensionVersion")}

// charts answers with charts by the name of their version, and counts.
type charts struct {
	mu    sync.Mutex
	raw   map[string][]byte
	err   error
	reads map[string]int
	wait  chan struct{}
}

func (c *charts) Load(_ context.Context, v *v1alpha1.ExtensionVersion) ([]byte, error) {
	c.mu.Lock()
	c.reads[v.Name]++
	wait := c.wait
	c.mu.Unlock()
	if wait != nil {
		<-wait
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if raw, ok := c.raw[v.Name]; ok {
		return raw, nil
	}
	return nil, c.err
}

func (c *charts) read(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads[name]
}

func packed(t *testing.T, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, name := range []string{"shop/values.yaml", "shop/Chart.yaml"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func object(name, digest string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"resourceVersion":"5"},"spec":{"version":"1.0.0","digest":%q}}`, name, "u-"+name, digest)
}

const collection = "/apis/kubesphere.io/v1alpha1/extensionversions"

// world is the routes, by a clock.
type world struct {
	*restful.Container
	t   *testing.T
	now time.Time
}

func newWorld(t *testing.T, from *charts, has storetest.Kinds, objects ...string) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)}
	s := kapistest.NewStoreOf(t, has, map[string][]string{collection: objects})
	w.Container = kapistest.Container(packages.New(s, from, func() time.Time { return w.now }).WebService())
	return w
}

func (w *world) ask(name string, code int, want string, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/kapis/package.kubesphere.io/v1alpha1/extensionversions/"+name+"/files", nil)
	for _, h := range headers {
		key, value, _ := strings.Cut(h, ": ")
		r.Header.Set(key, value)
	}
	info, err := request.Parse(r)
	if err != nil {
		w.t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	if w.ServeHTTP(rec, r.WithContext(request.WithInfo(r.Context(), info))); rec.Code != code || !strings.Contains(rec.Body.String(), want) {
		w.t.Errorf("%s: %d %.300s, want %d %s", name, rec.Code, rec.Body, code, want)
	}
	return rec
}

func TestFilesOfAChartAreReadOnceADigest(t *testing.T) { // X37
	raw := packed(t, "a: 1")
	from := &charts{raw: map[string][]byte{"shop-1.0.0": raw, "copy-1.0.0": raw, "none-1.0.0": raw}, reads: map[string]int{}}
	w := newWorld(t, from, kinds, object("shop-1.0.0", chart.Digest(raw)), object("copy-1.0.0", chart.Digest(raw)), object("none-1.0.0", ""))
	tag := w.ask("shop-1.0.0", http.StatusOK, `[{"Name":"Chart.yaml","Data":"YTogMQ=="},{"Name":"values.yaml","Data":"YTogMQ=="}]`).Header().Get("ETag")
	w.ask("shop-1.0.0", http.StatusOK, "values.yaml")
	w.ask("copy-1.0.0", http.StatusOK, "values.yaml")
	w.ask("shop-1.0.0", http.StatusNotModified, "", "If-None-Match: "+tag)
	if from.read("shop-1.0.0") != 1 || from.read("copy-1.0.0") != 0 {
		t.Errorf("%v", from.reads)
	}
	w.ask("none-1.0.0", http.StatusOK, "values.yaml") // nobody can say that it is this chart
	w.ask("none-1.0.0", http.StatusOK, "values.yaml")
	if from.read("none-1.0.0") != 2 {
		t.Errorf("%v", from.reads)
	}
}

func TestManyWhoAskAtOnceAreOneRead(t *testing.T) { // X37
	raw := packed(t, "a: 1")
	from := &charts{raw: map[string][]byte{"shop-1.0.0": raw}, reads: map[string]int{}, wait: make(chan struct{})}
	w := newWorld(t, from, kinds, object("shop-1.0.0", chart.Digest(raw)))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { w.ask("shop-1.0.0", http.StatusOK, "values.yaml") })
	}
	close(from.wait)
	all.Wait()
	w.ask("shop-1.0.0", http.StatusOK, "values.yaml")
	if n := from.read("shop-1.0.0"); n != 1 {
		t.Errorf("%d reads", n)
	}
}

func TestWhatCantBeReadIs404Or502(t *testing.T) { // X37
	from := &charts{raw: map[string][]byte{"bad-1.0.0": []byte("x")}, reads: map[string]int{},
		err: &source.Failure{Reason: source.ReasonUnreachable, Message: "charts.example.com is away", Cause: errors.New("10.0.0.1 refused")}}
	w := newWorld(t, from, kinds, object("bad-1.0.0", ""), object("away-1.0.0", ""))
	w.ask("other-1.0.0", http.StatusNotFound, `"reason":"NotFound"`)
	w.ask("bad-1.0.0", http.StatusBadGateway, "no gzipped archive")
	if body := w.ask("away-1.0.0", http.StatusBadGateway, "charts.example.com is away").Body.String(); strings.Contains(body, "10.0.0.1") {
		t.Errorf("it tells an address: %s", body)
	}
	var s metav1.Status
	text := w.ask("away-1.0.0", http.StatusBadGateway, "").Body.Bytes()
	if err := json.Unmarshal(text, &s); err != nil || s.Kind != "Status" || s.Code != http.StatusBadGateway {
		t.Errorf("%+v %v", s, err)
	}
	if n := from.read("away-1.0.0"); n != 1 {
		t.Errorf("what can't be read is tried %d times at once", n)
	}
	w.now = w.now.Add(time.Minute)
	from.raw["away-1.0.0"] = packed(t, "b")
	w.ask("away-1.0.0", http.StatusOK, "values.yaml")
	newWorld(t, from, nil).ask("shop-1.0.0", http.StatusNotFound, "NotFound")
	from.raw, from.err = nil, errors.New("kube-apiserver is away")
	w.ask("bad-1.0.0", http.StatusInternalServerError, "")
}

// X37: what is in memory has a bound.
func TestFilesInMemoryAreBounded(t *testing.T) {
	from := &charts{raw: map[string][]byte{}, reads: map[string]int{}}
	var objects []string
	for i := range 8 {
		name := fmt.Sprintf("shop-1.%d.0", i)
		from.raw[name] = packed(t, strings.Repeat(fmt.Sprint(i), 6<<20))
		objects = append(objects, object(name, chart.Digest(from.raw[name])))
	}
	w := newWorld(t, from, kinds, objects...)
	for i := range 8 {
		w.ask(fmt.Sprintf("shop-1.%d.0", i), http.StatusOK, "")
	}
	w.ask("shop-1.7.0", http.StatusOK, "")
	w.ask("shop-1.0.0", http.StatusOK, "")
	if from.read("shop-1.7.0") != 1 || from.read("shop-1.0.0") != 2 {
		t.Errorf("%v", from.reads)
	}
}
