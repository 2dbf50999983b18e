package fleet

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/hub"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// collections are the caches of one replica.
type collections map[schema.GroupVersionResource]*index.Collection

func (c collections) Snapshot(_ context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error) {
	return c[gvr].Snapshot(), nil
}

// F26: all replicas of a member say the same version of the same users, whatever else their caches have been told, and another one of others.
func TestTheVersionOfBoundUsersIsOfThem(t *testing.T) {
	decoder := index.NewDecoder(schema.GroupResource{}, &index.Schema{}, func() bool { return false })
	binding := func(name, subjects string) *index.Incoming {
		t.Helper()
		d, err := decoder.Decode(`{"metadata":{"name":"`+name+`","uid":"`+name+`","resourceVersion":"1"},"subjects":[`+subjects+`]}`, "")
		if err != nil {
			t.Fatal(err)
		}
		return d.Incoming
	}
	user := func(name string) string { return `{"kind":"User","name":"` + name + `"}` }
	replica := func(of ...*index.Incoming) (collections, *bound) {
		c := collections{}
		for _, k := range append(slices.Concat(ownBindings, widerBindings), namespacesKind) {
			c[k] = index.NewCollection(&index.Schema{}, clock.RealClock{})
			c[k].Replace(nil, "1")
		}
		c[ownBindings[0]].Replace(of, "2")
		return c, &bound{caches: c}
	}
	ask := func(b *bound) (version string, users []string) {
		t.Helper()
		out, err := b.now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out.Version, out.Users
	}
	caches, one := replica(binding("x", user("ann")+","+user("bob")))
	_, other := replica(binding("y", user("bob")), binding("z", user("ann")+`,{"kind":"Group","name":"devs"}`))
	first, users := ask(one)
	if !slices.Equal(users, []string{"ann", "bob"}) {
		t.Errorf("they name %q", users)
	}
	before := caches[ownBindings[0]].Snapshot().Generation()
	caches[ownBindings[0]].Bookmark("3")
	caches[ownBindings[0]].Flush()
	if caches[ownBindings[0]].Snapshot().Generation() == before {
		t.Fatal("a bookmark publishes nothing")
	}
	if again, _ := ask(one); again != first {
		t.Errorf("after a bookmark it is %s, before %s", again, first)
	}
	if same, _ := ask(other); same != first {
		t.Errorf("another replica says %s, the first one %s", same, first)
	}
	_, joined := replica(binding("x", user("annbob")))
	_, none := replica()
	for _, b := range []*bound{joined, none} {
		if version, users := ask(b); version == first || version == "" {
			t.Errorf("%q have the version %q", users, version)
		}
	}
}

