package resource

import (
	"context"
	"strconv"
	"time"

	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// annotationWait is how long an answer waits for the other kind's first list: what is not known then is left out.
const annotationWait = time.Second

// derivedAnnotation is an annotation that answers give the objects of a kind: what another kind knows of them. It is found by an index of that kind, for the
// objects of the page alone, and is no part of the object: no filter and no watch sees it.
type derivedAnnotation struct {
	key  string
	from schema.GroupVersionResource
	// total says that the value is of all objects of the other kind, and so for those alone who may list them all.
	total bool
	of    func(from *index.Snapshot, r *index.Record) string
}

var (
	podsKind   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	claimsKind = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
)

// inUse tells of a claim whether there is a pod in its namespace that mounts it, whatever that pod's state.
func inUse() *derivedAnnotation {
	return &derivedAnnotation{key: "kubesphere.io/in-use", from: podsKind, of: func(pods *index.Snapshot, r *index.Record) string {
		return strconv.FormatBool(pods.Any(index.HasMember(podClaims, r.Namespace, r.Name)))
	}}
}

// claimCount tells of a storage class how many claims name it.
func claimCount() *derivedAnnotation {
	return &derivedAnnotation{key: "kubesphere.io/pvc-count", from: claimsKind, total: true, of: func(claims *index.Snapshot, r *index.Record) string {
		return strconv.Itoa(claims.ByCreated(index.FieldIs(claimClass, r.Name)).Len())
	}}
}

// derivedAnnotation returns what says of objects of a kind what the annotation's value is, "" where that is not known, or not for the caller; and the
// annotation's key, "" for a kind that has none.
func (s *Service) derivedAnnotation(ctx context.Context, own *kind, scope Scope) (key string, of func(*index.Record) string) {
	m := own.annotation
	if m == nil {
		return "", nil
	}
	if m.total && (scope.MayList == nil || !scope.MayList(ctx, m.from)) {
		return m.key, func(*index.Record) string { return "" }
	}
	from := s.store.SnapshotWithin(ctx, m.from, annotationWait)
	return m.key, func(r *index.Record) string {
		if from == nil {
			return ""
		}
		return m.of(from, r)
	}
}

// annotate is a page with what other kinds know of its objects.
func (s *Service) annotate(ctx context.Context, own *kind, scope Scope, p *Page) *Page {
	if own.annotation == nil || len(p.records) == 0 {
		return p
	}
	key, of := s.derivedAnnotation(ctx, own, scope)
	return p.annotated(key, func(i int) string { return of(p.records[i]) })
}
