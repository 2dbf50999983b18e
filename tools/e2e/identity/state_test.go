package identity

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/tools/stack"
)

// stored returns the names of what the login has stored: the objects of session.kapis.dev, each as resource/name.
func stored(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, resource := range []string{"sessions", "apikeys", "factors", "lockouts"} {
		gvr := schema.GroupVersionResource{Group: "session.kapis.dev", Version: "v1alpha1", Resource: resource}
		list, err := objects.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("list %s: %v", resource, err)
		}
		for i := range list.Items {
			out[resource+"/"+list.Items[i].GetName()] = true
		}
	}
	return out
}

// added returns what of a resource has come since before.
func added(t *testing.T, before map[string]bool, resource string) []string {
	t.Helper()
	var out []string
	for name := range stored(t) {
		if !before[name] && strings.HasPrefix(name, resource+"/") {
			out = append(out, name)
		}
	}
	return out
}

// storesNothing runs f, and fails the test if anything was stored meanwhile.
func storesNothing(t *testing.T, f func()) {
	t.Helper()
	before := stored(t)
	f()
	if got := added(t, before, "sessions"); len(got) > 0 {
		t.Errorf("a refusal has stored %v", got)
	}
}

var second struct {
	sync.Once
	*stack.Replica
	err error
}

// replica is the base address of one more server beside the product's own. No test stops it.
func replica(t *testing.T) string {
	t.Helper()
	second.Do(func() { second.Replica, second.err = product.Replica(t.Context()) })
	if second.err != nil {
		t.Fatal(second.err)
	}
	return second.URL
}

// logIsClean fails the test if the log of ks-apiserver has one of the texts.
func logIsClean(t *testing.T, texts ...string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(product.Dir, "log", "ks-apiserver.log"))
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if strings.Contains(string(log), text) {
			t.Errorf("the log has secret %d", i)
		}
	}
}

// briefLife is how long the codes of the strict server are good.
const briefLife = 3 * time.Second

var third struct {
	sync.Once
	*stack.Replica
	err error
}

// strict is the base address of a server of the same installation with another configuration: codes of briefLife, no password grant, and an
// issuer with a path.
func strict(t *testing.T) string {
	t.Helper()
	third.Do(func() {
		text := fmt.Sprintf("authentication:\n  passwordGrant: false\n  issuer:\n    url: %s%s\n    authorizationCodeMaxAge: %v\negress:\n  allowLoopback: true\n"+
			"multicluster:\n  clusterRole: host\n  hostClusterName: host\n", issuer, strictPath, briefLife)
		file := filepath.Join(product.Dir, "strict.yaml")
		if third.err = os.WriteFile(file, []byte(text), 0o600); third.err == nil {
			third.Replica, third.err = product.Replica(t.Context(), "--config="+file)
		}
	})
	if third.err != nil {
		t.Fatal(third.err)
	}
	return third.URL
}

// strictPath is the path of the strict server's issuer.
const strictPath = "/ks"
