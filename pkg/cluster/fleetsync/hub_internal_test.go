package fleetsync

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// F17, F39: what a member says of each batch is not kept beyond the bound of all.
func TestWhatAMemberSaysOfBatchesHasABound(t *testing.T) {
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	by := linktest.NewAuthority(t)
	members := &cluster.Members{Identity: by.Hub(t), Host: "host", Now: time.Now}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"` + uid + `"},"spec":{"enable":true}}`)})
	var batches atomic.Int64
	by.Link(t, members, uid, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		batches.Add(1)
		out := Outcome{Pending: make([]cluster.Pending, 900)}
		for i := range out.Pending {
			out.Pending[i].Reason = strings.Repeat("x", 10_000)
		}
		_ = json.NewEncoder(w).Encode(&out)
	}))
	var refs []Ref
	for i := range 3 * batch {
		refs = append(refs, Ref{"users", strconv.Itoa(i)})
	}
	r := &round{Syncer: &Syncer{Source: NewSource(nil), Hub: "u-hub"}}
	pending, err := r.send(t.Context(), members.ByName("m1"), refs, map[Ref]bool{})
	if err != nil || batches.Load() != 3 || len(pending) != 1000 || len(pending[0].Reason) > 512 {
		t.Errorf("%d are pending after %d batches, %v", len(pending), batches.Load(), err)
	}
}

// F17: a member that asks for one object again and again is sent it once, and nothing that it is not to have.
func TestAMemberGetsEachObjectOnce(t *testing.T) {
	want := []Ref{{"users", "ann"}, {"users", "ann"}, {"users", "admin"}, {"secrets", "ann"}, {"users", "bob"}, {"users", "ann"}}
	refs, there := lacked(want, map[string]map[string]string{"users": {"ann": "1", "bob": "2"}})
	if !slices.Equal(refs, []Ref{{"users", "ann"}, {"users", "bob"}}) || len(there) != 2 {
		t.Errorf("%v, %v", refs, there)
	}
}

// told is a round of a hub that has nothing, and the member that it is of, which has some objects of that hub. Asked is called before the
// member answers, and returns true where it has answered itself.
type told struct {
	*round
	*cluster.Member
	objects *dynamicfake.FakeDynamicClient
}

func newTold(t *testing.T, asked func(http.ResponseWriter, *http.Request) bool, have ...Ref) *told {
	t.Helper()
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	lists, groups := map[schema.GroupVersionResource]string{}, map[string]string{}
	for _, k := range kinds {
		lists[k], groups[k.Resource] = "List", k.GroupVersion().String()
	}
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	there := &Member{Objects: objects, Bound: func(context.Context) (*Bound, error) { return &Bound{Version: "1"}, nil }}
	in := &Changes{Hub: "u-hub"}
	for _, r := range have {
		in.Changes = append(in.Changes, Change{Ref: r, Object: sent(groups[r.Kind], r)})
	}
	if out, err := there.apply(t.Context(), in); err != nil || len(out.Pending) > 0 {
		t.Fatal(out, err)
	}
	by := linktest.NewAuthority(t)
	members := &cluster.Members{Identity: by.Hub(t), Host: "host", Now: time.Now}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"` + uid + `"},"spec":{"enable":true}}`)})
	by.Link(t, members, uid, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == PathAbout {
			http.NotFound(w, r)
		} else if !asked(w, r) {
			there.ServeHTTP(w, r)
		}
	}))
	s := &Syncer{Source: NewSource(nil), Hub: "u-hub", Current: members.ByUID, Known: func() error { return nil }}
	return &told{&round{Syncer: s, uid: uid}, members.ByName("m1"), objects}
}

// has returns how many of some objects the member has.
func (x *told) has(t *testing.T, all ...Ref) (n int) {
	t.Helper()
	for _, r := range all {
		k, _ := kindOf(r.Kind)
		if _, err := x.objects.Resource(k).Get(t.Context(), r.Name, metav1.GetOptions{}); err == nil {
			n++
		}
	}
	return n
}

