package resource

import (
	"context"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/resource/table"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
)

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
	src, err := s.Streams.Open(ctx, r.Header, l.Kind, l.Scope, l.Query, l.Watch, l.Name)
	if err != nil {
		return nil, err
	}
	if src != nil {
		return l.Streams.Answer(src), nil
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
