package resource

import (
	"context"
	"fmt"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// readers is how many objects of a page are read at the same time.
const readers = 8

// Reader reads an object at kube-apiserver, as the caller whom ctx names.
type Reader interface {
	Get(ctx context.Context, path string) (redaction.Raw, error)
}

// Complete returns a page with its objects as kube-apiserver has them: with what the cache leaves out, such as
// managedFields, for a caller who may get each of them. What no answer shows, it does not show either. An
// object that is gone meanwhile stays as it was; what else fails is the error.
func (s *Service) Complete(ctx context.Context, p *Page, scope plan.Scope, from Reader) (*Page, error) {
	cuts := []rawjson.Cut{s.planner.KindOf(p.kind.GVR).Cut}
	if across := s.planner.KindOf(p.kind.GVR).CutClusterWide; len(across) > 0 && !s.planner.WithData(p.kind, scope) {
		// kubectl apply repeats the data in its annotation, and what it calls stringData.
		cuts = append(cuts, across, rawjson.Cuts([]string{"metadata", "annotations", corev1.LastAppliedConfigAnnotation}))
	}
	out := *p
	out.body, out.complete, out.insertions = nil, true, nil
	out.records = make([]*index.Record, len(p.records))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, r := range p.records {
		group.Go(func() (err error) {
			out.records[i], err = completed(ctx, r, p.kind.GVR, cuts, from)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out.digest, out.bytes = httpcache.DigestOf(out.records)
	if p.insertions != nil {
		return out.annotated(p.key, func(i int) string { return p.insertions[i].value }), nil
	}
	return &out, nil
}

func completed(ctx context.Context, r *index.Record, gvr schema.GroupVersionResource, cuts []rawjson.Cut, from Reader) (*index.Record, error) {
	raw, err := from.Get(ctx, pathOf(gvr, r.Ref))
	if apierrors.IsNotFound(err) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	shown, err := raw.Shown(gvr.GroupResource())
	for _, cut := range cuts {
		if err == nil {
			shown, err = shown.Without(cut) // which makes it compact, too
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s at kube-apiserver: %w", gvr.Resource, r.Namespace, r.Name, err)
	}
	return &index.Record{
		Ref: r.Ref, JSON: shown, UID: r.UID,
		ResourceVersion: rawjson.GetText(shown.String(), "metadata", "resourceVersion"),
	}, nil
}

// pathOf is where kube-apiserver has an object.
func pathOf(gvr schema.GroupVersionResource, ref *index.Ref) string {
	path := "/apis/" + gvr.Group + "/" + gvr.Version
	if gvr.Group == "" {
		path = "/api/" + gvr.Version
	}
	if ref.Namespace != "" {
		path += "/namespaces/" + ref.Namespace
	}
	return path + "/" + gvr.Resource + "/" + ref.Name
}