// F25, F26: a replica that falls behind, also while a member takes its time to answer, takes nothing from it that another replica has told it.
func TestAReplicaThatIsBehindTellsNothing(t *testing.T) {
	all := []Ref{{"users", "ann"}, {"globalrolebindings", "ann"}}
	var behind atomic.Bool
	x := newTold(t, func(_ http.ResponseWriter, r *http.Request) bool {
		behind.CompareAndSwap(false, r.URL.Path == PathBound)
		return false
	}, all...)
	x.Known = func() error {
		if behind.Load() {
			return errors.New("list users: the watch ended")
		}
		return nil
	}
	for range 2 {
		if err := x.run(t.Context()); !errors.Is(err, errUnknown) || x.has(t, all...) != 2 {
			t.Fatalf("%v, and the member has %d of what it was told", err, x.has(t, all...))
		}
	}
	if synced, _ := x.Synced(); synced {
		t.Error("the member takes requests")
	}
	x.Known = func() error { return nil }
	if err := x.run(t.Context()); err != nil || x.has(t, all...) != 0 {
		t.Errorf("once the replica knows that they are gone: %v, and %d are there", err, x.has(t, all...))
	}
}

// F25: a member whose webhooks do not answer yet takes no requests while it has what was taken away; what it refuses for good holds nobody.
func TestAMemberThatCanNotLoseItYetTakesNoRequests(t *testing.T) {
	bob := Ref{"globalrolebindings", "bob"}
	gr := schema.GroupResource{Resource: bob.Kind}
	for name, failed := range map[string]struct {
		by    error
		holds bool
	}{
		"Webhook":     {apierrors.NewInternalError(errors.New("failed calling webhook")), true},
		"Unavailable": {apierrors.NewServiceUnavailable("not yet"), true},
		"Timeout":     {apierrors.NewServerTimeout(gr, "delete", 1), true},
		"Busy":        {apierrors.NewTooManyRequests("later", 1), true},
		"Forbidden":   {apierrors.NewForbidden(gr, bob.Name, errors.New("no")), false},
		"Conflict":    {apierrors.NewConflict(gr, bob.Name, errors.New("it is of the last administrator")), false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTold(t, func(http.ResponseWriter, *http.Request) bool { return false }, bob)
			left := 2
			x.objects.PrependReactor("delete", bob.Kind, func(clienttesting.Action) (bool, runtime.Object, error) {
				left--
				return left >= 0, nil, failed.by
			})
			for range 2 {
				err := x.run(t.Context())
				if holds := err != nil && strings.Contains(err.Error(), "globalrolebindings/bob"); holds != failed.holds || errors.Is(err, errUnknown) {
					t.Fatalf("it fails with %v", err)
				}
				if synced, pending := x.Synced(); synced == failed.holds || len(pending) != 1 || pending[0].Passing != failed.holds || x.has(t, bob) != 1 {
					t.Fatalf("it takes requests: %v, and %+v is pending", synced, pending)
				}
				x.compared = false
			}
			if err := x.run(t.Context()); err != nil || x.has(t, bob) != 0 {
				t.Errorf("%v, and it is there still", err)
			}
			if synced, pending := x.Synced(); !synced || len(pending) > 0 {
				t.Errorf("once it is gone it takes requests: %v, and %+v is pending", synced, pending)
			}
		})
	}
}

// F26: everything is compared again where the member names other users, until that was done, and not while it names the same.
func TestOtherBoundUsersAreComparedOnce(t *testing.T) {
	version, fails, digests := "1", false, 0
	x := newTold(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case PathBound:
			_ = json.NewEncoder(w).Encode(&Bound{Version: version})
			return true
		case PathDigest:
			digests++
			if fails {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return fails
		}
		return false
	})
	for i, step := range []struct {
		version string
		fails   bool
		digests int
	}{{"1", false, 1}, {"1", false, 1}, {"2", true, 2}, {"2", false, 3}, {"2", false, 3}} {
		version, fails = step.version, step.fails
		if err := x.run(t.Context()); (err != nil) != step.fails || digests != step.digests {
			t.Errorf("round %d: %v, after %d digests, want %d", i, err, digests, step.digests)
		}
	}
}

