package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kapis.dev/ks-apiserver/pkg/store/feed"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

var (
	coreV1  = schema.GroupVersion{Version: "v1"}
	rbacV1  = schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	iamV1   = schema.GroupVersion{Group: "iam.kubesphere.io", Version: "v1beta1"}
	appsV2  = schema.GroupVersion{Group: "application.kubesphere.io", Version: "v2"}
	zooV1   = schema.GroupVersion{Group: "zoo.example.com", Version: "v1"}
	zooV2   = schema.GroupVersion{Group: "zoo.example.com", Version: "v2"}
	metrics = schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}
)

func resources(namespaced bool, names ...string) []metav1.APIResource {
	var out []metav1.APIResource
	for _, n := range names {
		out = append(out, metav1.APIResource{Name: n, Kind: strings.ToUpper(n[:1]) + n[1:], Namespaced: namespaced, Verbs: metav1.Verbs{"list", "watch"}})
	}
	return out
}

func newDiscovered() *discovered {
	return &discovered{fail: map[schema.GroupVersion]error{}, kinds: map[schema.GroupVersion][]metav1.APIResource{
		coreV1: resources(true, "pods", "pods/log", "events"), rbacV1: resources(true, "roles"), iamV1: resources(true, "roles", "users"),
		zooV1: resources(true, "animals"), zooV2: resources(true, "animals"), metrics: resources(true, "pods"),
	}}
}

func TestResourceNamesWithoutAGroup(t *testing.T) {
	d := newDiscovered()
	d.kinds[appsV2] = resources(false, "categories")
	d.kinds[iamV1] = append(d.kinds[iamV1], resources(false, "categories")...)
	cat := newCatalog(d, clocktesting.NewFakeClock(time.Now()), nil)
	cat.Refresh(context.Background())
	for name, want := range map[string]schema.GroupVersionResource{
		"pods": coreV1.WithResource("pods"), "roles": rbacV1.WithResource("roles"), // the native ones
		"categories": iamV1.WithResource("categories"),                                      // of roles
		"users":      iamV1.WithResource("users"), "animals": zooV1.WithResource("animals"), // the preferred version
	} {
		k, err := cat.ByName(context.Background(), name)
		if err != nil || k.GVR != want {
			t.Errorf("%s: %v, %v", name, k, err)
		}
	}
	for _, name := range []string{"unicorns", "pods/log", "", "workspaces"} {
		if k, err := cat.ByName(context.Background(), name); !apierrors.IsNotFound(err) {
			t.Errorf("%q: %v, %v", name, k, err)
		}
	}
	if gr, ok := cat.GroupOf("animals"); !ok || gr.Group != "zoo.example.com" {
		t.Errorf("animals: %v", gr)
	}
	if _, ok := cat.GroupOf("unicorns"); ok {
		t.Error("an unknown name has a group")
	}
	for _, name := range []string{"pods", "animals", "unicorns"} {
		if n := testing.AllocsPerRun(100, func() { cat.GroupOf(name) }); n != 0 {
			t.Errorf("GroupOf(%s) allocates %v times", name, n)
		}
	}
}

func TestEveryVersionIsServedAsItself(t *testing.T) {
	cat := newCatalog(newDiscovered(), clocktesting.NewFakeClock(time.Now()), nil)
	for _, gv := range []schema.GroupVersion{zooV1, zooV2} {
		k, err := cat.Resolve(context.Background(), gv.WithResource("animals"))
		if err != nil || k.GVR.GroupVersion() != gv {
			t.Errorf("%s: %v, %v", gv, k, err)
		}
	}
	if _, err := cat.Resolve(context.Background(), schema.GroupVersionResource{Group: zooV1.Group, Version: "v3",
		Resource: "animals"}); !apierrors.IsNotFound(err) {
		t.Errorf("a version that is not there: %v", err)
	}
}

