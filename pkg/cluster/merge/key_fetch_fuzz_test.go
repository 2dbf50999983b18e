package merge

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/row"
	"kapis.dev/ks-apiserver/pkg/cluster/merge/version"
)

// Texts that are hashed together stay apart, whatever is in them, and so do lists that follow each other.
func FuzzPartsOfASumAreToldApart(f *testing.F) { // S62
	f.Add("1|1abcdefghijk", "11|abcdefghijk", 1) // a name and a UID, with the name's length before it in digits
	f.Add("a|b", "a|b|", 1)
	f.Add("a|b|c", "a|b|c", 2)
	f.Fuzz(func(t *testing.T, one, other string, at int) {
		a, b := strings.Split(one, "|"), strings.Split(other, "|")
		at = min(max(at, 0), len(a))
		if slices.Equal(a, b) != (string(version.AppendParts(nil, a...)) == string(version.AppendParts(nil, b...))) {
			t.Errorf("%q and %q", a, b)
		}
		if string(version.AppendParts(version.AppendParts(nil, a[:at]...), a[at:]...)) == string(version.AppendParts(nil, b...)) {
			t.Errorf("%q and %q are %q", a[:at], a[at:], b)
		}
	})
}

// What a live page tells items apart by is of one cluster and one UID, whatever a member says its UID is.
func FuzzItemsAreToldApart(f *testing.F) { // S62, F38
	f.Add("a", "b/c", "a-b", "c")
	f.Add("a", `"}}`, "a", `/`)
	f.Fuzz(func(t *testing.T, cluster, uid, otherCluster, otherUID string) {
		if len(validation.IsDNS1123Label(cluster)) > 0 || len(validation.IsDNS1123Label(otherCluster)) > 0 || uid == otherUID && cluster == otherCluster {
			return
		}
		item := func(cluster, uid string) row.Item {
			marked, err := row.Form{}.Mark(`{"metadata":{"uid":`+strconv.Quote(uid)+`}}`, row.Identity{UID: uid}, cluster)
			if err != nil {
				t.Fatal(err)
			}
			return marked
		}
		if !strconv.CanBackquote(uid) || !strconv.CanBackquote(otherUID) { // Go quotes what else is in it otherwise than JSON
			return
		}
		a := &Answer{list: &list{Options: &Options{}}, found: &found{items: []row.Item{item(cluster, uid), item(otherCluster, otherUID)}}}
		if keys := a.itemKeys(); keys[0] == keys[1] {
			t.Errorf("%s and %s have the key %q", a.items[0], a.items[1], keys[0])
		}
	})
}

// The position in an answer is taken for the question that it is of, and for no other.
func TestQuestionsAreToldApart(t *testing.T) { // S62
	ask := func(values url.Values, cluster int, names ...string) *Options {
		o := &Options{values: values, Clusters: names}
		o.order.cluster = cluster
		return o
	}
	one := ask(url.Values{"name": {"x"}}, -1, "a", "b")
	for claim, other := range map[string]*Options{
		"one name with a comma":        ask(url.Values{"name": {"x"}}, -1, "a,b"),
		"names as a parameter":         ask(url.Values{"name": {"x"}, "clusters": {"a,b"}}, -1),
		"the order of clusters":        ask(url.Values{"name": {"x"}}, 0, "a", "b"),
		"another name":                 ask(url.Values{"name": {"x&clusters=a"}}, -1, "a", "b"),
		"a parameter like the order's": ask(url.Values{"name": {"x"}, "clusterKey": {"0"}}, -1, "a", "b"),
	} {
		if one.sum("/a") == other.sum("/a") {
			t.Errorf("%s: it is the same question", claim)
		}
	}
	if ask(url.Values{"clusterKey": {"0"}}, -1).sum("/a") == ask(url.Values{}, 0).sum("/a") {
		t.Error("a parameter is taken for the order of clusters")
	}
	if one.sum("/a") != ask(url.Values{"name": {"x"}}, -1, "a", "b").sum("/a") || one.sum("/a") == one.sum("/a?name=x") {
		t.Error("a question is not itself, or the path of another one")
	}
}

// Of two answers whose parts read alike when they are joined, each has its own tag.
func TestAnswersAreToldApart(t *testing.T) { // S62
	l := &list{Options: &Options{values: url.Values{}}}
	a := &Answer{list: l, found: &found{}, missing: []Missing{{Name: "b", Reason: "Timeout"}}}
	b := &Answer{list: l, found: &found{}, refused: []string{"b", "Timeout"}}
	if a.tag() == b.tag() {
		t.Error("a cluster that is missing reads as two that refuse")
	}
}
