package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/queryclient"
)

// annotationCluster says of which cluster an object is, in lists over several.
const annotationCluster = "kapis.dev/cluster"

// get returns the answer to a query for a list: all pages of it, where the list is over several clusters, whose pages are short, and no page
// was asked for.
func (g *getter) get(ctx context.Context, q queryclient.Query, accept string) ([]byte, bool, error) {
	text, partial, err := g.client.Get(ctx, q, accept)
	if err != nil || !q.Fleet || g.page > 0 || g.limit > 0 {
		return text, partial, err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, false, fmt.Errorf("read the list: %w", err)
	}
	if len(all["next"]) == 0 {
		return text, partial, nil
	}
	items := "items"
	if _, table := all["rows"]; table {
		items = "rows"
	}
	var list []json.RawMessage
	for {
		var page struct {
			Items, Rows []json.RawMessage
			Next        string
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, false, fmt.Errorf("read the list: %w", err)
		}
		if list = slices.Concat(list, page.Items, page.Rows); page.Next == "" {
			break
		}
		q.Parameters.Set("next", page.Next)
		if text, _, err = g.client.Get(ctx, q, accept); err != nil {
			return nil, false, err
		}
	}
	if all[items], err = json.Marshal(list); err != nil {
		return nil, false, fmt.Errorf("join the pages: %w", err)
	}
	text, err = json.Marshal(all)
	if err != nil {
		return nil, false, fmt.Errorf("join the pages: %w", err)
	}
	return text, partial, nil
}

// tellMissing tells the user which clusters are not in a list.
func (g *getter) tellMissing(l *list) {
	for _, m := range l.Clusters.Missing {
		fmt.Fprintf(g.tell, "Cluster %s is missing: %s\n", plainText(m.Name), plainText(m.Reason))
	}
	if len(l.Clusters.Refused) > 0 {
		fmt.Fprintf(g.tell, "You may not list these objects in: %s\n", plainText(strings.Join(l.Clusters.Refused, ", ")))
	}
}