// U15: a dead aggregated API is no reason to forget anything, itself included.
func TestGroupsThatDoNotAnswerKeepWhatWasKnown(t *testing.T) {
	d := newDiscovered()
	var gone []schema.GroupVersionResource
	cat := newCatalog(d, clocktesting.NewFakeClock(time.Now()), func(g []schema.GroupVersionResource) { gone = append(gone, g...) })
	cat.Refresh(context.Background())
	d.set(func() {
		for _, gv := range []schema.GroupVersion{metrics, zooV1, iamV1} {
			d.fail[gv] = errors.New("503")
		}
	})
	cat.Refresh(context.Background())
	if len(gone) != 0 || cat.Err() == nil || !strings.Contains(cat.Err().Error(), "metrics.k8s.io") {
		t.Errorf("gone %v, err %v", gone, cat.Err())
	}
	for _, gvr := range []schema.GroupVersionResource{metrics.WithResource("pods"), zooV1.WithResource("animals"), coreV1.WithResource("pods")} {
		if _, err := cat.Resolve(context.Background(), gvr); err != nil {
			t.Error(err)
		}
	}
	d.set(func() { d.err = errors.New("down") })
	cat.Refresh(context.Background())
	if _, err := cat.Resolve(context.Background(), coreV1.WithResource("pods")); err != nil {
		t.Error("while discovery is down:", err)
	}
	d.set(func() { d.err, d.fail = nil, nil; delete(d.kinds, zooV2) })
	cat.Refresh(context.Background())
	if len(gone) != 1 || gone[0] != zooV2.WithResource("animals") || cat.Err() != nil {
		t.Errorf("gone %v, err %v", gone, cat.Err())
	}
}

func TestAMissAsksAtMostOnceASecond(t *testing.T) {
	d, c := newDiscovered(), clocktesting.NewFakeClock(time.Now())
	cat := newCatalog(d, c, nil)
	miss := func() error {
		_, err := cat.Resolve(context.Background(), zooV1.WithResource("unicorns"))
		return err
	}
	for range 50 {
		if err := miss(); !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	if d.asked != 1 {
		t.Errorf("asked %d times", d.asked)
	}
	d.set(func() { d.kinds[zooV1] = resources(true, "unicorns") })
	c.Step(discoverEvery)
	if err := miss(); err != nil || d.asked != 2 {
		t.Errorf("a kind that came: %v, asked %d times", err, d.asked)
	}
}

func TestBeforeDiscoveryAnsweredKindsAreUnavailable(t *testing.T) {
	cat := newCatalog(&discovered{err: errors.New("down")}, clocktesting.NewFakeClock(time.Now()), nil)
	if _, err := cat.Resolve(context.Background(), coreV1.WithResource("pods")); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

// A custom resource is served soon after its definition, and gone with it.
func TestCustomResourcesComeAndGo(t *testing.T) {
	srv, d := newServer(t), &discovered{kinds: map[schema.GroupVersion][]metav1.APIResource{coreV1: resources(true, "pods")}}
	st := newStore(t, srv, func(o *Options) { o.Discovery = d })
	const path, crds = "/apis/zoo.example.com/v1/animals", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	animals := zooV1.WithResource("animals")
	known := func() bool {
		_, ok := st.Catalog().Preferred(animals.GroupResource())
		return ok
	}
	srv.put(path, strings.Replace(storetest.Pod("a", "lion"), `"kind":"Pod"`, `"kind":"Animal"`, 1))
	d.set(func() { d.kinds[zooV1] = resources(true, "animals") })
	srv.put(crds, strings.Replace(storetest.Pod("", "animals.zoo.example.com"), `"kind":"Pod"`, `"kind":"CustomResourceDefinition"`, 1))
	eventually(t, "the kind is known", known)
	snap, err := st.Snapshot(context.Background(), animals)
	if err != nil || snap.Len() != 1 {
		t.Fatal(snap, err)
	}
	d.set(func() { delete(d.kinds, zooV1) })
	srv.remove(crds, "/animals.zoo.example.com")
	eventually(t, "the kind is gone", func() bool { return !known() })
	eventually(t, "its objects are gone", func() bool {
		for _, c := range st.Conditions() {
			if c.GVR == animals {
				return false
			}
		}
		return true
	})
}

// hanging is a discovery that answers only once it is released.
type hanging struct {
	Discovery
	asked, letGo chan struct{}
}

func (h hanging) GroupsAndMaybeResourcesWithContext(ctx context.Context) (*metav1.APIGroupList,
	map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	close(h.asked)
	<-h.letGo
	if err := ctx.Err(); err != nil {
		return nil, nil, nil, err
	}
	return h.Discovery.GroupsAndMaybeResourcesWithContext(ctx)
}

// The first caller asks for all that wait: if its client hangs up, the others are not told that the kind does not exist.
func TestAClientThatHangsUpEndsNobodysLookUp(t *testing.T) {
	h := hanging{newDiscovered(), make(chan struct{}), make(chan struct{})}
	cat := newCatalog(h, clocktesting.NewFakeClock(time.Now()), nil)
	ctx, hangUp := context.WithCancel(context.Background())
	results := make(chan error, 2)
	resolve := func(ctx context.Context) {
		_, err := cat.Resolve(ctx, coreV1.WithResource("pods"))
		results <- err
	}
	go resolve(ctx)
	<-h.asked
	go resolve(context.Background())
	hangUp()
	close(h.letGo)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if err := cat.Err(); err != nil {
		t.Error(err)
	}
}

// A kind that is unknown while discovery fails may exist.
func TestWhileDiscoveryFailsWhatIsUnknownIsUnavailable(t *testing.T) {
	d, c := newDiscovered(), clocktesting.NewFakeClock(time.Now())
	cat := newCatalog(d, c, nil)
	cat.Refresh(context.Background())
	unicorns := zooV1.WithResource("unicorns")
	find := map[string]func() error{
		"resolve": func() error { _, err := cat.Resolve(context.Background(), unicorns); return err },
		"by name": func() error { _, err := cat.ByName(context.Background(), "unicorns"); return err },
		"another": func() error { _, err := cat.Resolve(context.Background(), coreV1.WithResource("unicorns")); return err },
	}
	for _, step := range []struct {
		name        string
		change      func()
		unavailable []string
	}{
		{"All", func() { d.err = errors.New("down") }, []string{"resolve", "by name", "another"}},
		{"OneGroup", func() { d.err, d.fail = nil, map[schema.GroupVersion]error{zooV1: errors.New("down")} }, []string{"resolve"}},
		{"None", func() { d.fail = nil }, nil},
	} {
		d.set(step.change)
		cat.Refresh(context.Background())
		for name, ask := range find {
			err, want := ask(), slices.Contains(step.unavailable, name)
			if apierrors.IsServiceUnavailable(err) != want || apierrors.IsNotFound(err) == want {
				t.Errorf("%s fails, %s: %v", step.name, name, err)
			}
		}
		if k, err := cat.Resolve(context.Background(), coreV1.WithResource("pods")); err != nil || k == nil {
			t.Errorf("%s fails: %v", step.name, err)
		}
	}
}

// A failure that a look-up found is cleared without another look-up, and before the next periodic refresh.
func TestAFailureOfALookUpIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := newDiscovered()
		st := &Store{catalog: newCatalog(d, clock.RealClock{}, nil), clock: clock.RealClock{}, ctx: ctx}
		go st.refreshOn(make(signal, 1))
		time.Sleep(time.Minute) // the first rounds are over
		d.set(func() { d.err = errors.New("down") })
		if _, err := st.catalog.Resolve(ctx, zooV1.WithResource("unicorns")); !apierrors.IsServiceUnavailable(err) || st.catalog.Err() == nil {
			t.Fatalf("got %v", err)
		}
		d.set(func() { d.err = nil })
		time.Sleep(feed.LastPause + time.Second)
		if err := st.catalog.Err(); err != nil {
			t.Error(err)
		}
	})
}

