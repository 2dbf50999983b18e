package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"kapis.dev/ks-apiserver/pkg/queryclient"
)

// annotationCluster says of which cluster an object is, in lists over several.
const annotationCluster = "kapis.dev/cluster"

// get returns the answer to a query for a list: all pages of it, where it is over several clusters, whose pages are short, and none was
// asked for.
func (g *getter) get(ctx context.Context, q queryclient.Query, accept string) ([]byte, bool, error) {
	text, partial, err := g.client.Get(ctx, q, accept)
	if err != nil || !q.Fleet || g.page > 0 || g.limit > 0 {
		return text, partial, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &all); err != nil || len(all["next"]) == 0 {
		return text, partial, err
	}
	items := "items"
	if _, table := all["rows"]; table {
		items = "rows"
	}
	var list []json.RawMessage
	for next := "x"; next != ""; {
		var page struct {
			Items, Rows []json.RawMessage
			Next        string
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, false, fmt.Errorf("read the list: %w", err)
		}
		list, next = slices.Concat(list, page.Items, page.Rows), page.Next
		q.Parameters.Set("next", next)
		if next != "" {
			if text, _, err = g.client.Get(ctx, q, accept); err != nil {
				return nil, false, err
			}
		}
	}
	all[items], _ = json.Marshal(list) // JSON can be encoded
	text, err = json.Marshal(all)
	return text, partial, err
}
