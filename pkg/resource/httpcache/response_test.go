package httpcache

import (
	"errors"
	"testing"

	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/store/index"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTagsDifferWhereAnyPartDoes(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][]string{{"a", "b"}, {"ab", ""}, {"", "ab"}, {"a"}, {"a", "b", ""}, {"a", "c"}} {
		tag := Tag(parts...)
		if len(tag) != 28 || seen[tag] || tag != Tag(parts...) {
			t.Errorf("%q: %s", parts, tag)
		}
		seen[tag] = true
	}
}

func TestDigestIsThatOfTheVersionsInTheirOrder(t *testing.T) {
	record := func(uid, version, json string) *index.Record {
		return &index.Record{JSON: textOf(t, json), UID: uid, ResourceVersion: version}
	}
	a, b := record("a", "1", "x"), record("b", "2", "yy")
	of := func(r ...*index.Record) Digest {
		d, _ := DigestOf(r)
		return d
	}
	if of(a, b) == of(b, a) || of(a) == of(a, b) || of(a) == of(record("a", "2", "x")) || of(nil...) == of(a) {
		t.Error("different pages have one digest")
	}
	if of(record("a", "1", "x,y")) == of(record("a", "1", "y,z")) {
		t.Error("a version that a restored etcd gave a second time has the digest of the first")
	}
	if same := record("a", "1", "x"); of(same) != of(a) {
		t.Error("the same version has another digest")
	}
	if of(a) == of(record("a", "1", "x and data")) {
		t.Error("an object with its data has the digest of that without")
	}
	if of(record("", "1", "x")) == of(record("", "1", "y")) {
		t.Error("objects without a UID are told by nothing")
	}
	var many []*index.Record
	for range 1000 {
		many = append(many, a, b)
	}
	if _, n := DigestOf(many); n != 3000 || of(many...) == of(many[2:]...) {
		t.Errorf("%d bytes", n)
	}
}

// textOf is the text of an object of a kind without hidden fields.
func textOf(t testing.TB, text string) redaction.Shown {
	t.Helper()
	shown, err := redaction.Received(text).Shown(schema.GroupResource{Resource: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

func TestAReservationCountsWhatItIs(t *testing.T) {
	code := func(err error) int32 {
		var s apierrors.APIStatus
		if errors.As(err, &s) {
			return s.Status().Code
		}
		return 0
	}
	all := NewResponses(1<<20, 900<<10)
	f := all.Reserve()
	for _, step := range []struct {
		n, now int64
		code   int32
	}{{40 << 10, 0, 0}, {30 << 10, 70 << 10, 0}, {830 << 10, 900 << 10, 0}, {1, 900 << 10, 413}} {
		if err := f.Add(step.n); code(err) != step.code || all.inFlight.bytes.Load() != step.now {
			t.Errorf("%d more: %v, %d in flight", step.n, err, all.inFlight.bytes.Load())
		}
	}
	g := all.Reserve()
	if err := g.Add(200 << 10); code(err) != 429 || all.inFlight.bytes.Load() != 900<<10 {
		t.Errorf("%v, %d in flight", err, all.inFlight.bytes.Load())
	}
	g.Release()
	f.Release()
	f.Release()
	if n := all.inFlight.bytes.Load(); n != 0 {
		t.Errorf("%d left over", n)
	}
}
