package openapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"kapis.dev/ks-apiserver/pkg/web"
)

// maxCached bounds the cached v3 documents of kube-apiserver, in bytes.
const maxCached = 24 << 20

// v3 serves the index and the documents that it lists. A document is requested by its path and the hash in the index, with which clients
// may cache it as long as they like.
type v3 struct {
	up    *upstream
	added func(context.Context) (*documents, error)
	now   func() time.Time
	index *fresh[*index]

	once  singleflight.Group
	mu    sync.Mutex
	docs  map[docKey]*document
	bytes int
}

// docKey names a document that never changes.
type docKey struct {
	path, hash string
	format     format
}

// index is the list of documents: their paths and hashes.
type index struct {
	document
	hashes map[string]string
}

// indexJSON is the index on the wire.
type indexJSON struct {
	Paths map[string]indexEntry `json:"paths"`
}

type indexEntry struct {
	ServerRelativeURL string `json:"serverRelativeURL"`
}

func newV3(up *upstream, added func(context.Context) (*documents, error), o Options) *v3 {
	v := &v3{up: up, added: added, now: o.Now, docs: map[docKey]*document{}}
	v.index = &fresh[*index]{load: v.loadIndex, now: o.Now, keep: o.FreshFor}
	return v
}

func (v *v3) loadIndex(ctx context.Context, before *index) (*index, error) {
	added, err := v.added(ctx)
	if err != nil {
		return nil, err
	}
	etag := ""
	if before != nil && before.added == added {
		etag = before.upstream
	}
	d, err := v.up.get(ctx, "/openapi/v3", "", "application/json", etag)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return before, nil
	}
	var list indexJSON
	if err := json.Unmarshal(d.body, &list); err != nil {
		return nil, fmt.Errorf("read the index of kube-apiserver's OpenAPI documents: %w", err)
	}
	if list.Paths == nil {
		list.Paths = map[string]indexEntry{}
	}
	x := &index{document: *d, hashes: make(map[string]string, len(list.Paths)+len(added.v3))}
	for path, e := range list.Paths {
		if u, err := url.Parse(e.ServerRelativeURL); err == nil {
			x.hashes[path] = u.Query().Get("hash")
		}
	}
	for path, doc := range added.v3 {
		list.Paths[path] = indexEntry{location(path, doc.hash)}
		x.hashes[path] = doc.hash
	}
	if x.body, err = json.Marshal(list); err != nil {
		return nil, fmt.Errorf("write the index of the OpenAPI documents: %w", err)
	}
	sum := sha256.Sum256(x.body)
	x.etag = `"` + strings.ToUpper(hex.EncodeToString(sum[:])) + `"`
	x.contentType, x.added = "application/json", added
	x.modified = v.now()
	return x, nil
}

func location(path, hash string) string {
	u := url.URL{Path: "/openapi/v3/" + path, RawQuery: url.Values{"hash": {hash}}.Encode()}
	return u.String()
}

func (v *v3) serveIndex(w http.ResponseWriter, r *http.Request) {
	x, err := v.index.current(r.Context())
	if err != nil {
		web.WriteError(w, r, unavailable(err))
		return
	}
	serveDocument(w, r, &x.document)
}

// serve answers with the document at path. A hash that is not the current one redirects to the current one, as at kube-apiserver; the
// current one may be cached forever.
func (v *v3) serve(w http.ResponseWriter, r *http.Request, path string) {
	f, ok := accepted(r, "v3")
	if !ok {
		web.WriteError(w, r, errNotAcceptable)
		return
	}
	x, err := v.index.current(r.Context())
	if err != nil {
		web.WriteError(w, r, unavailable(err))
		return
	}
	current, ok := x.hashes[path]
	if !ok {
		web.WriteError(w, r, notFound(path))
		return
	}
	d, err := v.document(r.Context(), x.added, docKey{path, current, f})
	var moved *statusError
	if errors.As(err, &moved) && moved.code == http.StatusMovedPermanently {
		// It changed since the index was read.
		v.index.stale()
		if x, err = v.index.current(r.Context()); err == nil {
			current = x.hashes[path]
			d, err = v.document(r.Context(), x.added, docKey{path, current, f})
		}
	}
	if err != nil {
		web.WriteError(w, r, unavailable(err))
		return
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		h := w.Header()
		if hash != current {
			h.Set("Vary", "Accept")
			http.Redirect(w, r, location(path, current), http.StatusMovedPermanently)
			return
		}
		h.Set("Cache-Control", "public, immutable")
		h.Set("Expires", v.now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	serveDocument(w, r, d)
}

// text returns k as a text that no other key has: quoted, so that no hash runs into a path.
func (k docKey) text() string { return fmt.Sprintf("%d %q %q", k.format, k.hash, k.path) }

// document returns the document of k: one that is added to those of kube-apiserver, a cached one, or kube-apiserver's.
func (v *v3) document(ctx context.Context, added *documents, k docKey) (*document, error) {
	if own, ok := added.v3[k.path]; ok {
		return own.in(k.format), nil
	}
	v.mu.Lock()
	d := v.docs[k]
	v.mu.Unlock()
	if d != nil {
		return d, nil
	}
	done := v.once.DoChan(k.text(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
		defer cancel()
		d, err := v.up.get(ctx, "/openapi/v3/"+k.path, k.hash, k.format.mediaType("v3"), "")
		if err != nil {
			return nil, err
		}
		d.etag = d.upstream
		v.keep(k, d)
		return d, nil
	})
	select {
	case res := <-done:
		d, _ := res.Val.(*document)
		return d, res.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// keep caches d. When the bound is reached, the whole cache is emptied: that is rare, costs one request per document, and needs no
// bookkeeping otherwise.
func (v *v3) keep(k docKey, d *document) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(d.body) > maxCached {
		return
	}
	if v.bytes+len(d.body) > maxCached {
		clear(v.docs)
		v.bytes = 0
	}
	if _, ok := v.docs[k]; !ok {
		v.docs[k] = d
		v.bytes += len(d.body)
	}
}
