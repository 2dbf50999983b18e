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

// unknown returns rows from the first one on whose object has not come with the keys.
func (k *keys) unknown(rows []key) []key {
	for len(rows) > 0 && k.items[rows[0].uid].Len() > 0 {
		rows = rows[1:]
	}
	return rows
}

// fetch asks a cluster for the objects of rows that follow each other in it, and adds them by their UIDs. One that is gone is left out.
func (l *list) fetch(ctx context.Context, source int, rows []key, to map[string]row.Item) error {
	first := &rows[0]
	at := &query.Cursor{Key: first.value, Namespace: first.namespace, Name: first.name}
	n, err := l.ask(ctx, source, l.parameters("cursor", at.String(), "limit", strconv.Itoa(len(rows))), rows, to)
	if err != nil || n < len(rows) {
		return err
	}
	// Others came between them meanwhile.
	var names []string
	for i := range rows {
		if r := &rows[i]; to[r.uid].Len() == 0 && !slices.Contains(names, r.name) && len(names) < mostNames {
			names = append(names, r.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	_, err = l.ask(ctx, source, l.parameters("names", strings.Join(names, ","), "limit", strconv.Itoa(mostItems)), rows, to)
	return err
}

// ask adds those objects of an answer that rows name, and returns how many the answer has.
func (l *list) ask(ctx context.Context, source int, v url.Values, rows []key, to map[string]row.Item) (n int, err error) {
	identified(v)
	header, list := l.header, "items"
	if l.form.Table {
		header, list = header.Clone(), "rows"
		header.Set("Accept", row.AcceptTable)
	}
	err = l.sources[source].read(ctx, v, header, maxItems, l.counting(source), func(text string) error {
		if !rawjson.Valid(text, row.MaxDepth) {
			return faulty()
		}
		l.holds(text)
		if l.form.Table {
			of, err := row.ColumnsOf(text)
			if err != nil {
				return err //nolint:wrapcheck // it makes the cluster faulty
			}
			l.mu.Lock()
			l.columns[source] = of
			l.mu.Unlock()
		}
		n, err = l.readItems(rawjson.Get(text, list), source, rows, to)
		return err
	})
	return n, err
}

// identified has objects of which only some fields are asked for tell which they are.
func identified(v url.Values) {
	if fields := v.Get("fields"); fields != "" {
		v.Set("fields", fields+",.metadata.uid,.metadata.name,.metadata.namespace")
	}
}

// readItems adds those objects of an answer that rows name, and returns how many the answer has.
func (l *list) readItems(items string, source int, rows []key, to map[string]row.Item) (n int, err error) {
	all := rawjson.Array(items)
	for all.Next() {
		if n++; n > mostItems {
			return n, faulty()
		}
		id, err := l.form.Identify(all.Value)
		if err != nil {
			return n, err
		}
		if err := l.take(all.Value, id, source, rows, to); err != nil {
			return n, err
		}
	}
	return n, nil
}

// take adds an object where a row names it.
func (l *list) take(item string, id row.Identity, source int, rows []key, to map[string]row.Item) error {
	i := slices.IndexFunc(rows, func(r key) bool { return r.uid == id.UID })
	if i < 0 {
		return nil
	}
	if rows[i].name != id.Name || rows[i].namespace != id.Namespace {
		return faulty()
	}
	marked, err := l.form.Mark(item, id, l.sources[source].Name)
	if err == nil {
		to[id.UID] = marked
	}
	return err //nolint:wrapcheck // it makes the cluster faulty
}
