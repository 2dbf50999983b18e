package resource

import (
	"context"
	"time"

	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// annotationWait is how long an answer waits for the other kind's first list: what is not known then is left out.
const annotationWait = time.Second

// derivedAnnotation returns the key of a kind's derived annotation, "" for a kind without one, and a function that returns
// its value for an object: "" where that is not known, or not visible to the caller.
func (s *Service) derivedAnnotation(ctx context.Context, own *plan.Kind, scope plan.Scope) (key string, of func(*index.Record) string) {
	m := own.Annotation
	if m == nil {
		return "", nil
	}
	if m.Total && (scope.MayList == nil || !scope.MayList(ctx, m.From)) {
		return m.Key, func(*index.Record) string { return "" }
	}
	from := s.store.SnapshotWithin(ctx, m.From, annotationWait)
	return m.Key, func(r *index.Record) string {
		if from == nil {
			return ""
		}
		return m.Of(from, r)
	}
}

// annotate returns the page with the derived annotations of its objects.
func (s *Service) annotate(ctx context.Context, own *plan.Kind, scope plan.Scope, p *page.Page) *page.Page {
	if len(p.Records) == 0 {
		return p
	}
	key, of := s.derivedAnnotation(ctx, own, scope)
	return p.AnnotatedAt(key, func(i int) string { return of(p.Records[i]) })
}
