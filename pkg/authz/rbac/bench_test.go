package rbac

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/request"
)

var sizes = []int{10, 10_000, 50_000}

// busy is a world of n people: each has a role of the platform, in a workspace and in a namespace.
func busy(b *testing.B, n int) *world {
	w := newWorld(b)
	for _, scope := range []string{"global", "workspace", "cluster"} {
		w.role(scope+"roles", "r", rule("get,list,watch", "x.io", "a,b,c,d,e"), rule("*", "y.io", "a,b,c/status"))
	}
	w.condition("globalroles", "self", `request.name == user.name`, rule("get,update", "iam.kubesphere.io", "users"))
	w.bind("globalrolebindings", "self", "", "self", "Group:system:authenticated")
	w.bind("globalrolebindings", "everyone", "", "r", "Group:system:authenticated")
	for k := range n {
		who, namespace := fmt.Sprintf("User:user-%d", k), fmt.Sprintf("namespace-%d", k%5000)
		w.namespace(namespace, fmt.Sprintf("workspace-%d", k%500))
		w.role("roles", namespace+"/operator", rule("*", "apps", "deployments,statefulsets"), rule("get,list,watch", "", "pods,pods/log,configmaps"))
		w.bind("globalrolebindings", fmt.Sprint("g", k), "", "r", who)
		w.bind("workspacerolebindings", fmt.Sprint("w", k), fmt.Sprintf("workspace-%d", k%500), "r", who)
		w.bind("rolebindings", fmt.Sprintf("%s/b%d", namespace, k), "", "operator", who)
	}
	return w
}

func BenchmarkAuthorize(b *testing.B) {
	u := person("user-7", "dev", "ops", "system:authenticated")
	for _, n := range sizes {
		w := busy(b, n)
		for name, r := range map[string]*request.Info{
			"namespace": ask("list", "/pods", "", "ns:namespace-7"),
			"refused":   ask("delete", "/secrets", "s", "ns:namespace-7"),
			"global":    ask("get", "x.io/a", "x", "global"),
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := w.index.Authorize(context.Background(), u, r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("conditional/%d", n), func(b *testing.B) {
			r := ask("get", "iam.kubesphere.io/users", "user-7", "global")
			b.ReportAllocs()
			for b.Loop() {
				if d, _ := w.index.Authorize(context.Background(), u, r); !d.Allowed {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkBindingSet(b *testing.B) {
	for _, n := range sizes {
		w := busy(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.bind("globalrolebindings", "g3", "", "r", "User:user-3")
			}
		})
	}
}

// BenchmarkLoad is the initial list of 50 000 bindings, their making as JSON included.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		w := newWorld(b)
		w.role("globalroles", "r", rule("get", "", "pods"))
		for k := range 50_000 {
			w.bind("globalrolebindings", fmt.Sprint(k), "", "r", fmt.Sprint("User:user-", k))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/50_000, "B/binding")
		runtime.KeepAlive(w)
	}
}

func BenchmarkNamespaces(b *testing.B) {
	w := busy(b, 5000)
	u := person("user-7", "system:authenticated")
	for b.Loop() {
		w.index.Namespaces(u, "list", schema.GroupResource{Resource: "pods"})
	}
}
