package ring

import (
	"encoding/json"
	"slices"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/query"
)

// Answer is what a query answers: one of its members is there.
type Answer struct {
	Query      *Records    `json:"query,omitempty"`
	Statistics *Statistics `json:"statistics,omitempty"`
	Histogram  *Histogram  `json:"histogram,omitempty"`
}

// Records is a page of events, and how many there are.
type Records struct {
	Total   int               `json:"total"`
	Records []json.RawMessage `json:"records"`
}

// Statistics is how many events there are, and of how many objects.
type Statistics struct {
	Resources int `json:"resources"`
	Events    int `json:"events"`
}

// Histogram is how many events there are in each interval.
type Histogram struct {
	Total   int      `json:"total"`
	Buckets []Bucket `json:"buckets"`
}

// Bucket is an interval, by the milliseconds since 1970 at its start.
type Bucket struct {
	Time  int64 `json:"time"`
	Count int   `json:"count"`
}

// Answer answers a query on events, the oldest first, of which only those count for which visible is true.
func (q *Query) Answer(all []*audit.Event, visible func(e *audit.Event) bool) (*Answer, error) {
	var found []*audit.Event
	for _, e := range all {
		if q.selects(e) && visible(e) {
			found = append(found, e)
		}
	}
	switch q.Operation {
	case OperationStatistics:
		return &Answer{Statistics: statistics(found)}, nil
	case OperationHistogram:
		h, err := q.histogram(found)
		return &Answer{Histogram: h}, err
	}
	// Events are recorded in the order of their ends, or nearly so.
	slices.SortStableFunc(found, func(a, b *audit.Event) int {
		if q.ascending {
			return a.Received.Compare(b.Received)
		}
		return b.Received.Compare(a.Received)
	})
	out := &Records{Total: len(found), Records: []json.RawMessage{}}
	from := min(q.from, len(found))
	for _, e := range found[from:min(from+q.size, len(found))] {
		out.Records = append(out.Records, e.Record())
	}
	return &Answer{Query: out}, nil
}

func (q *Query) selects(e *audit.Event) bool {
	if !q.start.IsZero() && e.Received.Before(q.start) || !q.end.IsZero() && e.Received.After(q.end) {
		return false
	}
	for _, is := range q.conditions {
		if !is(e) {
			return false
		}
	}
	return true
}

func statistics(found []*audit.Event) *Statistics {
	type object struct{ cluster, group, resource, namespace, name string }
	objects := map[object]bool{}
	for _, e := range found {
		if o := &e.Object; o.Resource != "" {
			objects[object{e.Cluster, o.APIGroup, o.Resource, o.Namespace, o.Name}] = true
		}
	}
	return &Statistics{Resources: len(objects), Events: len(found)}
}

func (q *Query) histogram(found []*audit.Event) (*Histogram, error) {
	out := &Histogram{Total: len(found), Buckets: []Bucket{}}
	if len(found) == 0 {
		return out, nil
	}
	byTime := func(a, b *audit.Event) int { return a.Received.Compare(b.Received) }
	first := slices.MinFunc(found, byTime).Received.Truncate(q.interval)
	last := slices.MaxFunc(found, byTime).Received.Truncate(q.interval)
	n := int64(last.Sub(first)/q.interval) + 1
	if n > maxBuckets {
		return nil, query.Invalid("interval", q.interval.String(), "one that the events fill at most 1000 of: choose a longer one, or start_time")
	}
	for at := first; !at.After(last); at = at.Add(q.interval) {
		out.Buckets = append(out.Buckets, Bucket{Time: at.UnixMilli()})
	}
	for _, e := range found {
		out.Buckets[int(e.Received.Truncate(q.interval).Sub(first)/q.interval)].Count++
	}
	return out, nil
}
