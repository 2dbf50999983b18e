package memory

import (
	"bytes"
	"context"
	"encoding/json"
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

	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/store"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var update = flag.Bool("update", false, "write docs/memory.md")

const memoryDoc = "../../docs/memory.md"

// Enough objects of every kind are cached to reach these, so that the rest of the heap does not affect the figure.
const (
	measuredBytes = 12 << 20
	measuredMost  = 16_000
)

// drift is how much a figure may differ from the document's.
const drift = 0.05

// measured is the memory of one kind.
type measured struct {
	resource string
	json     float64 // bytes of an object's JSON as it is cached
	heap     float64 // bytes of memory for an object
	bound    float64 // of heap / json
}

func (m measured) ratio() float64 { return m.heap / m.json }

func (m measured) mebibytes() float64 { return 1000 * m.heap / (1 << 20) }

// measure lets a store cache enough objects of a kind to measure what one takes.
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

// indexed is what the index of rights stores of one object.
type indexed struct {
	resource string
	heap     float64
}

// bound is the memory that the index of rights may take for an object.
const bound = 600

// index feeds objects of a kind to an index of rights, and measures what one takes. ok is false for a kind that it does not read.
func index(t *testing.T, k sample) (out indexed, ok bool) {
	t.Helper()
	x, err := rbac.NewIndex()
	if err != nil {
		t.Fatal(err)
	}
	sink := x.Sinks()[k.resource]
	if sink == nil {
		return indexed{}, false
	}
	objects := make([]*store.Object, measuredMost)
	for i := range objects {
		raw := []byte(k.object(i))
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatal(err)
		}
		objects[i] = &store.Object{Namespace: o.Namespace, Name: o.Name, Raw: raw}
	}
	before := live()
	for _, o := range objects {
		sink.Set(o)
	}
	after := live()
	runtime.KeepAlive(objects)
	runtime.KeepAlive(x)
	return indexed{k.resource.GroupResource().String(), float64(after-before) / float64(len(objects))}, true
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
		if _, err := fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", k.object(i)); err != nil {
			return // the client has enough
		}
	}
	fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9000000","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
	_ = http.NewResponseController(w).Flush() // a client that has disconnected sees nothing
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

// U10, U11: docs/memory.md says what the objects of each kind take, and this test verifies that it stays so:
// `go test ./tools/memory -update` writes it.
func TestMemoryTable(t *testing.T) {
	var all []measured
	var rights []indexed
	for _, k := range samples() {
		if i, ok := index(t, k); ok {
			rights = append(rights, i)
			t.Logf("%-50s %6.0f B in the index of rights (at most %d)", i.resource, i.heap, bound)
			if i.heap > bound {
				t.Errorf("%s: %.0f bytes in the index of rights, more than %d", i.resource, i.heap, bound)
			}
		}
		m := measure(t, k)
		all = append(all, m)
		t.Logf("%-50s %6.0f B of JSON, %6.0f B of memory, x %.2f (at most %.2f)", m.resource, m.json, m.heap, m.ratio(), m.bound)
		if m.ratio() > m.bound {
			t.Errorf("%s: %.2f bytes of memory for a byte of JSON, more than %.2f", m.resource, m.ratio(), m.bound)
		}
	}
	if *update {
		if err := os.WriteFile(memoryDoc, document(all, rights), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	said, err := os.ReadFile(memoryDoc)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range rights {
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(i.resource) + "` \\| ([0-9]+) \\|$").FindSubmatch(said)
		if row == nil {
			t.Errorf("docs/memory.md does not say what %s take in the index of rights: run this test with -update", i.resource)
			continue
		}
		if was, err := strconv.ParseFloat(string(row[1]), 64); err != nil || math.Abs(was-i.heap) > drift*i.heap+16 {
			t.Errorf("docs/memory.md says %s bytes for %s in the index of rights, they are %.0f: run this test with -update", row[1], i.resource, i.heap)
		}
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

// sum is the memory of all users and rights of a large installation.
func sum(all []measured, rights []indexed) string {
	number := map[string]float64{
		"users.iam.kubesphere.io": 10_000, "globalrolebindings.iam.kubesphere.io": 10_000, "workspacerolebindings.iam.kubesphere.io": 10_000,
		"rolebindings.iam.kubesphere.io": 30_000, "workspaces.tenant.kubesphere.io": 1_000, "workspacetemplates.tenant.kubesphere.io": 1_000,
		"workspaceroles.iam.kubesphere.io": 4_000, "namespaces": 5_000, "roles.iam.kubesphere.io": 15_000,
	}
	bytes := 0.0
	for _, m := range all {
		bytes += m.heap * number[m.resource]
	}
	for _, i := range rights {
		bytes += i.heap * number[i.resource]
	}
	return fmt.Sprintf("%.0f MiB", bytes/(1<<20))
}

func document(all []measured, rights []indexed) []byte {
	var b bytes.Buffer
	b.WriteString(`# Memory

What ks-apiserver keeps of the objects of a cluster: their JSON without managedFields and the last-applied annotation, with a record and its
places in the orders. Memory follows the **number and size of the objects of the kinds that are asked for**, finished Jobs' pods included, and
nothing else: not those of requests or of people who ask. A kind is kept from the first query on it, for half an hour after the last; roles, bindings, users
and namespaces are always kept, since every request is decided by them. Secrets and ConfigMaps are kept without
their data, but for the namespaces in which somebody asks for it: those for five minutes, 64 at once and 256 MiB in all at most.
All kinds together are bounded where the process has a memory limit: [Sizing](operations.md#sizing) says what happens beyond it.

This table is written and guarded by a test (` + "`go test ./tools/memory -update`" + `). The objects are made for it, as large as
real ones are; of yours, multiply ` + "`ks_cache_bytes{gvr}`" + ` by the ratio of the kind. The figures are of the live heap; a process has up to twice as much while garbage is not
collected yet (GOGC), and 110 MiB besides: 64 MiB of them are pages of the program's own file, which the kernel can take back.

| kind | bytes of JSON | bytes of memory | MiB for 1 000 | ratio | at most |
|---|---|---|---|---|---|
`)
	for _, m := range all {
		fmt.Fprintf(&b, "| `%s` | %.0f | %.0f | %.2f | %.2f | %.2f |\n", m.resource, m.json, m.heap, m.mebibytes(), m.ratio(), m.bound)
	}
	b.WriteString(`
Besides the JSON, an object takes some 260 bytes for itself and its names, 16 to 24 for each of its labels, owners and indexed fields, some 300 for a
label or an owner that no other object has, and what Go's size classes round up. Where objects come and go, the orders become less
dense, which adds up to 10 bytes for each place.

## The index of rights

Roles, bindings and namespaces are read once more, into the index that decides. It has no copy of them, and rules that many roles
have, as those of built-in roles, are in it once. This is what it takes besides the table above:

| kind | bytes of memory for each |
|---|---|
`)
	for _, i := range rights {
		fmt.Fprintf(&b, "| `%s` | %.0f |\n", i.resource, i.heap)
	}
	b.WriteString(`
So 10 000 users with 50 000 bindings, 1 000 workspaces with 4 roles each and 5 000 namespaces with 3 roles each take ` + sum(all, rights) + ` of live heap.
`)
	return b.Bytes()
}
