package fleet

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

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
		for _, k := range ownBindings {
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
