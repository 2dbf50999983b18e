package watch

import (
	"context"
	"net/http"
	"slices"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/resource/table"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// Open returns the stream for a request for a list that stays open: a watch, where that was authorized, or a live page. It
// is nil where one page is requested. name restricts a watch to the object of that name, empty for all. The caller must
// close the stream, which its stream.Answer does. Objects are Tables, and items of a live page rows, for a client whose Accept
// header prefers them.
func (s *Streams) Open(ctx context.Context, h http.Header, k *store.Kind, scope plan.Scope, q *query.Query, watch bool,
	name string) (stream.Source, error) {
	events := stream.WantsEvents(h)
	if !watch {
		live, err := s.IsLive(q)
		switch {
		case err != nil:
			return nil, err
		case !live && events:
			return nil, status.Errorf(http.StatusNotAcceptable, "a list is JSON: events come with watch=true, or with view=live")
		case !live:
			return nil, nil
		}
	}
	form, err := table.FormFor(h, q)
	if err != nil {
		return nil, err
	}
	if watch {
		after := ""
		if events {
			after = h.Get("Last-Event-ID")
		}
		x, err := s.watch(ctx, k, scope, named(q, name), after, events)
		if err != nil {
			return nil, err
		}
		if form != nil {
			x.printer = s.tables.For(ctx, k, scope, form)
		}
		return x, nil
	}
	var printer *table.Printer
	if form != nil {
		printer = s.tables.For(ctx, k, scope, form)
	}
	x, err := s.live(ctx, k, scope, q, printer)
	if err != nil {
		return nil, err
	}
	return x, nil
}

// named restricts a query to one name.
func named(q *query.Query, name string) *query.Query {
	if name == "" {
		return q
	}
	one := *q
	one.Fields = append(slices.Clip(q.Fields), query.FieldRequirement{Path: query.Path{"metadata", "name"}, Op: query.Is, Value: name})
	return &one
}

// Streams opens watches and live pages.
type Streams struct {
	planner   *plan.Planner
	responses *httpcache.Responses
	tables    *table.Printers
	list      func(context.Context, *store.Kind, plan.Scope, *query.Query) (*page.Page, error)
}

// NewStreams returns streams whose live pages show what list returns.
func NewStreams(p *plan.Planner, r *httpcache.Responses, t *table.Printers,
	list func(context.Context, *store.Kind, plan.Scope, *query.Query) (*page.Page, error),
) *Streams {
	return &Streams{planner: p, responses: r, tables: t, list: list}
}

// IsLive reports whether a query asks for a live page.
func (*Streams) IsLive(q *query.Query) (bool, error) {
	v, _ := q.Param("view")
	if v != "" && v != ViewLive && v != query.ViewKeys {
		return false, query.Invalid("view", v, ViewLive+" or "+query.ViewKeys)
	}
	return v == ViewLive, nil
}