// F17: a member tells its hub the groups that its bindings name, and apart from the others the users of those that hold in the whole cluster, or in a namespace
// of its system.
func TestAMemberTellsWhichOfItsBindingsHoldInTheCluster(t *testing.T) {
	decoder := index.NewDecoder(schema.GroupResource{}, &index.Schema{}, func() bool { return false })
	object := func(namespace, name, more string) *index.Incoming {
		t.Helper()
		d, err := decoder.Decode(`{"metadata":{"namespace":"`+namespace+`","name":"`+name+`","uid":"`+namespace+name+`","resourceVersion":"1"`+more+`}`, "")
		if err != nil {
			t.Fatal(err)
		}
		return d.Incoming
	}
	binds := func(namespace, user, group string) *index.Incoming {
		return object(namespace, "x-"+user, `},"subjects":[{"kind":"User","name":"`+user+`"},{"kind":"Group","name":"`+group+`"}]`)
	}
	c := collections{}
	for _, k := range append(slices.Concat(ownBindings, widerBindings), namespacesKind) {
		c[k] = index.NewCollection(&index.Schema{}, clock.RealClock{})
	}
	spaces := func(version, workspace string) {
		c[namespacesKind].Replace([]*index.Incoming{object("", "kube-system", "}"), object("", "shop", "}"),
			object("", "logging", `,"labels":{"kubesphere.io/workspace":"`+workspace+`"}}`)}, version)
	}
	spaces("1", "system-workspace")
	c[ownBindings[0]].Replace([]*index.Incoming{binds("", "ann", "sre")}, "1")
	c[ownBindings[1]].Replace([]*index.Incoming{binds("kube-system", "bob", "devs"), binds("logging", "carl", "sre"), binds("shop", "dora", "ops")}, "1")
	of := func(labels, user, group string) *index.Incoming {
		return object("", "x-"+user, `,"labels":{`+labels+`}},"subjects":[{"kind":"User","name":"`+user+`"},{"kind":"Group","name":"`+group+`"}]`)
	}
	c[iamv1beta1.SchemeGroupVersion.WithResource("globalrolebindings")].Replace([]*index.Incoming{of(``, "root", "wheel"),
		of(`"kapis.dev/fleet":"u"`, "kept", "kept-too")}, "1")
	c[iamv1beta1.SchemeGroupVersion.WithResource("workspacerolebindings")].Replace([]*index.Incoming{of(`"kubesphere.io/workspace":"w"`, "wendy", "w-devs"),
		of(`"kubesphere.io/workspace":"system-workspace"`, "sid", "w-devs"), of(`"kubesphere.io/workspace":"w","kapis.dev/fleet":"u"`, "kept", "kept-too")}, "1")
	b := &bound{caches: c}
	expect := func(clusterUsers ...string) {
		t.Helper()
		users, err := b.now(t.Context())
		if err != nil || !slices.Equal(users.Users, []string{"ann", "bob", "carl", "dora"}) {
			t.Errorf("users %+v, %v", users, err)
		}
		names, err := b.others(t.Context())
		if err != nil || !slices.Equal(names.Groups, []string{"devs", "ops", "sre", "w-devs", "wheel"}) ||
			!slices.Equal(names.ClusterUsers, clusterUsers) || !slices.Equal(names.WorkspaceUsers, []string{"wendy"}) {
			t.Errorf("names %+v, %v; want %q", names, err, clusterUsers)
		}
	}
	expect("ann", "bob", "carl", "root", "sid")
	spaces("2", "w") // it leaves the system
	expect("ann", "bob", "root", "sid")
}

// S6, F17: a user whom bindings of a member name in the whole cluster is as one whom Kubernetes' own bindings name; a hub that is none knows nobody.
func TestNamesOfMembersAreNamesHere(t *testing.T) {
	members := &cluster.Members{Host: "host", Now: time.Now}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"u-1"},"spec":{"enable":true}}`)})
	h := &Hub{Hub: &hub.Hub{Members: members}}
	down := errors.New("down")
	named := h.Named(func(_ context.Context, user string) (bool, error) { return user == "oncall", down })
	members.ByName("m1").SetBound([]string{"ann", "bob"})
	members.ByName("m1").SetBoundNames(&cluster.BoundNames{ClusterUsers: []string{"ann", "root"}, WorkspaceUsers: []string{"wendy"},
		Groups: []string{"sre"}})
	if !h.Binds("ann") || !h.Binds("bob") || !h.Binds("root") || !h.Binds("wendy") || h.Binds("oncall") || (*Hub)(nil).Binds("ann") {
		t.Error("other names are bound than those that the member says")
	}
	users, groups := h.NamesInMembers()
	if none, neither := (*Hub)(nil).NamesInMembers(); none != nil || neither != nil || !users("ann") || users("bob") || !groups("sre") || groups("ann") {
		t.Error("other names are looked for")
	}
	if is, err := named(t.Context(), "ann"); !is || err != nil {
		t.Errorf("ann: %v, %v", is, err)
	}
	if is, err := named(t.Context(), "bob"); is || !errors.Is(err, down) {
		t.Errorf("bob: %v, %v", is, err)
	}
	if is, err := named(t.Context(), "oncall"); !is || !errors.Is(err, down) {
		t.Errorf("oncall: %v, %v", is, err)
	}
}