// F17, F24: any replica of a member knows what the hub's binding gives, whichever was told of the role: it is said with the binding.
func TestAnyReplicaOfAMemberTakesABinding(t *testing.T) {
	var objects *dynamicfake.FakeDynamicClient
	sent, asked := []Roles{}, 0
	x := newTold(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == PathObjects {
			raw, err := io.ReadAll(r.Body)
			in := Changes{}
			if err := errors.Join(err, json.Unmarshal(raw, &in)); err != nil {
				t.Error(err)
			}
			sent, r.Body = append(sent, in.Roles), io.NopCloser(bytes.NewReader(raw))
		}
		if asked++; asked%2 == 0 {
			return false
		}
		(&Member{Objects: objects, Bound: func(context.Context) (*Bound, error) { return &Bound{Version: "1"}, nil }}).ServeHTTP(w, r)
		return true
	})
	objects = x.objects
	kept := index.NewCollection(&index.Schema{}, clock.RealClock{})
	decoder := index.NewDecoder(schema.GroupResource{}, &index.Schema{}, func() bool { return false })
	caches := &inTurn{}
	x.Source = NewSource(caches)
	role := fmt.Sprintf(meta, "auditor", "auditor", "", `,"rules":[{"verbs":["get"]}]`)
	given := func(subjects string) string {
		return fmt.Sprintf(meta, "auditors", "auditors", "", `,"roleRef":{"name":"auditor"},"subjects":[`+subjects+`]`)
	}
	now := func(texts ...string) {
		var all []*index.Incoming
		for _, text := range texts {
			d, err := decoder.Decode(text, "")
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, d.Incoming)
		}
		kept.Replace(all, strconv.Itoa(asked+1))
		caches.all = []*index.Snapshot{kept.Snapshot()}
		set(t, x.Source, "globalroles", "auditor", role)
		set(t, x.Source, "globalrolebindings", "auditors", texts[len(texts)-1])
	}
	own := map[string]any{}
	if err := json.Unmarshal([]byte(role), &own); err != nil {
		t.Fatal(err)
	}
	roles, _ := kindOf("globalroles")
	if _, err := objects.Resource(roles).Create(t.Context(), &unstructured.Unstructured{Object: own}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bindings, _ := kindOf("globalrolebindings")
	subjects := ""
	for i := range 4 { // each in turn to a replica that was told of nothing, and to another one
		subjects += `,{"kind":"Group","name":"g` + strconv.Itoa(i) + `"}`
		now(role, given(subjects[1:]))
		if asked%2 != i%2 {
			asked++
		}
		if i == 3 {
			x.compared = false
		}
		if err := x.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		o, err := objects.Resource(bindings).Get(t.Context(), "auditors", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if all, _, _ := unstructured.NestedSlice(o.Object, "subjects"); len(all) != i+1 {
			t.Errorf("after change %d it names %v", i, all)
		}
		if synced, pending := x.Synced(); !synced || len(pending) > 0 {
			t.Errorf("after change %d it takes requests: %v, and pending is %v", i, synced, pending)
		}
		if last := sent[len(sent)-1]; len(last) != 1 || len(last["globalroles"]) != 1 || last["globalroles"]["auditor"] == nil {
			t.Errorf("with change %d the roles %v are sent", i, last)
		}
	}
}

// F17: with a binding no role of another workspace is sent, and none that every installation has.
func TestRolesOfBindingsAreThoseOfTheirWorkspace(t *testing.T) {
	kept := index.NewCollection(&index.Schema{}, clock.RealClock{})
	decoder := index.NewDecoder(schema.GroupResource{}, &index.Schema{}, func() bool { return false })
	s := NewSource(&inTurn{})
	var all []*index.Incoming
	have := func(plural, name, workspace, more string) {
		labels := ""
		if workspace != "" {
			labels = `,"labels":{"kubesphere.io/workspace":"` + workspace + `"}`
		}
		text := fmt.Sprintf(meta, name, name, labels, more)
		d, err := decoder.Decode(text, "")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d.Incoming)
		set(t, s, plural, name, text)
	}
	const rules = `,"rules":[{"verbs":["get"]}]`
	have("globalroles", "auditor", "", rules)
	for _, name := range []string{"shop-own", "shop-admin"} {
		have("workspaceroles", name, "shop", rules)
	}
	have("workspaceroles", "secret-own", "secret", rules)
	want := map[string]string{"a": "auditor", "b": "", "c": "", "d": "shop-own", "e": "", "f": ""}
	have("globalrolebindings", "a", "", `,"roleRef":{"name":"auditor"}`)
	have("globalrolebindings", "b", "", `,"roleRef":{"name":"platform-regular"}`)
	have("globalrolebindings", "c", "", `,"roleRef":{"name":"nowhere"}`)
	have("workspacerolebindings", "d", "shop", `,"roleRef":{"name":"shop-own"}`)
	have("workspacerolebindings", "e", "shop", `,"roleRef":{"name":"shop-admin"}`)
	have("workspacerolebindings", "f", "shop", `,"roleRef":{"name":"secret-own"}`)
	kept.Replace(all, "1")
	s.Caches = &inTurn{all: []*index.Snapshot{kept.Snapshot()}}
	refs, there := []Ref{}, map[Ref]bool{}
	for name := range want {
		for _, kind := range []string{"globalrolebindings", "workspacerolebindings"} {
			if s.objects[kind][name] != nil {
				refs = append(refs, Ref{kind, name})
				there[Ref{kind, name}] = true
			}
		}
	}
	changes, err := s.changes(t.Context(), refs, there)
	if err != nil || len(changes) != len(want) {
		t.Fatalf("%v, %v", changes, err)
	}
	for _, c := range changes {
		if role := c.gives; role.Name != want[c.Name] || (role.object != nil) != (role.Name != "") || c.size() != len(c.Object)+len(role.object) {
			t.Errorf("with %s the role %q is sent: %s", c.Name, c.gives.Name, c.gives.object)
		}
	}
	if of := rolesIn(changes); len(of) != 2 || len(of["globalroles"]) != 1 || len(of["workspaceroles"]) != 1 {
		t.Errorf("%v", of)
	}
}

