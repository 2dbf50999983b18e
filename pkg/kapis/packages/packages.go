// Package packages serves package.kubesphere.io: the files of the charts of extensions. ("package" is a word of Go.)
package packages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/recent"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// cacheSize bounds the answers in memory, in bytes.
	cacheSize = 64 << 20
	// readers is how many charts are read at once: one takes up to 80 MiB for a moment.
	readers = 2
	// timeout bounds the read of a chart, and pause is how long one that failed is not tried again.
	timeout, pause = time.Minute, 10 * time.Second
	// failures is how many of these are remembered.
	failures = 256
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
	caches  Caches
	charts  Charts
	now     func() time.Time
	reading chan struct{}
	flights singleflight.Group

	mu sync.Mutex
	// answers are by the digest of the chart, which was verified: whoever names a digest gets the chart that has it.
	answers *recent.Map[string, answer]
	failed  *recent.Map[attempt, failure]
}

type answer struct {
	document *web.Document
	size     int
}

// attempt is a read of one version of an object; a changed object is tried at once.
type attempt struct{ name, version string }

type failure struct {
	err   error
	until time.Time
}

// New returns the handler.
func New(caches Caches, charts Charts, now func() time.Time) *V1alpha1 {
	return &V1alpha1{caches: caches, charts: charts, now: now, reading: make(chan struct{}, readers),
		answers: recent.NewWeightedMap[string](cacheSize, func(a answer) int { return a.size }),
		failed:  recent.NewMap[attempt, failure](failures)}
}

// WebService returns the routes.
func (h *V1alpha1) WebService() *restful.WebService {
	ws := new(restful.WebService).Path("/kapis/package.kubesphere.io/v1alpha1").Produces(restful.MIME_JSON)
	ws.Route(ws.GET("/extensionversions/{extensionversion}/files").To(web.Handle(h.files)).Operation("listExtensionVersionFiles").
		Param(ws.PathParameter("extensionversion", "name of the ExtensionVersion")).
		Doc("The files of the chart of a version of an extension, as an array").Writes([]File{}))
	return ws
}

func (h *V1alpha1) files(r *restful.Request) (any, error) {
	ctx, name := r.Request.Context(), r.PathParameter("extensionversion")
	v, err := h.version(ctx, name)
	if err != nil {
		return nil, err
	}
	key := attempt{name, v.ResourceVersion}
	h.mu.Lock()
	known, ok := h.answers.Use(v.Spec.Digest)
	before, failing := h.failed.Get(key)
	h.mu.Unlock()
	switch {
	case ok && v.Spec.Digest != "":
		return known.document, nil
	case failing && h.now().Before(before.until):
		return nil, before.err
	}
	// Both are names that kube-apiserver gave, without a slash. A client that leaves does not end what others wait for.
	flight := h.flights.DoChan(name+"/"+v.ResourceVersion, func() (any, error) {
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return h.read(reading, v, key)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case done := <-flight:
		return done.Val, done.Err
	}
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

// read reads a chart, and remembers its files, or why it can't be read.
func (h *V1alpha1) read(ctx context.Context, v *v1alpha1.ExtensionVersion, key attempt) (*web.Document, error) {
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
	case <-ctx.Done():
		return nil, status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable, "too many charts are read at this moment"))
	}
	raw, err := h.charts.Load(ctx, v)
	if err != nil {
		return nil, h.refuse(v, key, err)
	}
	archive, err := chart.Read(raw)
	if err != nil {
		return nil, h.refuse(v, key, &source.Failure{Reason: source.ReasonInvalid, Message: err.Error()})
	}
	files, size := make([]File, len(archive.Files)), 0
	for i, f := range archive.Files {
		files[i] = File(f)
		size += len(f.Name) + len(f.Data)*4/3 + 32 // as JSON has them
	}
	document, err := web.NewDocument(restful.MIME_JSON, files)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers.Set(chart.Digest(raw), answer{document, size})
	return document, nil
}

// refuse returns what a client gets where a chart can't be read.
func (h *V1alpha1) refuse(v *v1alpha1.ExtensionVersion, key attempt, err error) error {
	var failed *source.Failure
	if !errors.As(err, &failed) {
		return fmt.Errorf("read the chart of %s: %w", v.Name, err)
	}
	klog.V(2).InfoS("the files of a chart can't be read", "version", v.Name, "error", failed, "cause", failed.Cause)
	out := status.Errorf(http.StatusBadGateway, "the chart of %s can't be read: %s", v.Name, failed.Message)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed.Set(key, failure{out, h.now().Add(pause)})
	return out
}
