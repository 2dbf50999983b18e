package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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
	// at are the generations that last is of. They grow without a change, and are of this replica: a hub that was told them would compare
	// everything each time.
	at string
}

// now returns them. It costs nothing while no binding changes.
func (b *bound) now(ctx context.Context) (*fleetsync.Bound, error) {
	var snaps []*index.Snapshot
	at := ""
	for _, k := range ownBindings {
		snap, err := b.caches.Snapshot(ctx, k)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		snaps, at = append(snaps, snap), at+strconv.FormatUint(snap.Generation(), 10)+" "
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil && b.at == at {
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
	users := slices.Sorted(maps.Keys(names))
	raw, err := json.Marshal(users)
	if err != nil {
		return nil, fmt.Errorf("encode whom bindings name: %w", err)
	}
	sum := sha256.Sum256(raw)
	b.at, b.last = at, &fleetsync.Bound{Version: hex.EncodeToString(sum[:16]), Users: users}
	return b.last, nil
}
