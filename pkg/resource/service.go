package resource

import (
	"context"
	"net/http"
	"runtime"

	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/redaction"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/kind"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/resource/table"
	"kapis.dev/ks-apiserver/pkg/resource/watch"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The defaults of Options.
const (
	DefaultMaxItems    = 50_000
	DefaultMaxBytes    = 128 << 20
	DefaultMaxInFlight = 256 << 20
)

// Options are the bounds of a Service. Zero stands for the default.
type Options struct {
	// MaxItems is how many objects an answer has at most (DefaultMaxItems), MaxBytes how many bytes (DefaultMaxBytes); a
	// longer one is refused with 413 and the advice to page.
	MaxItems int
	MaxBytes int64
	// MaxInFlight is how many bytes all answers that are being written have together (DefaultMaxInFlight); a further one is
	// refused with 429. One owner of requests has at most half of them, or one answer of MaxBytes. Answers below 64 KiB are
	// always accepted, and those above 4 MiB leave a quarter to the others.
	MaxInFlight int64
	// ServedOnly restricts the routes that serve any kind: of custom resources, they serve only those whose definition has
	// the label (false).
	ServedOnly bool
}

func (o Options) withDefaults() Options {
	if o.MaxItems <= 0 {
		o.MaxItems = DefaultMaxItems
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	o.MaxBytes = min(o.MaxBytes, o.MaxInFlight-o.MaxInFlight/4) // or it would always be refused
	return o
}

// Service answers queries. It checks no rights: its callers have authorized the request.
type Service struct {
	// Streams opens watches and live pages of the same objects.
	Streams *watch.Streams
	// Tables has the columns of kinds, for clients that ask for Tables.
	Tables *table.Printers

	store   *store.Store
	planner *plan.Planner
	options Options
	results *lru.Cache[*result]
	pages   *page.Cache
	// searches bounds those that run at once, of one owner to half: more would take no less time, but more memory.
	searches *inflight.Limit[string]
}

// New returns a service on s, which must have been made with Schemas.
func New(s *store.Store, o Options) *Service {
	o = o.withDefaults()
	processors := runtime.GOMAXPROCS(0)
	out := &Service{
		store: s, options: o, planner: plan.New(s, kind.All()), results: lru.New[*result](resultBounds),
		pages: page.NewCache(o.MaxInFlight, o.MaxBytes), searches: inflight.NewByUser(2*processors, processors),
	}
	out.Tables = table.NewPrinters(s, out.planner)
	out.Streams = watch.NewStreams(out.planner, out.pages.Responses(), out.Tables, out.List)
	return out
}

// Catalog returns the catalog of kinds.
func (s *Service) Catalog() *store.Catalog { return s.store.Catalog() }

// Listing is an authorized request for any number of objects of a kind: a page, a live page, or a watch.
type Listing struct {
	Kind  *store.Kind
	Scope plan.Scope
	Query *query.Query
	// Watch is whether a watch was authorized, and Name the object that it is restricted to, empty for all.
	Watch bool
	Name  string
	// Streams limits watches and live pages.
	Streams *stream.Guard
	// AsCaller reads for managedFields=true; nil answers without these fields.
	AsCaller Reader
	// BeforePage may change Scope and Query of what turned out to be a page, and no stream, which is checked again and again; nil
	// changes nothing.
	BeforePage func(*Listing) error
	// Next returns the continue of a page, empty on the last one; nil says none.
	Next func(*page.Page) string
	// Whole is whether the Scope restricts the list to what was asked for, so that its answer is no partial list.
	Whole bool
	Form  Form
}

// Form returns the answer to clients that ask for no Table. next is the page's continue, empty on the last one.
type Form func(p *page.Page, next string) *page.Answer

// Items is the Form {"items":[...],"totalItems":N}.
func Items(p *page.Page, _ string) *page.Answer { return p.Items() }

// Answer returns the answer to r, which asks for l. Its error is a Status.
func (s *Service) Answer(r *http.Request, l *Listing) (any, error) {
	ctx := r.Context()
	form, err := table.FormFor(r.Header, l.Query)
	if err != nil {
		return nil, err
	}
	if l.mayStream(r.Header) {
		src, err := s.Streams.Open(ctx, r.Header, l.Kind, l.Scope, l.Query, l.Watch, l.Name)
		if err != nil {
			return nil, err
		}
		if src != nil {
			return l.Streams.Answer(src), nil
		}
	}
	if l.BeforePage != nil {
		if err := l.BeforePage(l); err != nil {
			return nil, err
		}
	}
	p, err := s.List(ctx, l.Kind, l.Scope, l.Query)
	if err == nil && l.Query.Keys {
		return s.rows(ctx, l, p)
	}
	if err == nil && l.Query.ManagedFields && l.AsCaller != nil {
		p, err = s.Complete(ctx, p, l.Scope, l.AsCaller)
	}
	if err != nil {
		return nil, err
	}
	p.Partial = p.Partial && !l.Whole
	next := ""
	if l.Next != nil {
		next = l.Next(p)
	}
	if form != nil {
		return s.Tables.For(ctx, l.Kind, l.Scope, form).Page(p, next), nil
	}
	return l.Form(p, next), nil
}

// mayStream reports whether anything in the request is about a list that stays open: a watch, a view, or a client that takes events.
func (l *Listing) mayStream(h http.Header) bool {
	_, view := l.Query.Param("view")
	return l.Watch || view || web.Quality(h, stream.EventStream) > 0
}

// rows returns the answer to a query for keys, with as many of the objects as it asks for. These may be newer than the keys: a caller that
// merges pages knows objects by their UIDs, and versions by the objects.
func (s *Service) rows(ctx context.Context, l *Listing, p *page.Page) (any, error) {
	if l.Query.Objects == 0 {
		return p.Rows(nil), nil
	}
	q := *l.Query
	q.Keys, q.Limit, q.Facets = false, q.Objects, nil
	objects, err := s.List(ctx, l.Kind, l.Scope, &q)
	if err == nil && q.ManagedFields && l.AsCaller != nil {
		objects, err = s.Complete(ctx, objects, l.Scope, l.AsCaller)
	}
	if err != nil {
		return nil, err
	}
	return p.Rows(objects), nil
}

// List answers a query for objects of a kind in a scope, from one snapshot of the cache.
func (s *Service) List(ctx context.Context, k *store.Kind, scope plan.Scope, q *query.Query) (*page.Page, error) {
	if err := plan.CheckScope(k, scope); err != nil {
		return nil, err
	}
	for {
		b, err := s.planner.Plan(ctx, k, scope, q)
		if err != nil {
			return nil, err
		}
		snap, err := s.snapshotFor(b)
		if err != nil {
			return nil, err
		}
		p, err := s.cachedOrNew(snap, b)
		if err != nil {
			return nil, err
		}
		if !b.Stale() {
			if !b.Own.Completed() || q.Keys || q.Reduced {
				return p, nil
			}
			return s.complete(ctx, b.Own, scope, p), nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// snapshotFor returns the newest snapshot, which has reached the version that b asks for.
func (s *Service) snapshotFor(b *plan.Builder) (*index.Snapshot, error) {
	return s.planner.Snapshot(b.Ctx, b.Kind, b.Scope, b.Query.Version)
}

// page returns the page of b, and the snapshot that it is of: snap, or a later one.
func (s *Service) page(snap *index.Snapshot, b *plan.Builder) (*page.Page, *index.Snapshot, error) {
	m, facets, snap, err := s.execute(snap, b)
	if err != nil {
		return nil, nil, err
	}
	total := m.Len()
	start, n := b.Query.Window(total)
	if at := b.Query.Cursor; at != nil {
		start, n = b.Query.WindowFrom(b.Order.Find(&m, snap, at, !b.Query.Ascending), total)
	}
	if n > s.options.MaxItems {
		return nil, nil, tooMany(b.Kind, n, s.options.MaxItems)
	}
	p := &page.Page{
		Total: total, Generation: snap.Generation(), ResourceVersion: snap.ResourceVersion(), Partial: b.Scope.PartialList != nil,
		Cache: s.pages, Kind: b.Kind, Facets: facets, Projection: b.Projection,
	}
	p.Start = start
	if n > 0 {
		p.Remaining = total - start - n
		p.Records = make([]*index.Record, 0, n)
		collect := func(ref *index.Ref) { p.Records = append(p.Records, snap.Record(ref)) }
		if every := b.Query.Stride(start, total); every > 1 {
			for i := range n {
				m.Page(start+i*every, 1, !b.Query.Ascending, collect)
			}
		} else {
			m.Page(start, n, !b.Query.Ascending, collect)
		}
	}
	if b.Query.Last && p.Remaining > 0 {
		last := p.Records[n-1]
		p.Last = &query.Cursor{After: true, Namespace: last.Namespace, Name: last.Name}
		if p.Last.Key, err = b.Order.Key(last); err != nil {
			return nil, nil, err
		}
	}
	if b.Query.Reduced {
		p.Reduce()
	}
	if b.Query.Keys {
		p.Keys = make([]string, len(p.Records))
		for i, r := range p.Records {
			if p.Keys[i], err = b.Order.Key(r); err != nil {
				return nil, nil, err
			}
		}
	}
	return p, snap, nil
}

// Get returns one object. In the scope of a workspace, only an object that carries its label is found.
func (s *Service) Get(ctx context.Context, k *store.Kind, scope plan.Scope, name string) (*page.Object, error) {
	if err := plan.CheckScope(k, scope); err != nil {
		return nil, err
	}
	snap, err := s.planner.Snapshot(ctx, k, scope, "")
	if err != nil {
		return nil, err
	}
	gr := k.GVR.GroupResource()
	if k.Namespaced && scope.Namespace == "" {
		return nil, status.BadRequestf("%s are in namespaces: name one in the path", gr)
	}
	r, ok := snap.Get(scope.Namespace, name)
	ok = ok && scope.Only.Has(r)
	if ok && scope.Workspace != "" {
		if ok, err = s.planner.Belongs(ctx, k, r, scope.Workspace); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, apierrors.NewNotFound(gr, name)
	}
	if keys, of := s.derivedAnnotation(ctx, s.planner.KindOf(k.GVR), scope); keys != nil { // without a version, its tag is made of its text
		r = &index.Record{Ref: r.Ref, JSON: page.Annotate(r.JSON, keys, of(r)), UID: r.UID}
	}
	return s.pages.Object(r), nil
}

func tooMany(k *store.Kind, n, most int) error {
	gr := k.GVR.GroupResource()
	return status.About(gr, "", status.Errorf(http.StatusRequestEntityTooLarge,
		"%d %s are more than the %d that one answer may have: ask for pages with limit and page", n, gr, most))
}

// Schemas returns the store's schemas of the kinds with fields of their own.
func Schemas() map[schema.GroupResource]index.Schema {
	out := map[schema.GroupResource]index.Schema{}
	for gr, k := range kind.All() {
		out[gr] = k.StoreSchema()
	}
	return out
}

// UnknownParameter returns a parameter of a query that has no meaning for the kind, empty where all have. Lists ignore such.
func (s *Service) UnknownParameter(k *store.Kind, q *query.Query) string {
	return q.Unknown(s.planner.FilterParams(k))
}

// HasData reports whether objects of a kind are whole in the scope of a namespace only, and there for callers who may read
// the kind itself: for such a kind the caller must set Scope.Data.
func (s *Service) HasData(k *store.Kind) bool { return s.planner.HasData(k) }

// cachedOrNew returns the page of b on snap or on a later snapshot.
func (s *Service) cachedOrNew(snap *index.Snapshot, b *plan.Builder) (*page.Page, error) {
	var room [512]byte
	slot := s.pages.Slot(b.PageKey(room[:0]))
	p, last := slot.At(snap)
	if p != nil {
		return p, nil
	}
	p, snap, err := s.page(snap, b)
	if err != nil {
		return nil, err
	}
	s.pages.Remember(slot, last, p, snap)
	return p, nil
}

// Complete returns a page with its objects as kube-apiserver has them: with what the cache leaves out, such as
// managedFields, for a caller who may get each of them. Fields that no answer shows are left out here, too. An object that
// has been deleted stays as it was; any other failure is the error, and so is a page that no answer may have.
func (s *Service) Complete(ctx context.Context, p *page.Page, scope plan.Scope, from Reader) (*page.Page, error) {
	return p.Complete(ctx, s.planner.Cuts(p.Kind, scope), from)
}

// Reader reads an object from kube-apiserver, as the caller whom ctx names.
type Reader interface {
	Get(ctx context.Context, path string) (redaction.Raw, error)
}
