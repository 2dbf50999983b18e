package memory

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

const (
	smallLimit = 128 << 20
	// smallPods are 600 MB of JSON.
	smallPods = 100_000
	// smallMost is what the process may have used at most, its program included. Without the bound it is more than 700 MiB.
	smallMost = 2 * smallLimit
	smallEnv  = "KS_MEMORY_SMALL_PROCESS"
)

// Far more objects than the memory limit of a process allows degrade one kind; the process goes on, and stays below the limit.
func TestASmallProcessRefusesTooManyObjects(t *testing.T) {
	if os.Getenv(smallEnv) != "" {
		beSmall(t)
		return
	}
	self := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	self.Env = append(os.Environ(), smallEnv+"=yes", fmt.Sprint("GOMEMLIMIT=", smallLimit))
	out, err := self.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("the small process: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// beSmall is the small process: it asks for too many pods, and for namespaces.
func beSmall(t *testing.T) {
	all := map[string]sample{}
	for _, k := range samples() {
		all[k.resource.Resource] = k
	}
	open := make(chan struct{})
	close(open)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, of := 100, all[path.Base(r.URL.Path)]
		if of.resource.Resource == "pods" {
			n = smallPods
		}
		(&kind{of.resource.Resource, of.object, n, open}).ServeHTTP(w, r) // of no name is none of the others
	}))
	ctx, cancel := context.WithCancel(context.Background())
	st, err := store.New(ctx, store.Options{
		Config: &rest.Config{Host: srv.URL}, Discovery: nothing{}, Schemas: resource.Schemas(), SyncWait: 5 * time.Minute,
		MemoryBytes: debug.SetMemoryLimit(-1) / 5 * 2,
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
	namespaces, pods := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	for range 2 {
		if snap, err := st.Snapshot(ctx, namespaces); err != nil || snap.Len() != 100 {
			t.Fatalf("namespaces: %v", err)
		}
		if _, err := st.Snapshot(ctx, pods); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "pods can't be listed: there are too many objects") {
			t.Fatalf("pods: %v", err)
		}
	}
	peak := peakRSS(t)
	t.Logf("at most %d MiB were resident, with a limit of %d MiB", peak>>20, smallLimit>>20)
	if peak > smallMost {
		t.Errorf("at most %d MiB were resident, more than %d", peak>>20, smallMost>>20)
	}
}

// peakRSS returns the most memory in bytes that this process has had, from proc(5).
func peakRSS(t *testing.T) (bytes int64) {
	t.Helper()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if n, _ := fmt.Sscanf(s.Text(), "VmHWM: %d kB", &bytes); n == 1 {
			return bytes << 10
		}
	}
	t.Fatal("/proc/self/status does not say VmHWM")
	return 0
}
