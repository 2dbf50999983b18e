package resourcequota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
)

// reservationTime is how long a batch of reservations tries to write.
const reservationTime = 9 * time.Second

// reservationBatcher reserves amounts in quotas. Requests that arrive during a write of the same quota are handled by the next write, all
// together, so that many concurrent requests cost a few writes. Of several replicas, one writes first and the others read again: the
// quota's resource version tells them.
type reservationBatcher struct {
	live  client.Reader
	write client.StatusClient

	mu      sync.Mutex
	waiting map[string][]*order // by quota; the entry, possibly empty, exists while a goroutine serves the quota
}

// order is a request for amounts of a quota.
type order struct {
	amounts corev1.ResourceList
	// back returns amounts whose object another quota refused.
	back bool
	// dry checks, and reserves nothing.
	dry  bool
	done chan error
}

// reserve reserves amounts in a quota. The error is a refusal if the quota has not enough left.
func (d *reservationBatcher) reserve(ctx context.Context, name string, o order) error {
	o.done = make(chan error, 1)
	d.mu.Lock()
	queue, served := d.waiting[name]
	if d.waiting == nil {
		d.waiting = map[string][]*order{}
	}
	d.waiting[name] = append(queue, &o)
	d.mu.Unlock()
	if !served {
		go d.serve(context.WithoutCancel(ctx), name)
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("reserve in resource quota %q: %w", name, ctx.Err())
	}
}

// serve writes for the waiting orders, until there are none.
func (d *reservationBatcher) serve(ctx context.Context, name string) {
	for {
		d.mu.Lock()
		batch := d.waiting[name]
		if len(batch) == 0 {
			delete(d.waiting, name)
			d.mu.Unlock()
			return
		}
		d.waiting[name] = nil
		d.mu.Unlock()
		answers, err := d.batch(ctx, name, batch)
		for i, o := range batch {
			if err != nil {
				o.done <- err
			} else {
				o.done <- answers[i]
			}
		}
	}
}

// batch answers orders, in turn, with one write. After a conflict it tries again until its time is over, rather than a fixed number of
// times: a request without an answer is refused.
func (d *reservationBatcher) batch(ctx context.Context, name string, batch []*order) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, reservationTime)
	defer cancel()
	for {
		q := &quotav1alpha2.ResourceQuota{}
		err := d.live.Get(ctx, types.NamespacedName{Name: name}, q)
		if apierrors.IsNotFound(err) {
			return make([]error, len(batch)), nil // it no longer limits anything
		}
		if err != nil {
			return nil, fmt.Errorf("read resource quota %q: %w", name, err)
		}
		answers, changed := decide(q, batch)
		if !changed {
			return answers, nil
		}
		err = d.write.Status().Update(ctx, q)
		switch {
		case err == nil:
			return answers, nil
		case apierrors.IsNotFound(err):
			return make([]error, len(batch)), nil
		case !apierrors.IsConflict(err):
			return nil, fmt.Errorf("reserve in resource quota %q: %w", name, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("reserve in resource quota %q: others write it all the time: %w", name, ctx.Err())
		case <-time.After(rand.N(10 * time.Millisecond)):
		}
	}
}

// decide answers orders by the state of q, and updates q.
func decide(q *quotav1alpha2.ResourceQuota, batch []*order) (answers []error, changed bool) {
	answers = make([]error, len(batch))
	for i, o := range batch {
		if o.back {
			q.Status.Total.Used = quota.Mask(quota.SubtractWithNonNegativeResult(q.Status.Total.Used, o.amounts),
				quota.ResourceNames(q.Status.Total.Used))
			changed = true
			continue
		}
		if answers[i] = refuse(q, o.amounts); answers[i] == nil && !o.dry {
			q.Status.Total.Used = quota.Add(q.Status.Total.Used, o.amounts)
			changed = true
		}
	}
	return answers, changed
}

// refusal says that a quota has not enough left.
type refusal struct{ message string }

// Error returns the message for users.
func (r *refusal) Error() string { return r.message }

// refuse returns why a quota can't give amounts, or nil if it can.
func refuse(q *quotav1alpha2.ResourceQuota, amounts corev1.ResourceList) error {
	hard, used := q.Spec.Quota.Hard, q.Status.Total.Used
	var unknown, over []corev1.ResourceName
	for name, amount := range amounts {
		limit, limited := hard[name]
		have, known := used[name]
		switch {
		case !limited:
			continue
		case !known:
			unknown = append(unknown, name)
			continue
		}
		if amount.Add(have); amount.Cmp(limit) > 0 {
			over = append(over, name)
		}
	}
	switch {
	case len(unknown) > 0:
		return &refusal{fmt.Sprintf("it is not known yet what is used of the quota %s (%s); try again", q.Name, spell(quota.Mask(hard, unknown)))}
	case len(over) > 0:
		return &refusal{fmt.Sprintf("exceeded quota: %s, requested: %s, used: %s, limited: %s", q.Name,
			spell(quota.Mask(amounts, over)), spell(quota.Mask(used, over)), spell(quota.Mask(hard, over)))}
	}
	return nil
}
