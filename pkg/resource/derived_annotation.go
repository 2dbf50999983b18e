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

// derivedAnnotation returns the keys of a kind's derived annotations, nil for a kind without any, and a function that returns
// their values for an object: nil where they are not known, or not visible to the caller.
func (s *Service) derivedAnnotation(ctx context.Context, own *plan.Kind, scope plan.Scope) (keys []string,
	of func(*index.Record) []string) {
	m := own.Annotation
	if m == nil {
		return nil, nil
	}
	if m.Total && (scope.MayList == nil || !scope.MayList(ctx, m.From)) {
		return m.Keys, func(*index.Record) []string { return nil }
	}
	from := s.store.SnapshotWithin(ctx, m.From, annotationWait)
	return m.Keys, func(r *index.Record) []string {
		if from == nil {
			return nil
		}
		return m.Of(from, r)
	}
}

// complete returns the page with the derived annotations of its objects, which no filter and no watch sees.
func (s *Service) complete(ctx context.Context, own *plan.Kind, scope plan.Scope, p *page.Page) *page.Page {
	if len(p.Records) == 0 {
		return p
	}
	keys, of := s.derivedAnnotation(ctx, own, scope)
	return p.AnnotatedAt(keys, func(i int) []string { return of(p.Records[i]) })
}
