package page

import (
	"context"
	"fmt"
	"sync"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// readers is how many objects of a page are read at the same time, and of all pages of one owner; readersOfAll is how many are read
// for all owners. An object may have some MiB, and is in memory several times while it is read.
const readers, readersOfAll = 8, 32

func completed(ctx context.Context, r *index.Record, gvr schema.GroupVersionResource, cuts []rawjson.Cut, from reader) (*index.Record,
	error) {
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

// pathOf returns the path of an object at kube-apiserver.
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

// Complete returns the page with its objects as kube-apiserver has them, without what cuts name. An object that has been
// deleted stays as it was; any other failure is the error. A reduced page stays as it is. Objects count among the bytes of answers as
// soon as they are read.
func (p *Page) Complete(ctx context.Context, cuts []rawjson.Cut, from reader) (*Page, error) {
	if p.reduced {
		return p, nil
	}
	out := *p
	out.Body, out.complete, out.Insertions = nil, true, nil
	out.Records = make([]*index.Record, len(p.Records))
	owner, f := httpcache.Owner(ctx), p.Cache.responses.Reserve(ctx)
	defer f.Release()
	var counting sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, r := range p.Records {
		group.Go(func() error {
			leave, err := p.Cache.reads.Wait(ctx, owner)
			if err != nil {
				return err
			}
			defer leave()
			if ctx.Err() != nil { // another read has failed, or has made the page too long
				return context.Cause(ctx)
			}
			if out.Records[i], err = completed(ctx, r, p.Kind.GVR, cuts, from); err != nil {
				return err
			}
			counting.Lock()
			defer counting.Unlock()
			return f.Add(int64(out.Records[i].JSON.Len()))
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out.digest, out.Bytes = httpcache.DigestOf(out.Records)
	if p.Insertions != nil {
		return p.insert(&out), nil
	}
	return &out, nil
}

// reader reads an object at kube-apiserver, as the caller whom ctx names.
type reader interface {
	Get(ctx context.Context, path string) (redaction.Raw, error)
}
