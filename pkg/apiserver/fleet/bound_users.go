package fleet

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// ownBindings are the kinds of bindings that a member has of its own.
var ownBindings = []schema.GroupVersionResource{
	iamv1beta1.SchemeGroupVersion.WithResource("clusterrolebindings"),
	iamv1beta1.SchemeGroupVersion.WithResource("rolebindings"),
}

// bound knows whom a member's own bindings name.
type bound struct {
	caches fleetsync.Snapshots

	mu   sync.Mutex
	last *fleetsync.Bound
}

// now returns them. It costs nothing while no binding changes.
func (b *bound) now(ctx context.Context) (*fleetsync.Bound, error) {
	var snaps []*index.Snapshot
	version := ""
	for _, k := range ownBindings {
		snap, err := b.caches.Snapshot(ctx, k)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		snaps, version = append(snaps, snap), version+strconv.FormatUint(snap.Generation(), 10)+" "
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil && b.last.Version == version {
		return b.last, nil
	}
	names := map[string]bool{}
	for _, snap := range snaps {
		snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
			var o struct {
				Subjects []struct{ Kind, Name string } `json:"subjects"`
			}
			if json.Unmarshal([]byte(snap.Record(ref).JSON.String()), &o) != nil {
				return true
			}
			for _, s := range o.Subjects {
				if s.Kind == "User" {
					names[s.Name] = true
				}
			}
			return true
		})
	}
	b.last = &fleetsync.Bound{Version: version, Users: slices.Sorted(maps.Keys(names))}
	return b.last, nil
}
