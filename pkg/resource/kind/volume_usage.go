package kind

import (
	"strconv"

	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds that describe volume claims and storage classes.
var (
	PodsKind   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	ClaimsKind = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
)

// inUse says of a claim whether a pod in its namespace mounts it, in any state.
func inUse() *plan.DerivedAnnotation {
	return &plan.DerivedAnnotation{Keys: []string{"kubesphere.io/in-use"}, From: PodsKind, Of: func(pods *index.Snapshot, r *index.Record) []string {
		return []string{strconv.FormatBool(pods.Any(index.HasMember(podClaims, r.Namespace, r.Name)))}
	}}
}

// claimCount says of a storage class how many claims name it.
func claimCount() *plan.DerivedAnnotation {
	return &plan.DerivedAnnotation{Keys: []string{"kubesphere.io/pvc-count"}, From: ClaimsKind, Total: true,
		Of: func(claims *index.Snapshot, r *index.Record) []string {
			return []string{strconv.Itoa(claims.ByCreated(index.FieldIs(claimClass, r.Name)).Len())}
		}}
}
