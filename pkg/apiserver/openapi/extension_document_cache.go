package openapi

import (
	"context"
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/extension"
)

const (
	// extensionFreshFor is how long the documents of backends are served before they are asked for again, and extensionTimeout bounds one
	// request. A backend that is away keeps its document for extensionStaleFor.
	extensionFreshFor, extensionTimeout, extensionStaleFor = 30 * time.Second, 5 * time.Second, 10 * time.Minute
	// extensionFirstWait is how long a reader waits for backends that were never asked.
	extensionFirstWait = time.Second
	// extensionsAtOnce bounds the backends that are asked at once.
	extensionsAtOnce = 8
	// maxExtensions bounds what the documents of all backends take, in bytes as they came.
	maxExtensions = 64 << 20
)

// MaxExtension bounds the document of one backend, in bytes.
const MaxExtension = 4 << 20

// Extension is a group and version whose routes are at the backend of an extension.
type Extension struct {
	schema.GroupVersion
	// Root is what its paths begin with in the backend's document, in place of /kapis.
	Root string
	// Backend identifies where the routes are: with another one, nothing that was known counts.
	Backend any
	// Get returns the backend's document of version 2 (/openapi/v2) as JSON and its entity tag, or no document where it has etag still.
	Get func(ctx context.Context, etag string) (document []byte, newTag string, err error)
}

// extensions has the documents of backends. They are read in the background while somebody reads documents here, so that nobody waits for
// a backend that is away.
type extensions struct {
	list func() []Extension
	own  func() (*documents, error)
	now  func() time.Time

	mu         sync.Mutex
	known      map[schema.GroupVersion]*extensionDocument
	joined     *documents // own, and those of known; nil until somebody asks
	refreshing chan struct{}
	checked    time.Time
}

// extensionDocument is what is known of one group and version. It does not change.
type extensionDocument struct {
	backend any
	etag    string
	digest  [sha256.Size]byte
	size    int
	// part describes the routes, nil where the backend describes none.
	part *documents
	// seen is when the backend last said that it is so.
	seen time.Time
}

func newExtensions(list func() []Extension, own func() (*documents, error), now func() time.Time) *extensions {
	if list == nil {
		list = func() []Extension { return nil }
	}
	return &extensions{list: list, own: own, now: now, known: map[schema.GroupVersion]*extensionDocument{}}
}

// current returns the documents of this server and of the backends, the same pointer while nothing changes.
func (e *extensions) current(ctx context.Context) (*documents, error) {
	own, err := e.own()
	if err != nil {
		return nil, err
	}
	done, first := e.refresh(own)
	if done != nil && first {
		wait := time.NewTimer(extensionFirstWait)
		defer wait.Stop()
		select {
		case <-done:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.joined == nil {
		e.joined = own
	}
	return e.joined, nil
}

// routes returns the routes that backends describe, and what is another one once they are others.
func (e *extensions) routes(ctx context.Context) (all map[schema.GroupVersion][]extension.Route, of any) {
	if len(e.list()) == 0 {
		return nil, nil
	}
	if _, err := e.current(ctx); err != nil {
		return nil, nil // the log says why
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	all = map[schema.GroupVersion][]extension.Route{}
	for gv, d := range e.known {
		if d.part != nil {
			all[gv] = d.part.routes
		}
	}
	return all, e.joined
}

// refresh begins to ask the backends, where it is time to, and forgets at once what those said that are gone. It returns what is closed
// when they have answered, and whether one of them was never asked before.
func (e *extensions) refresh(own *documents) (done chan struct{}, first bool) {
	all := e.list()
	e.mu.Lock()
	defer e.mu.Unlock()
	left := map[schema.GroupVersion]*extensionDocument{}
	for _, x := range all {
		if d := e.known[x.GroupVersion]; d != nil {
			left[x.GroupVersion] = d
		} else {
			first = true
		}
	}
	if len(left) < len(e.known) {
		e.known, e.joined = left, join(own, left)
	}
	if e.refreshing == nil && (first || e.now().Sub(e.checked) >= extensionFreshFor) && len(all) > 0 {
		e.checked, e.refreshing = e.now(), make(chan struct{})
		go e.read(own, all, left, e.refreshing)
	}
	return e.refreshing, first
}

// read asks the backends, and takes over what they say.
func (e *extensions) read(own *documents, all []Extension, known map[schema.GroupVersion]*extensionDocument, done chan struct{}) {
	found := make([]*extensionDocument, len(all))
	var asking errgroup.Group
	asking.SetLimit(extensionsAtOnce)
	var describing sync.Mutex // one at a time: it takes many times the size of the document
	for i, x := range all {
		asking.Go(func() error {
			found[i] = e.ask(x, known[x.GroupVersion], &describing)
			return nil
		})
	}
	_ = asking.Wait() // no function returns an error
	next, size := map[schema.GroupVersion]*extensionDocument{}, 0
	for i, x := range all {
		d := found[i]
		if size += d.size; size > maxExtensions {
			klog.InfoS("an extension is left out of the OpenAPI documents: those of all extensions are too large", "groupVersion", x.String())
			d = &extensionDocument{backend: d.backend, seen: d.seen}
		}
		next[x.GroupVersion] = d
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !maps.EqualFunc(next, e.known, func(a, b *extensionDocument) bool { return a.part == b.part }) {
		e.joined = join(own, next)
	}
	e.known, e.refreshing = next, nil
	close(done)
}

// ask returns what a backend says of its routes: what it said before, if it does not answer.
func (e *extensions) ask(x Extension, before *extensionDocument, describing *sync.Mutex) *extensionDocument {
	if before == nil || before.backend != x.Backend {
		before = &extensionDocument{backend: x.Backend, seen: e.now()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), extensionTimeout)
	defer cancel()
	body, etag, err := x.Get(ctx, before.etag)
	next := *before
	switch {
	case err != nil:
		klog.V(2).InfoS("the backend of an extension has no OpenAPI document", "groupVersion", x.String(), "reason", err)
		if e.now().Sub(before.seen) >= extensionStaleFor {
			next = extensionDocument{backend: x.Backend, seen: before.seen}
		}
		return &next
	case body == nil:
		next.seen = e.now()
		return &next
	}
	next.etag, next.seen = etag, e.now()
	if digest := sha256.Sum256(body); digest != before.digest {
		describing.Lock()
		defer describing.Unlock()
		next.digest, next.size = digest, len(body)
		if next.part, err = describe(x.GroupVersion, x.Root, body); err != nil {
			klog.InfoS("an extension is left out of the OpenAPI documents", "groupVersion", x.String(), "reason", err)
			next.size = 0
		}
	}
	return &next
}