// Health checks call Err while kube-apiserver hangs: the answer must not hang as well.
func TestErrDoesNotWaitForARefresh(t *testing.T) {
	h := hanging{newDiscovered(), make(chan struct{}), make(chan struct{})}
	cat := newCatalog(h, clocktesting.NewFakeClock(time.Now()), nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		cat.Refresh(context.Background())
	}()
	<-h.asked
	if err := cat.Err(); err != nil { // a lock here would deadlock: the refresh ends only below
		t.Error(err)
	}
	close(h.letGo)
	<-done
}

// What kube-apiserver passes on to this server is no kind of its own, and dead it degrades nothing.
func TestTheCatalogLeavesTheAggregatedAPIOut(t *testing.T) { // O34
	own := schema.GroupVersion{Group: "query.kapis.dev", Version: "v1alpha1"}
	d := newDiscovered()
	d.kinds[own] = resources(true, "pods", "unicorns")
	cat := newCatalog(d, clocktesting.NewFakeClock(time.Now()), nil)
	if cat.All() != nil {
		t.Error("kinds are known before discovery has answered")
	}
	cat.Refresh(t.Context())
	if _, err := cat.ByName(t.Context(), "unicorns"); !apierrors.IsNotFound(err) || cat.Err() != nil {
		t.Errorf("got %v, %v", err, cat.Err())
	}
	var all []string
	for _, k := range cat.All() {
		all = append(all, k.GVR.GroupVersion().String()+"/"+k.GVR.Resource)
	}
	want := []string{"v1/events", "v1/pods", "iam.kubesphere.io/v1beta1/roles", "iam.kubesphere.io/v1beta1/users", "metrics.k8s.io/v1beta1/pods",
		"rbac.authorization.k8s.io/v1/roles", "zoo.example.com/v1/animals"}
	if !slices.Equal(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
	d.fail[own] = errors.New("no endpoint")
	cat.Refresh(t.Context())
	if cat.Err() != nil {
		t.Errorf("got %v", cat.Err())
	}
}
