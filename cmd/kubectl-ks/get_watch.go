package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"kapis.dev/ks-apiserver/pkg/queryclient"
)

// follow prints what changes after a list of a version: rows of the page where one was requested, and of all objects otherwise.
func (g *getter) follow(ctx context.Context, version string) error {
	q, accept := g.query, queryclient.Table
	q.Parameters = g.parameters()
	q.Parameters.Set("watch", "true")
	q.Parameters.Set("resourceVersion", version)
	if g.output != outTable && g.output != outWide {
		accept = queryclient.JSON
	}
	if g.page > 0 || g.limit > 0 {
		return g.followPage(ctx, accept)
	}
	return g.client.Stream(ctx, q, accept, func(typ string, message json.RawMessage) error {
		var event struct{ Object json.RawMessage }
		if err := json.Unmarshal(message, &event); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if typ == "BOOKMARK" {
			return nil
		}
		if accept == queryclient.JSON {
			return g.printChanged(typ, event.Object)
		}
		t, err := readTable(event.Object)
		if err == nil {
			g.printRows(typ, t)
		}
		return err
	})
}

// printRows prints the rows of an event.
func (g *getter) printRows(typ string, t *table) {
	var before []string
	if g.types {
		before = slices.Repeat([]string{plainText(typ)}, len(t.Rows))
	}
	g.printer().print(g.out, t, before)
}

// printChanged prints the object of an event in one of the other formats.
func (g *getter) printChanged(typ string, object json.RawMessage) error {
	if g.output == outName {
		name := plainText(g.query.Kind.ObjectName(item{object}.name()))
		if g.types {
			name = fmt.Sprintf("%-11s%s", plainText(typ), name)
		}
		fmt.Fprintln(g.out, name)
		return nil
	}
	if g.types {
		text, err := json.Marshal(map[string]any{"type": typ, "object": object})
		if err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
		object = text
	}
	return g.printValue(object)
}
