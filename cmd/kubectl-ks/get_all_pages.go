package main

import (
	"context"

	"kapis.dev/ks-apiserver/pkg/queryclient"
)

// annotationCluster says of which cluster an object is, in lists over several.
const annotationCluster = "kapis.dev/cluster"

// get returns the answer to a query for a list: all pages of it, where it is over several clusters, whose pages are short, and none was
// asked for.
func (g *getter) get(ctx context.Context, q queryclient.Query, accept string) ([]byte, bool, error) {
	if q.Fleet && g.page == 0 && g.limit == 0 {
		return g.client.GetAll(ctx, q, accept)
	}
	return g.client.Get(ctx, q, accept)
}
