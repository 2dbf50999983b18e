package merge

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/row"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/web"
)

// HeaderMissing names the clusters whose objects are not in an answer.
const HeaderMissing = "X-Kapis-Clusters-Missing"

// Answer is the answer to a list over clusters. It is a web.Responder.
type Answer struct {
	*list
	*found
	asked, answered int
	missing         []Missing
	refused         []string
	next            string
}

// Missing returns the clusters whose objects are not in the answer.
func (a *Answer) Missing() []Missing { return a.missing }

// Refused returns the clusters that refuse, and the names of none that the caller may enter.
func (a *Answer) Refused() []string { return a.refused }

// Items returns the objects of the page, as JSON.
func (a *Answer) Items() []string { return a.items }

// Total returns how many objects there are in all clusters that answered.
func (a *Answer) Total() int { return a.total }

// Next returns where the next page begins, "" for none.
func (a *Answer) Next() string { return a.next }

var _ web.Responder = (*Answer)(nil)

// Respond implements web.Responder.
func (a *Answer) Respond(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if len(a.missing) > 0 {
		names := make([]string, len(a.missing))
		for i, m := range a.missing {
			names[i] = m.Name
		}
		h.Set(HeaderMissing, strings.Join(names, ","))
	}
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Authorization, Accept, Accept-Encoding")
	if !a.form.Table { // the ages of a Table change
		tag := a.tag()
		h.Set("Etag", tag)
		if web.HasTag(r.Header, tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	text := a.text()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // the client is gone
	}
}

// tag is made of what the answer is made of: the versions of the page's objects, the counts, and which clusters are not in it.
func (a *Answer) tag() string {
	text := strconv.AppendInt(nil, int64(a.total), 10)
	part := func(parts ...string) {
		for _, s := range parts {
			text = append(strconv.AppendInt(append(text, ' '), int64(len(s)), 10), ':')
			text = append(text, s...)
		}
	}
	part(a.values.Get("fields"), a.next, a.counted())
	for _, r := range a.rows {
		part(a.order.names[r.source], r.uid, r.version)
	}
	for _, item := range a.items { // some of the page may be gone, or newer
		part(rawjson.GetText(a.form.Object(item), "metadata", "resourceVersion"))
	}
	for _, m := range a.missing {
		part(m.Name, string(m.Reason))
	}
	part(a.refused...)
	d := sha256.Sum256(text)
	return `W/"` + base64.RawURLEncoding.EncodeToString(d[:18]) + `"`
}

// columnsOrNone returns the columns of the Table: the cluster alone, where no cluster has a row.
func (a *Answer) columnsOrNone() string { return cmp.Or(a.found.columns, row.Columns{}.Shown()) }

// text is {items,totalItems,facets,next,resourceVersion,clusters}.
func (a *Answer) text() []byte {
	n := 1024
	for _, item := range a.items {
		n += len(item) + 1
	}
	b, items := append(make([]byte, 0, n), '{'), `,"items":[`
	if a.form.Table {
		b = append(append(b, `"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":`...), a.columnsOrNone()...)
		b, items = append(b, ','), `,"rows":[`
	}
	b = strconv.AppendInt(append(b, `"totalItems":`...), int64(a.total), 10)
	b = rawjson.AppendString(append(b, `,"metadata":{"resourceVersion":`...), a.seen.String())
	b = rawjson.AppendString(append(b, `},"resourceVersion":`...), a.seen.String())
	if a.next != "" {
		b = rawjson.AppendString(append(b, `,"next":`...), a.next)
	}
	b = append(b, a.counted()...)
	b = append(append(b, `,"clusters":`...), a.Clusters()...)
	b = append(b, items...)
	for i, item := range a.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, "]}"...)
}

// Clusters says, as JSON, which were asked, and which are not in the answer.
func (a *Answer) Clusters() []byte {
	text, err := json.Marshal(struct {
		Asked    int       `json:"asked"`
		Answered int       `json:"answered"`
		Missing  []Missing `json:"missing"`
		Refused  []string  `json:"refused,omitempty"`
	}{a.asked, a.answered, append([]Missing{}, a.missing...), a.refused})
	if err != nil {
		return []byte("{}") // names and times can be encoded
	}
	return text
}

// counted returns the members "facets" and "facetsOthers", "" for none.
func (a *Answer) counted() string {
	f := a.facets
	if a.byCluster {
		counts := map[string]int{}
		for i, k := range a.of {
			if k != nil && a.out[i] == nil {
				counts[a.sources[i].Name] = k.total
			}
		}
		f.of = append(slices.Clip(f.of), facet{name: sortCluster, counts: counts})
	}
	return f.text()
}

// mostValues is how many values of a facet an answer has.
const mostValues = 1000

// facets are counts of all clusters.
type facets struct{ of []facet }

type facet struct {
	name   string
	counts map[string]int
	others int
}

// add adds the counts of one cluster.
func (f *facets) add(k *keys) {
	for name, counts := range k.facets {
		i := slices.IndexFunc(f.of, func(one facet) bool { return one.name == name })
		if i < 0 {
			if len(f.of) >= 8 { // as many as can be asked for
				continue
			}
			i, f.of = len(f.of), append(f.of, facet{name: name, counts: map[string]int{}})
		}
		for value, n := range counts {
			f.of[i].counts[value] += n
		}
		f.of[i].others += k.others[name]
	}
}

// text returns them as lists of one cluster have them: the most frequent value first.
func (f *facets) text() string {
	if len(f.of) == 0 {
		return ""
	}
	slices.SortFunc(f.of, func(a, b facet) int { return strings.Compare(a.name, b.name) })
	b, others := []byte(`,"facets":{`), []byte(nil)
	for i, one := range f.of {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(rawjson.AppendString(b, one.name), ":{"...)
		values := make([]string, 0, len(one.counts))
		for v := range one.counts {
			values = append(values, v)
		}
		slices.SortFunc(values, func(a, b string) int {
			return cmp.Or(cmp.Compare(one.counts[b], one.counts[a]), strings.Compare(a, b))
		})
		for ; len(values) > mostValues; values = values[:len(values)-1] {
			one.others += one.counts[values[len(values)-1]]
		}
		for j, v := range values {
			if j > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(append(rawjson.AppendString(b, v), ':'), int64(one.counts[v]), 10)
		}
		b = append(b, '}')
		if one.others > 0 {
			others = append(rawjson.AppendString(append(others, ','), one.name), ':')
			others = strconv.AppendInt(others, int64(one.others), 10)
		}
	}
	b = append(b, '}')
	if len(others) > 0 {
		b = append(append(append(b, `,"facetsOthers":{`...), others[1:]...), '}')
	}
	return string(b)
}
