package merge

import (
	"context"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/row"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
)

const (
	// maxRow is how many bytes of an answer a row may have, and maxHead how many all the rest, without facets and with them.
	maxRow, maxHead, maxFacets = 8 << 10, 64 << 10, 4 << 20
	// maxTotal bounds how many objects a cluster says that it has.
	maxTotal = 1 << 40
	// maxName bounds names, UIDs and versions.
	maxName = 512
)

// keys are rows of one cluster, in order.
type keys struct {
	total, start int
	version      string
	facets       map[string]map[string]int
	others       map[string]int
	rows         []key
	// items are objects of the rows, as they are in the answer, by their UIDs; nil for none.
	items map[string]row.Item
}

// span is which rows of a cluster are asked for.
type span struct {
	limit, offset, every int
	cursor               *query.Cursor
	facets               string
	// objects is of how many of the first rows the objects are asked for, too.
	objects int
}

// mostAhead bounds the objects of a cluster that are asked for together with its keys.
const mostAhead = 20

// ahead returns of how many of its first rows each cluster is asked for the objects at once: its share of the page, where that has a few
// for each. Where a page has less than that, most clusters would send what is not on it.
func (l *list) ahead() int {
	n := 0
	for i := range l.sources {
		if l.outcome(i) == nil {
			n++
		}
	}
	if n == 0 || l.form.Table || l.order.cluster == 0 || l.limit < n || l.limit > n*mostAhead {
		return 0
	}
	return (l.limit + n - 1) / n
}

// keys asks a cluster for rows. The error is an *outcome.
func (l *list) keys(ctx context.Context, source int, at span) (*keys, error) {
	v := l.parameters("view", query.ViewKeys, "limit", strconv.Itoa(at.limit))
	if at.offset > 0 {
		v.Set("offset", strconv.Itoa(at.offset))
	}
	if at.cursor != nil {
		v.Set("cursor", at.cursor.String())
	}
	if at.every != 1 {
		v.Set("every", strconv.Itoa(at.every))
	}
	most := int64(maxHead + at.limit*maxRow)
	if at.objects > 0 {
		v.Set("objects", strconv.Itoa(at.objects))
		identified(v)
		most += maxItems
	} else {
		v.Del("fields")
	}
	if at.facets != "" {
		v.Set("facets", at.facets)
		most += maxFacets
	}
	l.expect(v, source)
	var out *keys
	err := l.sources[source].read(ctx, v, l.header, most, l.counting(source), func(text string) (err error) {
		out, err = l.readKeys(text, source, at)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// readKeys reads and validates the rows of a cluster, and the objects that came with them.
func (l *list) readKeys(text string, source int, at span) (*keys, error) {
	in, err := row.ParsePage(text, maxTotal, mostItems)
	switch {
	case err == nil && in.Rows == "": // a list that does not know this view
		return nil, &outcome{reason: Unsupported}
	case err != nil || !isVersion(in.Version):
		return nil, faulty()
	}
	for name, counts := range in.Facets { // others would take the places of those that are asked for
		if !slices.Contains(l.facetNames, name) || len(counts) > row.MostValues {
			return nil, faulty()
		}
	}
	out := &keys{total: in.Total, start: in.Start, version: in.Version, facets: in.Facets, others: in.Others}
	out.rows = make([]key, 0, min(at.limit, in.Total-in.Start))
	for all := rawjson.Array(in.Rows); all.Next(); {
		r, ok := row.ParseKey(all.Value)
		if !ok || len(out.rows) == at.limit || len(out.rows) == in.Total-in.Start {
			return nil, faulty()
		}
		value, err := base64.RawStdEncoding.DecodeString(r[0])
		this := key{value: string(value), namespace: r[1], name: r[2], uid: r[3], version: r[4], source: source}
		this.head = l.order.headOf(this.value)
		switch n := len(out.rows); {
		case err != nil, this.head < 0, len(value) > query.MaxKey, this.name == "", this.uid == "",
			max(len(this.name), len(this.namespace), len(this.uid), len(this.version)) > maxName:
			return nil, faulty()
		case n > 0 && l.order.compare(&out.rows[n-1], &this) >= 0: // out of order, or twice
			return nil, faulty()
		case n == 0 && at.cursor != nil && !l.follows(at.cursor, &this):
			return nil, faulty()
		}
		out.rows = append(out.rows, this)
	}
	if at.objects == 0 || len(in.Items) == 0 { // a cluster of an older release sends none: they are asked for as before
		return out, nil
	}
	l.holds(text)
	out.items = make(map[string]row.Item, len(in.Items))
	for _, o := range in.Items {
		if err := l.take(o.Text, o.Identity, source, out.rows, out.items); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// follows reports whether a row is where a page may begin that was asked for from a position on.
func (l *list) follows(at *query.Cursor, r *key) bool {
	c := at.Compare(r.value, r.namespace, r.name)
	if !l.order.ascending {
		c = -c
	}
	return c < 0 || c == 0 && !at.After
}

// isVersion reports whether a text is a resource version of Kubernetes.
func isVersion(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

// expect has a cluster wait until it has reached the version that the client has seen of it.
func (l *list) expect(v url.Values, source int) {
	if seen := l.versions.Of(l.sources[source].Name, l.sources[source].UID); seen != "" {
		v.Set("resourceVersion", seen)
	}
}
