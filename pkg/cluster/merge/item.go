package merge

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// AnnotationCluster says of which cluster an object of an answer is. No object has it stored.
const AnnotationCluster = "kapis.dev/cluster"

const (
	// maxItems is how many bytes of objects a cluster may send for one page.
	maxItems = 32 << 20
	// mostNames is how many objects are asked for by their names, after they were not where they had been.
	mostNames = 100
)

// fetch asks a cluster for the objects of rows, which follow each other there, and returns them by their UIDs. One that is gone is left out.
func (l *list) fetch(ctx context.Context, source int, rows []row) (map[string]string, error) {
	first := &rows[0]
	at := &query.Cursor{Key: first.key, Namespace: first.namespace, Name: first.name}
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
func (l *list) ask(ctx context.Context, source int, v url.Values, rows []row, to map[string]string) (n int, err error) {
	if fields := v.Get("fields"); fields != "" {
		v.Set("fields", fields+",.metadata.uid,.metadata.name,.metadata.namespace")
	}
	header, list := l.header, "items"
	if l.table {
		header, list = header.Clone(), "rows"
		header.Set("Accept", acceptTable)
	}
	text, err := l.sources[source].get(ctx, v, header, maxItems)
	if err != nil {
		return 0, err
	}
	if l.table {
		of, err := columnsOf(text)
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
		id, err := l.identify(all.Value)
		if err != nil {
			return n, err
		}
		i := slices.IndexFunc(rows, func(r row) bool { return r.uid == id.uid })
		if i < 0 {
			continue
		}
		if rows[i].name != id.name || rows[i].namespace != id.namespace {
			return n, faulty()
		}
		if to[id.uid], err = l.ofCluster(all.Value, l.sources[source].Name); err != nil {
			return n, err
		}
	}
	return n, nil
}

type identity struct{ uid, namespace, name string }

// identify reads which object an item is. An item that readers may take for several is refused: members whose names differ in case only, or
// in nothing.
func identify(item string) (id identity, err error) {
	metadata, err := only(item, "metadata")
	if err != nil {
		return id, err
	}
	if annotations, err := only(metadata, "annotations"); err != nil {
		return id, err
	} else if _, err := only(annotations, AnnotationCluster); err != nil {
		return id, err
	}
	for name, to := range map[string]*string{"uid": &id.uid, "namespace": &id.namespace, "name": &id.name} {
		value, err := only(metadata, name)
		if err != nil {
			return id, err
		}
		*to = rawjson.Text(value)
	}
	return id, nil
}

// only returns a member of an object, "" for none. The error is for one that is there more than once.
func only(object, name string) (value string, err error) {
	found := false
	for m := rawjson.Object(object); m.Next(); {
		if !strings.EqualFold(m.Key, name) {
			continue
		}
		if found || m.Key != name {
			return "", faulty()
		}
		found, value = true, m.Value
	}
	return value, nil
}

// ofCluster returns an item with the annotation of its cluster.
func ofCluster(item, cluster string) (string, error) {
	stored := rawjson.Cut{"metadata": {"annotations": {AnnotationCluster: nil}}}
	cut, err := rawjson.AppendWithout(nil, item, "", stored)
	if err != nil {
		return "", faulty()
	}
	set := string(rawjson.AppendString(append(rawjson.AppendString(nil, AnnotationCluster), ':'), cluster))
	text := string(cut)
	at, end, ok := rawjson.Span(text, "metadata", "annotations")
	if !ok {
		set = `"annotations":{` + set + "}"
		at, end, ok = rawjson.Span(text, "metadata")
	}
	if !ok || text[at] != '{' {
		return "", faulty()
	}
	return text[:at+1] + before(text[at:end], set) + text[at+1:], nil
}

// before returns the text of a member before the others of an object.
func before(object, member string) string {
	if m := rawjson.Object(object); m.Next() {
		return member + ","
	}
	return member
}
