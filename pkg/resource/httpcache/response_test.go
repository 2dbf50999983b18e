package httpcache

import (
	"context"
	"errors"
	"testing"

	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store/index"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
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
	f := all.Reserve(t.Context())
	for _, step := range []struct {
		n, now int64
		code   int32
	}{{40 << 10, 0, 0}, {30 << 10, 70 << 10, 0}, {830 << 10, 900 << 10, 0}, {1, 900 << 10, 413}} {
		if err := f.Add(step.n); code(err) != step.code || all.inFlight.bytes != step.now {
			t.Errorf("%d more: %v, %d in flight", step.n, err, all.inFlight.bytes)
		}
	}
	g := all.Reserve(t.Context())
	if err := g.Add(200 << 10); code(err) != 429 || all.inFlight.bytes != 900<<10 {
		t.Errorf("%v, %d in flight", err, all.inFlight.bytes)
	}
	g.Release()
	f.Release()
	f.Release()
	if n := all.inFlight.bytes; n != 0 {
		t.Errorf("%d left over", n)
	}
}

// U8: the long answers of one owner leave half of the bytes to others, whatever they are.
func TestTheAnswersOfOneOwnerLeaveRoomForOthers(t *testing.T) {
	all := NewResponses(64<<20, 16<<20)
	as := func(name string) context.Context { return request.WithUser(t.Context(), &user.DefaultInfo{Name: name}) }
	var of []*Reservation
	fill := func(name string, n int64) (held int64) {
		for {
			f := all.Reserve(as(name))
			if f.Add(n) != nil {
				return held
			}
			of, held = append(of, &f), held+n
		}
	}
	const accounts = "system:serviceaccount:shop:"
	if held := fill("ann", 4<<20) + fill("ann", 64<<10); held != 32<<20 {
		t.Errorf("one owner has %d bytes", held)
	}
	if held := fill(accounts+"one", 100<<10) + fill(accounts+"two", 100<<10); held == 0 || held > 32<<20 {
		t.Errorf("the service accounts of a namespace have %d bytes", held)
	}
	for _, f := range of {
		f.Release()
		f.Release()
	}
	if held := fill(accounts+"one", 100<<10) + fill("system:serviceaccount:another:one", 100<<10); held == 0 || held > 32<<20 {
		t.Errorf("the service accounts of two namespaces have %d bytes", held)
	}
	for _, f := range of {
		f.Release()
	}
	if n := all.inFlight.bytes; n != 0 || len(all.inFlight.of) != 0 {
		t.Errorf("%d left over, of %v", n, all.inFlight.of)
	}
	one := NewResponses(10<<20, 7<<20).Reserve(as("ann"))
	if err := one.Add(7 << 20); err != nil {
		t.Errorf("the longest answer, of more than half: %v", err)
	}
	small := testing.AllocsPerRun(100, func() {
		f := all.Reserve(t.Context())
		_ = f.Add(smallAnswer - 1)
		f.Release()
	})
	if small != 0 {
		t.Errorf("a small answer allocates %v times", small)
	}
}
