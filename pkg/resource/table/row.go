package table

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// Texts in the place of a value, as kubectl's users know them.
const (
	none    = "<none>"
	unset   = "<unset>"
	unknown = "<unknown>"
	// hidden is in the place of a number of keys that the answer does not show.
	hidden = "<hidden>"
)

// row collects the cells of one object, as JSON.
type row struct {
	cells []byte
	// now is what ages are computed from.
	now time.Time
	// dataHidden says that the object is shown without its data.
	dataHidden bool
	// keyCount is how many keys the data has that is not shown, "" where that is not shown either.
	keyCount string
}

func (r *row) next() {
	if len(r.cells) > 0 {
		r.cells = append(r.cells, ',')
	}
}

// text adds a text.
func (r *row) text(s string) {
	r.next()
	r.cells = rawjson.AppendString(r.cells, s)
}

// texts adds a text for each of several.
func (r *row) texts(all ...string) {
	for _, s := range all {
		r.text(s)
	}
}

// or adds a text, or another where it is empty.
func (r *row) or(s, other string) {
	if s == "" {
		s = other
	}
	r.text(s)
}

// number adds an integer.
func (r *row) number(n int64) {
	r.next()
	r.cells = strconv.AppendInt(r.cells, n, 10)
}

// raw adds a value as it is, null for none.
func (r *row) raw(v value) {
	r.next()
	if v == "" {
		v = "null"
	}
	r.cells = append(r.cells, v...)
}

// joined adds the texts of a list, or <none>.
func (r *row) joined(all []string, separator string) { r.or(strings.Join(all, separator), none) }

// name adds the name of an object.
func (r *row) name(o value) { r.text(o.text("metadata", "name")) }

// age adds how old an object is.
func (r *row) age(o value) { r.text(r.since(o.time("metadata", "creationTimestamp"))) }

// since returns how long ago a time was.
func (r *row) since(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return duration.HumanDuration(r.now.Sub(t))
}

// created adds when an object was made.
func (r *row) created(o value) {
	t := o.time("metadata", "creationTimestamp")
	if t.IsZero() {
		r.text(unknown)
		return
	}
	r.text(t.UTC().Format(time.RFC3339))
}

// containers adds the names and the images of the containers of a pod's specification.
func (r *row) containers(pod value) {
	all := pod.at("containers")
	r.text(strings.Join(all.texts("name"), ","))
	r.text(strings.Join(all.texts("image"), ","))
}

// selector adds a label selector (metav1.LabelSelector).
func (r *row) selector(v value) {
	if v == "" || v == "null" {
		r.text(none)
		return
	}
	var s metav1.LabelSelector
	if json.Unmarshal([]byte(v), &s) != nil {
		r.text("<error>")
		return
	}
	r.text(metav1.FormatLabelSelector(&s))
}

// pairs returns the members of an object of texts as key=value, sorted.
func (v value) pairs() string {
	var out []string
	for key, one := range v.members() {
		out = append(out, key+"="+one.text())
	}
	if len(out) == 0 {
		return none
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// few returns the first texts of a list, and how many more there are.
func few(all []string, most int) string {
	if len(all) <= most {
		return strings.Join(all, ",")
	}
	return strings.Join(all[:most], ",") + " + " + strconv.Itoa(len(all)-most) + " more..."
}

// share returns "a/b".
func share(a, b int64) string { return strconv.FormatInt(a, 10) + "/" + strconv.FormatInt(b, 10) }
