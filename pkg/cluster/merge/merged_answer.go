package merge

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/row"
	"kapis.dev/ks-apiserver/pkg/cluster/merge/version"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/web"
)

// HeaderMissing names the clusters whose objects are not in an answer.
const HeaderMissing = "X-Kapis-Clusters-Missing"

// Answer is the answer to a list over clusters.
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

// Items returns the objects of the page.
func (a *Answer) Items() []row.Item { return a.items }

// Total returns how many objects there are in all clusters that answered.
func (a *Answer) Total() int { return a.total }

// AddSent adds how many bytes each cluster has sent for the answer.
func (a *Answer) AddSent(to map[string]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, n := range a.sent {
		to[a.sources[i].Name] += n
	}
}

// Next returns where the next page begins, "" for none.
func (a *Answer) Next() string { return a.next }

// Whole reports whether the answer has all that it would have if it was asked for now: no cluster failed that was asked, and no object of
// the page was gone.
func (a *Answer) Whole() bool {
	for i, o := range a.out {
		if o != nil && o.reason != "" && a.sources[i].Missing == nil {
			return false
		}
	}
	return len(a.items) == len(a.rows)
}

// Rendered is an answer as it is sent. It does not change. Its objects are where they were read: they are joined where they are written.
type Rendered struct {
	missing, tag, head string
	items              []row.Item
	length, size       int
}

// tail ends an answer, and itemSize is what an item takes besides its text.
const tail, itemSize = "]}", 128

// Render returns the answer as it is sent.
func (a *Answer) Render() *Rendered {
	d := &Rendered{missing: a.missingNames(), head: string(a.head()), items: a.items}
	if !a.form.Table { // the ages of a Table change
		d.tag = a.tag()
	}
	d.length = len(d.head) + max(0, len(d.items)-1) + len(tail)
	for _, item := range d.items {
		d.length += item.Len()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	d.size = len(d.missing) + len(d.tag) + len(d.head) + itemSize*len(d.items) + a.texts
	return d
}

// Begin sets the headers of the answer that are not its content's, and reports whether the client has the answer: then it has been told so.
func (d *Rendered) Begin(w http.ResponseWriter, r *http.Request) (done bool) {
	h := w.Header()
	if d.missing != "" {
		h.Set(HeaderMissing, d.missing)
	}
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Authorization, Accept, Accept-Encoding")
	if d.tag == "" {
		return false
	}
	h.Set("Etag", d.tag)
	if !web.HasTag(r.Header, d.tag) {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

// Length returns how many bytes the answer has, which is JSON.
func (d *Rendered) Length() int64 { return int64(d.length) }

// Write writes the answer, in pieces.
func (d *Rendered) Write(text func(string)) {
	text(d.head)
	for i, item := range d.items {
		if i > 0 {
			text(",")
		}
		item.Write(text)
	}
	text(tail)
}

// Size is roughly how many bytes the answer takes: of a cluster whose objects it has, all that was read.
func (d *Rendered) Size() int { return d.size }

// missingNames are the names of the missing clusters, joined by commas.
func (a *Answer) missingNames() string {
	names := make([]string, len(a.missing))
	for i, m := range a.missing {
		names[i] = m.Name
	}
	return strings.Join(names, ",")
}

// tag is made of what the answer is made of: the versions of the page's objects, the counts, and which clusters are not in it.
func (a *Answer) tag() string {
	rows, items, missing := make([]string, 0, 3*len(a.rows)), make([]string, 0, len(a.items)), make([]string, 0, 2*len(a.missing))
	for _, r := range a.rows {
		rows = append(rows, a.order.names[r.source], r.uid, r.version)
	}
	for _, item := range a.items { // some of the page may be gone, or newer
		items = append(items, rawjson.GetText(a.form.Object(item.Sent()), "metadata", "resourceVersion"))
	}
	for _, m := range a.missing {
		missing = append(missing, m.Name, string(m.Reason))
	}
	text := version.AppendParts(nil, strconv.Itoa(a.total), a.values.Get("fields"), a.next, a.counted())
	for _, of := range [][]string{rows, items, missing, a.refused} {
		text = version.AppendParts(text, of...)
	}
	d := sha256.Sum256(text)
	return `W/"` + base64.RawURLEncoding.EncodeToString(d[:18]) + `"`
}

// columnsOrNone returns the columns of the Table: the cluster alone, where no cluster has a row.
func (a *Answer) columnsOrNone() string { return cmp.Or(a.found.columns, row.Columns{}.Shown()) }

// head is what comes before the objects in {totalItems,metadata,resourceVersion,next,facets,clusters,items}.
func (a *Answer) head() []byte {
	b, items := append(make([]byte, 0, 1024), '{'), `,"items":[`
	if a.form.Table {
		b = append(append(b, `"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":`...), a.columnsOrNone()...)
		b, items = append(b, ','), `,"rows":[`
	}
	seen := a.seen.String()
	b = strconv.AppendInt(append(b, `"totalItems":`...), int64(a.total), 10)
	b = rawjson.AppendString(append(b, `,"metadata":{"resourceVersion":`...), seen)
	b = rawjson.AppendString(append(b, `},"resourceVersion":`...), seen)
	if a.next != "" {
		b = rawjson.AppendString(append(b, `,"next":`...), a.next)
	}
	b = append(b, a.counted()...)
	b = append(append(b, `,"clusters":`...), a.Clusters()...)
	return append(b, items...)
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
	f := &a.facets
	if a.byCluster {
		counts := map[string]int{}
		for i, k := range a.of {
			if k != nil && a.out[i] == nil {
				counts[a.sources[i].Name] = k.total
			}
		}
		f = f.With(sortCluster, counts)
	}
	return f.Text()
}
