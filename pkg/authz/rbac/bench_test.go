package rbac

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
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
				if d, _ := w.index.Authorize(context.Background(), u, r); !d.Allowed() {
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

// BenchmarkLoad measures the initial list of 50 000 bindings, including their encoding as JSON.
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

// BenchmarkMissing measures the escalation check of a role with fifty resources, some of which the caller holds.
func BenchmarkMissing(b *testing.B) {
	var resources []string
	for k := range 50 {
		resources = append(resources, fmt.Sprint("kind", k))
	}
	rules := []rbacv1.PolicyRule{rule("get,list,watch", "x.io", "a,b,c"), rule("get,list,watch,create,update,patch,delete", "apps", strings.Join(resources, ","))}
	u, at := person("user-7", "dev", "ops", "system:authenticated"), authz.BindingScope{Scope: request.Namespace, Namespace: "namespace-7"}
	for _, n := range sizes {
		w := busy(b, n)
		w.role("globalroles", "big", rules...)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if len(w.index.Missing(u, at, rules)) == 0 {
					b.Fatal("he holds it")
				}
			}
		})
		b.Run(fmt.Sprintf("of/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if missing, _ := w.index.MissingOf(u, at, authz.RoleRef{Name: "big"}); len(missing) == 0 {
					b.Fatal("he holds it")
				}
			}
		})
	}
}

// BenchmarkWhoCan measures a namespace where all of n users have a role of the platform that allows the request, and some have one of the namespace.
func BenchmarkWhoCan(b *testing.B) {
	for _, n := range sizes {
		w := busy(b, n)
		b.Run(fmt.Sprintf("some/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for range w.index.WhoCan(ask("list", "/pods", "", "ns:namespace-7")) { //nolint:revive // what they cost is what is asked
				}
			}
		})
		b.Run(fmt.Sprintf("all/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for range w.index.WhoCan(ask("get", "x.io/a", "", "ns:namespace-7")) { //nolint:revive // what they cost is what is asked
				}
			}
		})
	}
}

// member is a world of 5 000 namespaces; in each of them one user has a binding (U18).
func member(b *testing.B) (*world, user.Info) {
	w := newWorld(b)
	for k := range 5000 {
		namespace := fmt.Sprintf("namespace-%d", k)
		w.namespace(namespace, fmt.Sprintf("workspace-%d", k%500))
		w.role("roles", namespace+"/operator", rule("get,list,watch", "", "pods,pods/log,configmaps"))
		w.bind("rolebindings", namespace+"/b", "", "operator", "User:ann")
	}
	return w, person("ann", "system:authenticated")
}

// BenchmarkMemberships measures the memberships of a user who is bound in 5 000 namespaces (U18).
func BenchmarkMemberships(b *testing.B) {
	w, u := member(b)
	for name, change := range map[string]func(k int){"cold": func(k int) { w.namespace("other", fmt.Sprint("w", k)) }, "warm": func(int) {}} {
		b.Run(name, func(b *testing.B) {
			for k := 0; b.Loop(); k++ {
				change(k)
				if p, _ := w.index.Memberships(u); len(p.Namespaces) != 5000 {
					b.Fatal("he is bound in all of them")
				}
			}
		})
	}
}

func BenchmarkNamespaces(b *testing.B) {
	w := busy(b, 5000)
	u := person("user-7", "system:authenticated")
	r := &request.Info{Verb: "list", Resource: "pods", IsResource: true, Scope: request.Cluster}
	for b.Loop() {
		s := search{index: w.index, user: u, request: r, bit: bit("list")} // not cached
		authz.NewPartialList(s.run())
	}
}
