package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/queryclient"
)

const (
	// shortLive is the limit of a live page without a terminal.
	shortLive = 20
	// aroundLive is how many lines a live view has besides its rows.
	aroundLive = 4
	clearLine  = "\x1b[K"
)

// reopenAfter is how long a live view waits before it opens a page again.
const reopenAfter = time.Second

// height returns how many rows there is space for.
func (g *getter) height() int {
	if g.size == nil {
		return shortLive
	}
	_, lines := g.size()
	return min(max(lines-aroundLive, 1), mostLive)
}

// showLive shows a page that is kept up to date: drawn again on a terminal, and else one page after another.
func (g *getter) showLive(ctx context.Context) error {
	var page livePage
	if g.size == nil {
		return g.stream(ctx, queryclient.Table, func(m json.RawMessage) error {
			first := page.rows == nil
			order := page.order
			changes, err := page.apply(m, false)
			if err != nil || !first && len(changes) == 0 && slices.Equal(order, page.order) {
				return err // it was opened again
			}
			g.draw(g.out, &page, 0)
			fmt.Fprintln(g.out)
			return nil
		})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages, ended := make(chan json.RawMessage), make(chan error, 1)
	go func() {
		ended <- g.stream(ctx, queryclient.Table, func(m json.RawMessage) error {
			select {
			case messages <- m:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	tick := time.NewTicker(time.Second) // ages
	defer tick.Stop()
	opened := false
	defer func() {
		if opened {
			fmt.Fprint(g.out, "\x1b[?25h\x1b[?1049l") // the cursor, and what was there before
		}
	}()
	for {
		select {
		case err := <-ended:
			if errors.Is(err, context.Canceled) {
				return nil // the user has seen enough
			}
			return err
		case m := <-messages:
			if _, err := page.apply(m, false); err != nil {
				return err
			}
		case <-tick.C:
			if page.rows == nil {
				continue
			}
		}
		if !opened {
			opened = true
			fmt.Fprint(g.out, "\x1b[?1049h\x1b[?25l")
		}
		width, _ := g.size()
		var screen strings.Builder
		g.draw(&screen, &page, width)
		fmt.Fprint(g.out, "\x1b[H"+screen.String()+"\x1b[J")
	}
}

// draw writes a live page, in lines of at most width characters, 0 for any.
func (g *getter) draw(w io.Writer, page *livePage, width int) {
	t := page.table()
	t.aged(page.columns, g.now())
	g.rows = nil // columns are as wide as this page needs
	p := g.printer()
	p.width = width
	lines := p.lines(t, nil)
	if width > 0 {
		state := fmt.Sprintf("%s: %d of %d, %s (Ctrl-C ends)", g.query.Kind.Name(), len(t.Rows), t.TotalItems, g.now().Format(time.TimeOnly))
		lines = append([]string{clipped(plainText(state), width), ""}, lines...)
	}
	for _, line := range lines {
		if width > 0 {
			line += clearLine
		}
		fmt.Fprintln(w, line)
	}
}

// followPage prints what changes on a page that was listed: an object that came onto it is ADDED, and one that left it is DELETED.
func (g *getter) followPage(ctx context.Context, accept string) error {
	page, whole := livePage{columns: g.columns}, accept == queryclient.JSON
	if _, err := page.replace(g.listed, whole); err != nil {
		return err
	}
	return g.stream(ctx, accept, func(message json.RawMessage) error {
		changes, err := page.apply(message, whole)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if whole {
				err = g.printChanged(c.typ, c.raw)
			} else {
				g.printRows(c.typ, &table{Columns: page.columns, Rows: []tableRow{c.row}})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// stream follows the live page of the query. A stream that ends is opened again.
func (g *getter) stream(ctx context.Context, accept string, message func(json.RawMessage) error) error {
	q := g.query
	q.Parameters = g.paged()
	q.Parameters.Del("facets")
	q.Parameters.Set("view", "live")
	if !q.Parameters.Has("limit") {
		q.Parameters.Set("limit", strconv.Itoa(g.height()))
	}
	if n := g.client.LiveSeconds(); n > 0 {
		q.Parameters.Set("timeoutSeconds", strconv.Itoa(n))
	}
	for {
		err := g.client.Stream(ctx, q, accept, func(_ string, m json.RawMessage) error { return message(m) })
		if err != nil && !queryclient.MayReopen(err) {
			return err
		}
		wait := time.NewTimer(reopenAfter)
		select {
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		case <-wait.C:
		}
	}
}
