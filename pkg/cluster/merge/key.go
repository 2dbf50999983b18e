package merge

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/query"
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
}

// span is which rows of a cluster are asked for.
type span struct {
	limit, offset, every int
	cursor               *query.Cursor
	facets               string
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
	v.Del("fields")
	most := int64(maxHead + at.limit*maxRow)
	if at.facets != "" {
		v.Set("facets", at.facets)
		most += maxFacets
	}
	l.expect(v, source)
	text, err := l.sources[source].get(ctx, v, l.header, most)
	if err != nil {
		return nil, err
	}
	return l.readKeys(text, source, at)
}

// readKeys judges the rows of a cluster.
func (l *list) readKeys(text string, source int, at span) (*keys, error) {
	var in struct {
		TotalItems   *int                             `json:"totalItems"`
		Start        int                              `json:"start"`
		Metadata     struct{ ResourceVersion string } `json:"metadata"`
		Facets       map[string]map[string]int        `json:"facets"`
		FacetsOthers map[string]int                   `json:"facetsOthers"`
		Rows         *[][]string                      `json:"rows"`
	}
	if json.Unmarshal([]byte(text), &in) != nil {
		return nil, faulty()
	}
	if in.Rows == nil { // a list that does not know this view
		return nil, &outcome{reason: Unsupported}
	}
	out := &keys{start: in.Start, version: in.Metadata.ResourceVersion, facets: in.Facets, others: in.FacetsOthers}
	if in.TotalItems == nil || *in.TotalItems < 0 || *in.TotalItems > maxTotal || in.Start < 0 || in.Start > *in.TotalItems ||
		len(*in.Rows) > at.limit || len(*in.Rows) > *in.TotalItems-in.Start || !counts(in.Facets, in.FacetsOthers) ||
		!isVersion(out.version) {
		return nil, faulty()
	}
	out.total, out.rows = *in.TotalItems, make([]key, len(*in.Rows))
	for i, r := range *in.Rows {
		if len(r) != 5 {
			return nil, faulty()
		}
		value, err := base64.RawStdEncoding.DecodeString(r[0])
		out.rows[i] = key{value: string(value), namespace: r[1], name: r[2], uid: r[3], version: r[4], source: source}
		this := &out.rows[i]
		this.head = l.order.headOf(this.value)
		switch {
		case err != nil, this.head < 0, len(value) > query.MaxKey, this.name == "", this.uid == "",
			max(len(this.name), len(this.namespace), len(this.uid), len(this.version)) > maxName:
			return nil, faulty()
		case i > 0 && l.order.compare(&out.rows[i-1], this) >= 0: // out of order, or twice
			return nil, faulty()
		case i == 0 && at.cursor != nil && !l.follows(at.cursor, this):
			return nil, faulty()
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

func counts(facets map[string]map[string]int, others map[string]int) bool {
	all := []map[string]int{others}
	for _, f := range facets {
		all = append(all, f)
	}
	for _, f := range all {
		for _, n := range f {
			if n < 0 || n > maxTotal {
				return false
			}
		}
	}
	return true
}

// isVersion reports whether a text is a resource version of Kubernetes.
func isVersion(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

// expect has a cluster wait until it has reached the version that the client has seen of it.
func (l *list) expect(v url.Values, source int) {
	if version := l.versions.of(&l.sources[source]); version != "" {
		v.Set("resourceVersion", version)
	}
}
