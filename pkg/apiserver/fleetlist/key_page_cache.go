package fleetlist

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
	"kapis.dev/ks-apiserver/pkg/cluster/revalidate"
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

// keyPages are pages of keys, with some of their objects, that clusters have answered. A cluster is asked each time whether its page is
// still what this caller would get, and decides that by the caller's rights there; if it is, the page does not travel again.
type keyPages struct {
	now       func() time.Time
	unchanged func(cluster string)

	mu    sync.Mutex
	pages *recent.Map[pageKey, *keyPage]
}

// pageKey is which page of which list of which cluster, for whom.
type pageKey struct{ userUID, user, cluster, clusterUID, path, parameters string }

type keyPage struct {
	tag, contentType, text string
	at                     time.Time
	weight                 int
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
			return k.answer(page), nil
		}
		if tag := resp.Header.Get("Etag"); resp.StatusCode == http.StatusOK && tag != "" && len(tag) <= maxTag {
			whole := *resp
			resp.Body = keptBody{ReadCloser: resp.Body, whole: &whole, keep: func(text string) {
				k.set(key, &keyPage{tag: tag, contentType: resp.Header.Get("Content-Type"), text: text, at: k.now()})
			}}
		}
		return resp, nil
	}
}

// answer returns a page as the cluster has answered it.
func (k *keyPages) answer(page *keyPage) *http.Response {
	age := strconv.Itoa(int(k.now().Sub(page.at) / time.Second))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {page.contentType}, "Etag": {page.tag}, "Age": {age}},
		Body: pageBody{strings.NewReader(page.text), page.text}, ContentLength: int64(len(page.text))}
}

// confirmed returns ask for a cluster that has just said that it would answer questions as it did: of these, pages that are kept are not
// asked for.
func (k *keyPages) confirmed(u user.Info, s *merge.Source, path string, questions []revalidate.Question, ask askFunc) askFunc {
	return func(ctx context.Context, v url.Values, h http.Header) (*http.Response, error) {
		text := v.Encode()
		i := slices.IndexFunc(questions, func(q revalidate.Question) bool { return q.Query == text && q.Tag != "" })
		if i < 0 {
			return ask(ctx, v, h)
		}
		page := k.find(pageKey{u.GetUID(), u.GetName(), s.Name, s.UID, path, text})
		if page == nil || page.tag != questions[i].Tag {
			return ask(ctx, v, h)
		}
		k.unchanged(s.Name)
		return k.answer(page), nil
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

// keptBody keeps the text of an answer that is had as a whole.
type keptBody struct {
	io.ReadCloser
	whole *http.Response
	keep  func(string)
}

// Text implements merge.TextBody.
func (b keptBody) Text(most int64, grow merge.Grow) (string, error) {
	text, err := merge.Text(b.whole, most, grow)
	if err == nil && int64(len(text)) <= min(most, onePage) {
		b.keep(text)
	}
	return text, err
}

// End implements merge.TextBody.
func (b keptBody) End() error { return merge.End(b.whole) }

// pageBody is the body of a page that is kept.
type pageBody struct {
	*strings.Reader
	text string
}

// Text implements merge.TextBody.
func (b pageBody) Text(_ int64, grow merge.Grow) (string, error) {
	if grow == nil {
		return b.text, nil
	}
	return b.text, grow(len(b.text))
}

// End implements merge.TextBody.
func (pageBody) End() error { return nil }

// Close implements io.Closer.
func (pageBody) Close() error { return nil }
