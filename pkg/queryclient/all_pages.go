package queryclient

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// fleetPage is what is read of a page of a list over several clusters. The items are rows in a Table.
type fleetPage struct {
	Items, Rows []json.RawMessage
	Next        string
	Clusters    fleetClusters
}

// fleetClusters are the clusters whose objects are not in a list.
type fleetClusters struct {
	Missing []missingCluster `json:"missing,omitempty"`
	Refused []string         `json:"refused,omitempty"`
}

type missingCluster struct {
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty"`
}

// GetAll is Get for a list over several clusters, whose pages are short: the first page with the items of all, and with the clusters that
// are missing, or refuse, on any of them.
func (c *Client) GetAll(ctx context.Context, q Query, accept string) ([]byte, bool, error) {
	text, partial, err := c.Get(ctx, q, accept)
	if err != nil {
		return nil, false, err
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
	var whole fleetPage
	missing := map[string]missingCluster{} // a cluster that fails at one page may fail at the next ones
	for {
		var page fleetPage
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, false, fmt.Errorf("read the list: %w", err)
		}
		whole.Items = append(append(whole.Items, page.Items...), page.Rows...)
		for _, m := range page.Clusters.Missing {
			missing[m.Name] = m
		}
		whole.Clusters.Refused = append(whole.Clusters.Refused, page.Clusters.Refused...)
		if page.Next == "" {
			break
		}
		q.Parameters.Set("next", page.Next)
		var more bool
		if text, more, err = c.Get(ctx, q, accept); err != nil {
			return nil, false, err
		}
		partial = partial || more
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		whole.Clusters.Missing = append(whole.Clusters.Missing, missing[name])
	}
	slices.Sort(whole.Clusters.Refused)
	whole.Clusters.Refused = slices.Compact(whole.Clusters.Refused)
	all[items], _ = json.Marshal(whole.Items) // JSON and texts can be encoded
	all["clusters"], _ = json.Marshal(whole.Clusters)
	text, err = json.Marshal(all)
	return text, partial, err
}
