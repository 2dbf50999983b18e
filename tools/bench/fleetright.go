package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	// rightsTaken is how often a right is given and taken away.
	rightsTaken = 20
	// fleetRight is the binding by which it is given, in all members.
	fleetRight    = "bench-fleet-right"
	globalBinding = "/apis/iam.kubesphere.io/v1beta1/globalrolebindings"
)

// told is that a member was told that the right is there, or that it is not.
type told struct {
	member string
	there  bool
	at     time.Time
}

// keep notes what the hub tells of the right.
func (c *computed) keep(r *http.Request) {
	to, at := c.told.Load(), time.Now()
	var in fleetsync.Changes
	if to == nil || json.NewDecoder(r.Body).Decode(&in) != nil {
		return
	}
	for _, change := range in.Changes {
		if change.Name == fleetRight {
			*to <- told{c.name, change.Object != nil, at}
		}
	}
}

// compare notes what a digest, by which everything is compared from time to time, says of the right.
func (c *computed) compare(r *http.Request) {
	to, at := c.told.Load(), time.Now()
	var in fleetsync.Digest
	if to == nil || json.NewDecoder(r.Body).Decode(&in) != nil {
		return
	}
	_, there := in.Objects["globalrolebindings"][fleetRight]
	*to <- told{c.name, there, at}
}

// rights measures how long after a right was taken away on the hub its members are told so. What a member then does is not in it: it deletes the
// object at its kube-apiserver, and its index follows.
func (x *fleetHub) rights(ctx context.Context) (err error) {
	news := make(chan told, 4*rightsTaken*len(x.members))
	var to chan<- told = news
	for _, m := range x.members {
		m.told.Store(&to)
		defer m.told.Store(nil)
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRoleBinding",
		"metadata": map[string]any{"name": fleetRight},
		"roleRef":  map[string]any{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": "platform-admin"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "admin"}}})
	if err != nil {
		return fmt.Errorf("encode a binding: %w", err)
	}
	defer func() { // where it was not taken away
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), fleetTimeout)
		defer cancel()
		_, e := x.changeRight(last, http.MethodDelete, "/"+fleetRight, nil)
		err = errors.Join(err, e)
	}()
	var took []time.Duration
	for range rightsTaken {
		if _, err := x.changeRight(ctx, http.MethodPost, "", body); err != nil {
			return err
		}
		if _, err := x.allTold(ctx, news, true, time.Now()); err != nil {
			return err
		}
		begun, err := x.changeRight(ctx, http.MethodDelete, "/"+fleetRight, nil)
		if err != nil {
			return err
		}
		each, err := x.allTold(ctx, news, false, begun)
		if err != nil {
			return err
		}
		took = append(took, each...)
	}
	slices.Sort(took)
	x.add(figure{name: "right-taken-to-told-p50", value: quantile(took, 0.5).Seconds(), unit: "s"},
		figure{name: "right-taken-to-told-p99", value: quantile(took, 0.99).Seconds(), unit: "s", goal: "<= 2 s"})
	return nil
}

// changeRight gives the right, or takes it away, and returns when it was asked to. That it is not there is well.
func (x *fleetHub) changeRight(ctx context.Context, method, path string, body []byte) (begun time.Time, err error) {
	begun = time.Now()
	resp, err := x.client.Do(ctx, stack.Request{Method: method, Path: globalBinding + path, Token: x.client.token, Body: body})
	if err == nil && resp.Status != http.StatusCreated && resp.Status != http.StatusOK && resp.Status != http.StatusNotFound {
		err = fmt.Errorf("%s %s: %d %.300s", method, globalBinding+path, resp.Status, resp.Body)
	}
	return begun, err
}

// allTold waits until each member has been told, and returns how long after a time that was.
func (x *fleetHub) allTold(ctx context.Context, news <-chan told, there bool, begun time.Time) (took []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	seen := map[string]bool{}
	for len(seen) < len(x.members) {
		select {
		case t := <-news:
			if t.there == there && !seen[t.member] {
				seen[t.member] = true
				took = append(took, t.at.Sub(begun))
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d members are told of a right: %w", len(seen), len(x.members), ctx.Err())
		}
	}
	return took, nil
}