// F39: what is sent at once has a bound in bytes, below what a member takes, and a longer object is sent alone: whoever writes large objects holds
// up nothing else.
func TestLargeObjectsAreSentInBatchesOfTheirOwn(t *testing.T) {
	const most = 10 << 20
	x := newTold(t, func(w http.ResponseWriter, r *http.Request) bool {
		isLong := r.ContentLength > most
		if isLong {
			http.Error(w, "it is too long", http.StatusRequestEntityTooLarge)
		}
		return isLong
	})
	kept := index.NewCollection(&index.Schema{}, clock.RealClock{})
	decoder := index.NewDecoder(schema.GroupResource{}, &index.Schema{}, func() bool { return false })
	caches := &inTurn{}
	x.Source = NewSource(caches)
	var objects []*index.Incoming
	var all []Ref
	for i := range 4 { // more than the member takes, together
		size := 1_400_000
		if i == 2 {
			size = batchBytes + 1
		}
		name := "r" + strconv.Itoa(i)
		text := fmt.Sprintf(meta, name, name, `,"annotations":{"a":"`+strings.Repeat("x", size)+`"}`, `,"rules":[]`)
		d, err := decoder.Decode(text, "")
		if err != nil {
			t.Fatal(err)
		}
		objects, all = append(objects, d.Incoming), append(all, Ref{"globalroles", name})
		set(t, x.Source, "globalroles", name, text)
	}
	kept.Replace(objects, "1")
	caches.all = []*index.Snapshot{kept.Snapshot()}
	if err := x.run(t.Context()); err != nil || x.has(t, all...) != len(all) {
		t.Errorf("%v, and the member has %d of %d objects", err, x.has(t, all...), len(all))
	}
	if synced, pending := x.Synced(); !synced || len(pending) > 0 {
		t.Errorf("it takes requests: %v, and %d are pending", synced, len(pending))
	}
}
