package controllermanager

import (
	"crypto/sha256"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/jobrevision"
	"kapis.dev/ks-apiserver/pkg/controller/storageclass"
)

// sharedRules is how many different lists of rules are remembered to be shared. All namespaces and all workspaces have the same
// built-in roles, so that a few lists are nearly all of them.
const sharedRules = 1024

// transform makes the objects in the controllers' cache smaller: it drops their managedFields, which no controller reads, and lets roles
// with equal rules share one list. A controller that changes an object changes a copy of it.
func transform() toolscache.TransformFunc {
	strip, seen := cache.TransformStripManagedFields(), lru.New(sharedRules)
	return func(o any) (any, error) {
		switch o := o.(type) {
		case *iamv1beta1.GlobalRole:
			share(seen, &o.Rules)
		case *iamv1beta1.WorkspaceRole:
			share(seen, &o.Rules)
		case *iamv1beta1.ClusterRole:
			share(seen, &o.Rules)
		case *iamv1beta1.Role:
			share(seen, &o.Rules)
		case *rbacv1.ClusterRole:
			share(seen, &o.Rules)
		case *rbacv1.Role:
			share(seen, &o.Rules)
		case *batchv1.Job:
			jobrevision.Transform(o)
		case *corev1.PersistentVolumeClaim:
			storageclass.Transform(o)
		}
		return strip(o)
	}
}

// share replaces rules by equal ones that are in use already.
func share(seen *lru.Cache, rules *[]rbacv1.PolicyRule) {
	if len(*rules) == 0 {
		return
	}
	raw, err := (&rbacv1.Role{Rules: *rules}).Marshal()
	if err != nil {
		return // they are not shared
	}
	key := sha256.Sum256(raw)
	if same, ok := seen.Get(key); ok {
		*rules = same.([]rbacv1.PolicyRule)
		return
	}
	*rules = slices.Clip(*rules) // so that append makes a copy
	seen.Add(key, *rules)
}
