package release

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	restful "github.com/emicklei/go-restful/v3"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
)

const (
	// maxListed is how many custom resources are read for an answer, and maxListedBytes about how much of them, whichever is reached first.
	// An answer that ends there says where the next one goes on.
	maxListed, maxListedBytes = 5000, 8 << 20
	// listedAtOnce is how many of them are asked for at once, and maxListings how often: a member that answers without end is not asked for
	// ever.
	listedAtOnce, maxListings = 500, 100

	paramContinue = "continue"
)

var managedFields = rawjson.Cuts([]string{"metadata", "managedFields"})

// customPage is what kube-apiserver answers of a list of custom resources.
type customPage struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// customList is what clients get of a list of custom resources.
type customList struct {
	Items []json.RawMessage `json:"items"`
	// TotalItems is how many there are, or, with Continue, how many were read for this answer.
	TotalItems int `json:"totalItems"`
	// Continue is the parameter of the request that goes on after those; empty where there are no more.
	Continue string `json:"continue,omitempty"`
}

// listObjects answers the custom resources of a kind that are a release's: a page of those that are read, which are all as far as that is
// within the bounds.
func (h *Handler) listObjects(r *restful.Request) (any, error) {
	k, err := h.kind(r)
	if err != nil {
		return nil, err
	}
	given := r.Request.URL.Query()
	q, err := query.Parse(url.Values{"limit": given["limit"], "page": given["page"]})
	if err != nil {
		return nil, err
	}
	start, n := q.Window(maxListed)
	out := &customList{Items: []json.RawMessage{}, Continue: given.Get(paramContinue)}
	atOnce, size := listedAtOnce, 0
	for range maxListings {
		atOnce = min(atOnce, maxListed-out.TotalItems)
		page, err := h.customPage(r, k, atOnce, out.Continue)
		if errors.Is(err, caller.ErrTooLarge) && atOnce > 1 { // they are large: fewer of them have room
			atOnce /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			if size += len(item); out.TotalItems >= start && len(out.Items) < n {
				if item, err = rawjson.AppendWithout(nil, string(item), "", managedFields); err != nil {
					return nil, err
				}
				out.Items = append(out.Items, item)
			}
			out.TotalItems++
		}
		if out.Continue = page.Metadata.Continue; out.Continue == "" || out.TotalItems >= maxListed || size >= maxListedBytes {
			break
		}
	}
	return out, nil
}

// customPage reads some custom resources of a release, from where another page has ended.
func (h *Handler) customPage(r *restful.Request, k *kind, limit int, from string) (*customPage, error) {
	values := url.Values{"labelSelector": {v2.LabelRelease + "=" + k.release}, "limit": {strconv.Itoa(limit)}}
	if from != "" {
		values.Set(paramContinue, from)
	}
	page := &customPage{}
	return page, h.into(r, k.GroupVersionResource, k.cluster,
		caller.Order{Method: http.MethodGet, Path: path(k.GroupVersionResource, k.namespace, ""), Query: values}, page)
}
