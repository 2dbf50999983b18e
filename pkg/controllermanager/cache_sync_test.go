package controllermanager

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/tools/pace"
)

// brokenKind is the host of a kube-apiserver that can't list GlobalRoles, and has one user.
func brokenKind(t *testing.T) (host string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch q := r.URL.Query(); {
		case path.Base(r.URL.Path) != "users":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"conversion webhook failed","code":500}`)
		case q.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case q.Get("watch") == "":
			_, _ = io.WriteString(w, `{"kind":"UserList","apiVersion":"iam.kubesphere.io/v1beta1","metadata":{"resourceVersion":"5"},
				"items":[{"metadata":{"name":"ann","resourceVersion":"5"}}]}`)
		default:
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// U14: a kind that can't be listed holds up the controllers that need it, and neither the others nor the readiness.
func TestU14AKindThatCantBeListedHoldsUpNoOtherController(t *testing.T) {
	o := options(Options{MetricsAddress: "0", HealthAddress: "0"})
	if o.Controller.CacheSyncTimeout < 24*time.Hour {
		t.Errorf("the program ends when a kind was not loaded for %v", o.Controller.CacheSyncTimeout)
	}
	o.Controller.SkipNameValidation = new(true) // for -count=2
	o.NewCache = newBoundedCache(time.Millisecond, time.Hour)
	o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
		m := meta.NewDefaultRESTMapper(nil)
		for _, kind := range append(iam("User", "GlobalRole"), rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
			rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), rbacv1.SchemeGroupVersion.WithKind("Role"),
			rbacv1.SchemeGroupVersion.WithKind("RoleBinding")) {
			m.Add(kind, meta.RESTScopeRoot)
		}
		return m, nil
	}
	mgr, err := manager.New(&rest.Config{Host: brokenKind(t)}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.GetFieldIndexer().IndexField(t.Context(), &iamv1beta1.GlobalRole{}, "x", func(client.Object) []string { return nil }); err != nil {
		t.Fatal(err)
	}
	reconciled := make(chan string, 10)
	for _, kind := range []client.Object{&iamv1beta1.GlobalRole{}, &iamv1beta1.User{}} {
		err := builder.ControllerManagedBy(mgr).Named(fmt.Sprintf("test-of-%T", kind)).For(kind).Complete(
			reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
				reconciled <- r.Name
				return reconcile.Result{}, nil
			}))
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&Manager{mgr: mgr}).Run(ctx) }()
	select {
	case name := <-reconciled:
		if name != "ann" {
			t.Errorf("%s is reconciled", name)
		}
	case err := <-ended:
		t.Fatalf("the program ended: %v", err)
	case <-pace.After(t.Context(), time.Minute, func(context.Context) error { return nil }):
		t.Fatal("no controller works")
	}
	gate := &crdGate{mgr: mgr}
	if gate.synced(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)) == nil {
		t.Error("it is ready while a kind that its webhooks may read is not loaded, as one that only takes long")
	}
	mgr.GetCache().(*boundedCache).readyWait = 0
	if err := pace.Until(t.Context(), time.Minute, func(ctx context.Context) error {
		return gate.synced(httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
	}); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("a clean stop ended with %v", err)
	}
}
