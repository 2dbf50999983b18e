package lite

import (
	"context"
	"errors"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// S6, F41: the groups that count in a lite member are names that somebody has there, and so are the users whom its bindings name.
func TestNamesThatCountInALiteMemberAreKnown(t *testing.T) {
	members := &cluster.Members{Host: "host", Now: time.Now}
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"u-1"},"spec":{"enable":true}}`)})
	ctx, cancel := context.WithCancel(t.Context())
	(&Keeper{}).describe(ctx, members.ByName("m1"), cluster.About{}, []string{"ops"}, &Served{
		Bound: func(context.Context) (users, clusterUsers []string, err error) {
			return []string{"ann", "cleo"}, []string{"cleo"}, nil
		},
		Nodes: func(context.Context) (*index.Snapshot, error) {
			cancel() // it is enough
			return nil, errors.New("there are none")
		},
	})
	if !members.BindGroup("ops") || members.BindGroup("devs") {
		t.Error("other groups count than those that its administrator lets count")
	}
	if !members.Bind("ann") || members.BindInCluster("ann") || !members.BindInCluster("cleo") {
		t.Error("its bindings name others")
	}
}
