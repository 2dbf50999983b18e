package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"kapis.dev/ks-apiserver/tools/stack"
)

// client is the product as the benchmark calls it.
type client struct {
	stack.Server
	token string
	pid   int
}

// header is what every request carries, with more name and value pairs.
func (c client) header(more ...string) http.Header {
	h := http.Header{"Accept": {"application/json"}, "Authorization": {"Bearer " + c.token}}
	for i := 0; i+1 < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

// get sends one GET, with the header of all requests.
func (c client) get(ctx context.Context, path string, more ...string) (stack.Response, error) {
	resp, err := c.Do(ctx, stack.Request{Path: path, Header: c.header(more...)})
	if err == nil && resp.Status != http.StatusOK {
		err = resp.JSON(nil, http.StatusOK)
	}
	if err != nil {
		return stack.Response{}, fmt.Errorf("GET %s: %w", path, err)
	}
	return resp, nil
}

// total returns how many pods match the query.
func (c client) total(ctx context.Context, query url.Values) (int, error) {
	query.Set("limit", "1")
	resp, err := c.get(ctx, podLists+"?"+query.Encode())
	if err != nil {
		return 0, err
	}
	var list struct {
		TotalItems *int `json:"totalItems"`
	}
	if err := resp.JSON(&list, http.StatusOK); err != nil {
		return 0, err
	}
	if list.TotalItems == nil {
		return 0, errors.New("the list has no totalItems")
	}
	return *list.TotalItems, nil
}

// at returns the product as a target.
func (c client) at(path string, status int, more ...string) (target, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return target{}, fmt.Errorf("the address of ks-apiserver: %w", err)
	}
	return target{addr: u.Host, pid: c.pid, path: path, header: c.header(more...), status: status}, nil
}
