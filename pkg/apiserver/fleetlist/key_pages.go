package fleetlist

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/recent"
)

const (
	// pagesBytes bounds all key pages that are kept, onePage one of them, and pageAge how long it is used: the resource version that it has
	// is as old.
	pagesBytes, onePage = 32 << 20, 256 << 10
	pageAge             = time.Minute
	// maxTag bounds the entity tag of a cluster.
	maxTag = 128
)

// keyPages are pages of keys that clusters have answered. A cluster is asked each time whether its page is still what this caller would
// get, and decides that by the caller's rights there; if it is, the page does not travel again.
type keyPages struct {
	now       func() time.Time
	unchanged func(cluster string)

	mu    sync.Mutex
	pages *recent.Map[pageKey, *keyPage]
}

// pageKey is which page of which list of which cluster, for whom.
type pageKey struct{ userUID, user, cluster, clusterUID, path, parameters string }

type keyPage struct {
	tag, contentType string
	text             []byte
	at               time.Time
	weight           int
}

func newKeyPages(now func() time.Time, unchanged func(string)) *keyPages {
	return &keyPages{now: now, unchanged: unchanged,
		pages: recent.NewWeightedMap[pageKey](pagesBytes, func(p *keyPage) int { return p.weight })}
}

// askFunc is what a merge.Source asks by.
type askFunc = func(context.Context, url.Values, http.Header) (*http.Response, error)

// of returns ask, for a list at a path of a cluster, which sends a page of keys that is still the same by its tag alone.
func (k *keyPages) of(u user.Info, s *merge.Source, path string, ask askFunc) askFunc {
	return func(ctx context.Context, v url.Values, h http.Header) (*http.Response, error) {
		if v.Get("view") != query.ViewKeys || v.Get("limit") == "0" {
			return ask(ctx, v, h)
		}
		key := pageKey{u.GetUID(), u.GetName(), s.Name, s.UID, path, v.Encode()}
		page := k.find(key)
		if page != nil {
			h = h.Clone()
			h.Set("If-None-Match", page.tag)
		}
		resp, err := ask(ctx, v, h)
		switch {
		case err != nil:
			return nil, err
		case page != nil && resp.StatusCode == http.StatusNotModified:
			_ = resp.Body.Close()
			k.unchanged(s.Name)
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {page.contentType}},
				Body: io.NopCloser(bytes.NewReader(page.text))}, nil
		}
		if tag := resp.Header.Get("Etag"); resp.StatusCode == http.StatusOK && tag != "" && len(tag) <= maxTag {
			resp.Body = &keptBody{ReadCloser: resp.Body, keep: func(text []byte) {
				k.set(key, &keyPage{tag: tag, contentType: resp.Header.Get("Content-Type"), text: text, at: k.now()})
			}}
		}
		return resp, nil
	}
}

func (k *keyPages) find(key pageKey) *keyPage {
	k.mu.Lock()
	defer k.mu.Unlock()
	page, found := k.pages.Use(key)
	if !found || k.now().Sub(page.at) > pageAge {
		return nil
	}
	return page
}

func (k *keyPages) set(key pageKey, page *keyPage) {
	page.weight = 256 + len(page.text) + len(key.path) + len(key.parameters) + len(page.contentType)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pages.Set(key, page)
}

// keptBody keeps an answer that is read to its end.
type keptBody struct {
	io.ReadCloser
	keep func([]byte)
	text []byte
}

// Read implements io.Reader.
func (b *keptBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.keep == nil {
		return n, err //nolint:wrapcheck // as it failed
	}
	if b.text = append(b.text, p[:n]...); len(b.text) > onePage {
		b.keep, b.text = nil, nil
	} else if errors.Is(err, io.EOF) {
		b.keep(b.text)
		b.keep = nil
	}
	return n, err //nolint:wrapcheck // as it failed
}
