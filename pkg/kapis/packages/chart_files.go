// Package packages serves package.kubesphere.io: the files of the charts of extensions. ("package" is a word of Go.)
package packages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

var versions = v1alpha1.SchemeGroupVersion.WithResource("extensionversions")

// Caches returns the objects of kinds. store.Store is one.
type Caches interface {
	Catalog() *store.Catalog
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error)
}

// Charts reads the chart of an ExtensionVersion. source.Loader is one.
type Charts interface {
	Load(ctx context.Context, v *v1alpha1.ExtensionVersion) ([]byte, error)
}

// File is a file of a chart as clients read it.
type File struct {
	Name string
	Data []byte
}

// V1alpha1 serves package.kubesphere.io/v1alpha1.
type V1alpha1 struct {
	caches Caches
	charts Charts
	// files are by the digest of the chart, which was verified: a caller who names a digest gets the chart that has it.
	files *source.Once[*web.Document]
}

// New returns the handler.
func New(caches Caches, charts Charts, now func() time.Time) *V1alpha1 {
	return &V1alpha1{caches, charts, source.NewOnce[*web.Document](now)}
}

// WebService returns the routes.
func (h *V1alpha1) WebService() *restful.WebService {
	ws := new(restful.WebService).Path("/kapis/package.kubesphere.io/v1alpha1").Produces(restful.MIME_JSON)
	ws.Route(ws.GET("/extensionversions/{extensionversion}/files").To(web.Handle(h.list)).Operation("listExtensionVersionFiles").
		Param(ws.PathParameter("extensionversion", "name of the ExtensionVersion")).
		Doc("The files of the chart of a version of an extension, as an array").Writes([]File{}))
	return ws
}

func (h *V1alpha1) list(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	v, err := h.version(ctx, r.PathParameter("extensionversion"))
	if err != nil {
		return nil, err
	}
	document, err := h.files.Get(ctx, source.Content{Digest: v.Spec.Digest}, source.Attempt{Name: v.Name, ResourceVersion: v.ResourceVersion},
		func(ctx context.Context) (source.Made[*web.Document], error) { return h.read(ctx, v) })
	if err != nil {
		return nil, refuse(ctx, v, err)
	}
	return document, nil
}

// version returns an ExtensionVersion from the caches.
func (h *V1alpha1) version(ctx context.Context, name string) (*v1alpha1.ExtensionVersion, error) {
	kind, err := h.caches.Catalog().Resolve(ctx, versions)
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(versions.GroupResource(), name)
	}
	if err != nil {
		return nil, err
	}
	all, err := h.caches.Snapshot(ctx, kind.GVR)
	if err != nil {
		return nil, err
	}
	record, ok := all.Get("", name)
	if !ok {
		return nil, apierrors.NewNotFound(versions.GroupResource(), name)
	}
	v := &v1alpha1.ExtensionVersion{}
	if err := json.Unmarshal([]byte(record.JSON.String()), v); err != nil {
		return nil, fmt.Errorf("read the cached ExtensionVersion %s: %w", name, err)
	}
	return v, nil
}

// read reads a chart, and makes a document of its files.
func (h *V1alpha1) read(ctx context.Context, v *v1alpha1.ExtensionVersion) (source.Made[*web.Document], error) {
	var none source.Made[*web.Document]
	raw, err := h.charts.Load(ctx, v)
	if err != nil {
		return none, err
	}
	archive, err := chart.Read(raw)
	if err != nil {
		return none, &source.Failure{Reason: source.ReasonInvalid, Message: err.Error()}
	}
	files, size := make([]File, len(archive.Files)), 0
	for i, f := range archive.Files {
		files[i] = File(f)
		size += len(f.Name) + len(f.Data)*4/3 + 32 // as JSON has them
	}
	document, err := web.NewDocument(restful.MIME_JSON, files)
	if err != nil {
		return none, err
	}
	return source.Made[*web.Document]{Value: document, Of: source.Content{Digest: chart.Digest(raw)}, Size: size}, nil
}

// refuse returns the error for a chart that can't be read.
func refuse(ctx context.Context, v *v1alpha1.ExtensionVersion, err error) error {
	var failed *source.Failure
	switch {
	case errors.Is(err, source.ErrBusy):
		return status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable, "%v", err))
	case errors.As(err, &failed):
		klog.V(2).InfoS("the files of a chart can't be read", "version", v.Name, "error", failed, "cause", failed.Cause)
		return status.Errorf(http.StatusBadGateway, "the chart of %s can't be read: %s", v.Name, failed.Message)
	case ctx.Err() != nil:
		return err
	}
	return fmt.Errorf("read the chart of %s: %w", v.Name, err)
}
