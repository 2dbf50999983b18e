package merge

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/row"
	"kapis.dev/ks-apiserver/pkg/query"
)

// key is an object of a cluster, as far as its place in the order and its version.
type key struct {
	value, namespace, name, uid, version string
	source                               int
	// head is how many bytes of the key come before the cluster: all of it, where the cluster is no sort key.
	head int
}

// order is that of a list over clusters. It ends in namespace, name and cluster.
type order struct {
	ascending bool
	// cluster is how many sort keys come before the cluster, -1 where it is none of them.
	cluster int
	names   []string
}

// compare orders rows as they are read. No two rows of validated answers are equal.
func (o *order) compare(a, b *key) int {
	c := strings.Compare(a.value[:a.head], b.value[:b.head])
	if c == 0 && o.cluster >= 0 && a.source != b.source {
		c = strings.Compare(o.names[a.source], o.names[b.source])
	}
	if c == 0 {
		c = cmp.Or(strings.Compare(a.value[a.head:], b.value[b.head:]), strings.Compare(a.namespace, b.namespace),
			strings.Compare(a.name, b.name))
	}
	if c == 0 && a.source != b.source {
		c = strings.Compare(o.names[a.source], o.names[b.source])
	}
	if !o.ascending {
		c = -c
	}
	return c
}

// headOf returns key.head, -1 for a key that is malformed.
func (o *order) headOf(key string) int {
	if o.cluster < 0 {
		return len(key)
	}
	return row.SkipValues(key, o.cluster)
}

// position is after which row a page begins: what `next` has.
type position struct {
	Key       []byte `json:"k"`
	Namespace string `json:"s,omitempty"`
	Name      string `json:"n"`
	Cluster   string `json:"c"`
	// Query is a sum of what was asked for besides: a position in one order means nothing in another.
	Query string `json:"q"`
}

// maxNext bounds the text of a position. That of each row has to fit: a key of query.MaxKey bytes is encoded twice, and names of maxName
// bytes, which a cluster that is not trusted may write, may be escaped.
const maxNext = 24 << 10

func (p *position) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		return "" // texts can be encoded
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parsePosition(s, sum string) (*position, error) {
	p := &position{}
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(s) > maxNext || json.Unmarshal(text, p) != nil || len(p.Key) > query.MaxKey {
		return nil, query.Invalid("next", s, "the next of an answer")
	}
	if p.Query != sum {
		return nil, query.Invalid("next", s, "the next of an answer to the same query: the same path, filters, order and clusters")
	}
	return p, nil
}

// seek returns where the rows of a cluster begin that come after a position.
func (o *order) seek(p *position, cluster string) *query.Cursor {
	own := &query.Cursor{After: true, Key: string(p.Key), Namespace: p.Namespace, Name: p.Name}
	if cluster == p.Cluster {
		return own
	}
	later := (cluster > p.Cluster) == o.ascending
	if o.cluster < 0 {
		own.After = !later // an equal row of a later cluster comes after it
		return own
	}
	// All rows with the same values before the cluster come, or none.
	head := string(p.Key[:max(0, row.SkipValues(string(p.Key), o.cluster))])
	if later != o.ascending { // the end of those rows, not their beginning
		head += "\xff"
	}
	return &query.Cursor{Key: head}
}
