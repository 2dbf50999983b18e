package memory

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/store"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var update = flag.Bool("update", false, "write docs/memory.md")

const memoryDoc = "../../docs/memory.md"

// Of every kind as much is kept as gives these, so that what the heap holds besides is no part of the figure.
const (
	measuredBytes = 12 << 20
	measuredMost  = 16_000
)

// drift is how much a figure may differ from the document's.
const drift = 0.05

// measured is the memory of one kind.
type measured struct {
	resource string
	json     float64 // bytes of an object's JSON as it is kept
	heap     float64 // bytes of memory for an object
	bound    float64 // of heap / json
}

func (m measured) ratio() float64 { return m.heap / m.json }

func (m measured) mebibytes() float64 { return 1000 * m.heap / (1 << 20) }

// measure lets a store follow enough objects of a kind to see what one takes.
func measure(t *testing.T, k sample) measured {
	t.Helper()
	size := 0
	for i := range 50 {
		size += len(k.object(i)) / 50
	}
	n := min(measuredBytes/size, measuredMost)
	gate := make(chan struct{})
	srv := httptest.NewServer(&kind{k.resource.Resource, k.object, n, gate})
	ctx, cancel := context.WithCancel(context.Background())
	st, err := store.New(ctx, store.Options{
		Config: &rest.Config{Host: srv.URL}, Discovery: nothing{}, Schemas: resource.Schemas(), SyncWait: 5 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		srv.CloseClientConnections()
		st.Wait()
		srv.Close()
	}()
	before := live()
	close(gate)
	snap, err := st.Snapshot(ctx, k.resource)
	if err != nil {
		t.Fatalf("%s: %v", k.resource.Resource, err)
	}
	after := live()
	runtime.KeepAlive(k)
	if snap.Len() != n {
		t.Fatalf("%s: %d objects of %d", k.resource.Resource, snap.Len(), n)
	}
	return measured{
		resource: k.resource.GroupResource().String(), bound: k.bound,
		json: float64(snap.Bytes()) / float64(n), heap: float64(after-before) / float64(n),
	}
}

// live returns the bytes of heap that something holds: it collects garbage until there is no more, since texts
// that are interned go some collections after the last that holds them.
func live() uint64 {
	var m runtime.MemStats
	least := uint64(math.MaxUint64)
	for still := 0; still < 4; still++ {
		runtime.GC()
		runtime.ReadMemStats(&m)
		if m.HeapAlloc+16<<10 < least {
			least, still = m.HeapAlloc, -1
		}
	}
	return least
}

// kind is a kube-apiserver that has n objects of one kind.
type kind struct {
	resource string
	object   func(i int) string
	n        int
	gate     <-chan struct{} // it is open when objects may come
}

// ServeHTTP begins a watch with all objects.
func (k *kind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path.Base(r.URL.Path) != k.resource || r.URL.Query().Get("sendInitialEvents") != "true" {
		http.NotFound(w, r)
		return
	}
	<-k.gate
	for i := range k.n {
		fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", k.object(i))
	}
	fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9000000","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
	_ = http.NewResponseController(w).Flush() // who is gone sees nothing
	<-r.Context().Done()
}

// nothing is a discovery that does not answer, and is not needed.
type nothing struct{}

var errNothing = errors.New("there is no discovery")

func (nothing) GroupsAndMaybeResourcesWithContext(context.Context) (*metav1.APIGroupList,
	map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	return nil, nil, nil, errNothing
}

func (nothing) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	return nil, errNothing
}

// U10, U11: docs/memory.md tells what the objects of each kind take, and this is the test that it goes on to be so:
// `go test ./tools/memory -update` writes it.
func TestMemoryTable(t *testing.T) {
	var all []measured
	for _, k := range samples() {
		m := measure(t, k)
		all = append(all, m)
		t.Logf("%-50s %6.0f B of JSON, %6.0f B of memory, x %.2f (at most %.2f)", m.resource, m.json, m.heap, m.ratio(), m.bound)
		if m.ratio() > m.bound {
			t.Errorf("%s: %.2f bytes of memory for a byte of JSON, more than %.2f", m.resource, m.ratio(), m.bound)
		}
	}
	if *update {
		if err := os.WriteFile(memoryDoc, document(all), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	said, err := os.ReadFile(memoryDoc)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(m.resource) + "` \\|.*\\| ([0-9.]+) \\| [0-9.]+ \\| [0-9.]+ \\|$").FindSubmatch(said)
		if row == nil {
			t.Errorf("docs/memory.md has no row for %s: run this test with -update", m.resource)
			continue
		}
		was, err := strconv.ParseFloat(string(row[1]), 64)
		if err != nil || math.Abs(was-m.mebibytes()) > drift*m.mebibytes()+0.01 {
			t.Errorf("docs/memory.md says %s MiB for 1 000 %s, it is %.2f: run this test with -update", row[1], m.resource, m.mebibytes())
		}
	}
}

func document(all []measured) []byte {
	var b bytes.Buffer
	b.WriteString(`# Memory

What ks-apiserver keeps of the objects of a cluster: their JSON without managedFields and the last-applied annotation, beside a record and its
places in the orders. Memory follows the **number and size of the objects of the kinds that are asked for**, finished Jobs' pods included, and
nothing else: not users, requests or namespaces. A kind is kept from the first query on it, for half an hour behind the last. Secrets and ConfigMaps are kept without
their data, but for the namespaces in which somebody asks for it: those for five minutes, 64 at once and 256 MiB in all at most.

This table is written and guarded by a test (` + "`go test ./tools/memory -update`" + `). The objects are made for it, as large as
real ones are; of yours, multiply ` + "`ks_cache_bytes{gvr}`" + ` by the ratio of the kind. The figures are of the live heap; a process has up to twice as much while garbage is not
collected yet (GOGC), and 40 MiB besides.

| kind | bytes of JSON | bytes of memory | MiB for 1 000 | ratio | at most |
|---|---|---|---|---|---|
`)
	for _, m := range all {
		fmt.Fprintf(&b, "| `%s` | %.0f | %.0f | %.2f | %.2f | %.2f |\n", m.resource, m.json, m.heap, m.mebibytes(), m.ratio(), m.bound)
	}
	b.WriteString(`
Beside the JSON an object takes some 260 bytes for itself and its names, 16 to 24 for each of its labels, owners and indexed fields, some 300 for a
label or an owner that no other object has, and what Go's size classes round up. Where objects come and go, the orders become less
dense, which adds up to 10 bytes for each place.
`)
	return b.Bytes()
}
