package merge

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/row"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// AnnotationCluster says of which cluster an object of an answer is.
const AnnotationCluster = row.AnnotationCluster

const (
	// maxItems is how many bytes of objects a cluster may send for one page.
	maxItems = 32 << 20
	// mostNames is how many objects are asked for by their names, after they were not where they had been.
	mostNames = 100
)

// fetch asks a cluster for the objects of rows, which follow each other there, and returns them by their UIDs. One that is gone is left
// out.
func (l *list) fetch(ctx context.Context, source int, rows []key) (map[string]string, error) {
	first := &rows[0]
	at := &query.Cursor{Key: first.value, Namespace: first.namespace, Name: first.name}
	out := make(map[string]string, len(rows))
	n, err := l.ask(ctx, source, l.parameters("cursor", at.String(), "limit", strconv.Itoa(len(rows))), rows, out)
	if err != nil || len(out) == len(rows) || n < len(rows) {
		return out, err
	}
	// Others came between them meanwhile.
	var names []string
	for i := range rows {
		if r := &rows[i]; out[r.uid] == "" && !slices.Contains(names, r.name) && len(names) < mostNames {
			names = append(names, r.name)
		}
	}
	_, err = l.ask(ctx, source, l.parameters("names", strings.Join(names, ","), "limit", strconv.Itoa(mostItems)), rows, out)
	return out, err
}

// ask adds those objects of an answer that rows name, and returns how many the answer has.
func (l *list) ask(ctx context.Context, source int, v url.Values, rows []key, to map[string]string) (n int, err error) {
	if fields := v.Get("fields"); fields != "" {
		v.Set("fields", fields+",.metadata.uid,.metadata.name,.metadata.namespace")
	}
	header, list := l.header, "items"
	if l.form.Table {
		header, list = header.Clone(), "rows"
		header.Set("Accept", row.AcceptTable)
	}
	text, err := l.sources[source].get(ctx, v, header, maxItems)
	if err != nil {
		return 0, err
	}
	if l.form.Table {
		of, err := row.ColumnsOf(text)
		if err != nil {
			return 0, err
		}
		l.mu.Lock()
		l.columns[source] = of
		l.mu.Unlock()
	}
	all := rawjson.Array(rawjson.Get(text, list))
	for all.Next() {
		if n++; n > mostItems {
			return n, faulty()
		}
		id, err := l.form.Identify(all.Value)
		if err != nil {
			return n, err
		}
		i := slices.IndexFunc(rows, func(r key) bool { return r.uid == id.UID })
		if i < 0 {
			continue
		}
		if rows[i].name != id.Name || rows[i].namespace != id.Namespace {
			return n, faulty()
		}
		if to[id.UID], err = l.form.OfCluster(all.Value, l.sources[source].Name); err != nil {
			return n, err
		}
	}
	return n, nil
}
