package fleetsync_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/tools/pace"
)

// noCaches are caches that can't be read.
type noCaches struct{}

func (noCaches) Snapshot(context.Context, schema.GroupVersionResource) (*index.Snapshot, error) {
	return nil, errors.New("there are none")
}

// F25, F26: a hub that does not know yet what is to be in a member asks it for nothing, so that nothing is deleted there; afterwards a member is told
// everything before it counts as told.
func TestAHubThatIsNotFedDeletesNothing(t *testing.T) {
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	m := newMember(t)
	m.put("globalroles", "h", object("GlobalRole", "kept", rules))
	m.put("globalroles", "h", object("GlobalRole", "gone", rules))
	var fed atomic.Bool
	asked := make(chan string, 64)
	source := fleetsync.NewSource(noCaches{})
	by := linktest.NewAuthority(t)
	members := &cluster.Members{Identity: by.Hub(t), Host: "host", Now: time.Now}
	known := make(chan struct{}, 64)
	members.Follow = (&fleetsync.Syncer{Source: source, Hub: hub, Current: members.ByUID, Known: func() error {
		select {
		case known <- struct{}{}:
		default:
		}
		if !fed.Load() {
			return errors.New("not yet")
		}
		return nil
	}}).Follow
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "m1", "uid": uid}, "spec": map[string]any{"enable": true}})
	if err != nil {
		t.Fatal(err)
	}
	members.Set(&store.Object{Name: "m1", Raw: raw})
	by.Link(t, members, uid, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		m.ServeHTTP(w, r)
	}))
	<-known
	if synced, _ := members.ByName("m1").Synced(); synced || len(asked) > 0 {
		t.Fatal("a member was asked by a hub that knows nothing")
	}
	for gvr, sink := range source.Sinks() {
		if gvr.Resource == "globalroles" {
			sink.Set(&store.Object{Name: "kept", Raw: []byte(`{"metadata":{"name":"kept"},"rules":[]}`)})
		}
	}
	fed.Store(true)
	for path := range asked {
		if path == fleetsync.PathDigest {
			break
		}
	}
	err = pace.Until(t.Context(), time.Minute, func(context.Context) error {
		if m.get(roles, "gone") != nil {
			return errors.New("it is still there")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if m.get(roles, "kept") == nil {
		t.Error("what is to be there is gone")
	}
}
