package merge_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
	"kapis.dev/ks-apiserver/pkg/cluster/merge/budget"
)

// padded returns a member without objects, whose answers have so many bytes more than they need.
func padded(name string, bytes int) *member {
	m := &member{name: name}
	m.answer = func(_ url.Values, w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"totalItems":0,"start":0,"metadata":{"resourceVersion":"7"},"rows":[],"pad":"`+strings.Repeat("x", bytes)+`"}`)
		return true
	}
	return m
}

// F17, F39: what a list holds of the answers of clusters has one bound, however many they are, and so has what all lists hold: a cluster that sends much is
// missing where there is no room for that, and spoils nothing; where clusters that send little have no room, the list is refused, until others are done.
func TestWhatListsHoldHasABound(t *testing.T) {
	const kib = 1 << 10
	all := budget.New(400*kib, 200*kib)
	honest := &member{name: "a", objects: []object{{namespace: "n", name: "one", uid: "u1", version: 1}}}
	small := []*member{honest}
	for i := range 9 {
		small = append(small, padded(fmt.Sprintf("m%d", i), 17*kib))
	}
	var held []*budget.Share
	list := func(asked ...*member) (*merge.Answer, error) {
		t.Helper()
		o, err := merge.ParseOptions(url.Values{"memberTimeout": {"10s"}, "limit": {"10"}})
		if err != nil {
			t.Fatal(err)
		}
		share := all.Share()
		held = append(held, share)
		return (&merge.List{Path: "/kapi/v1/pods", Header: http.Header{}, Now: time.Now, Sources: sources(asked), Share: share}).Answer(t.Context(), o)
	}
	release := func() {
		for _, s := range held {
			s.Release()
		}
		held = nil
	}
	whole := func(what string, all ...*member) {
		t.Helper()
		if a, err := list(all...); err != nil || a.Total() != 1 || len(a.Items()) != 1 || len(a.Missing()) != 0 {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
	}
	without := func(what, reason string, all ...*member) {
		t.Helper()
		a, err := list(all...)
		if err != nil || len(a.Items()) != 1 || len(a.Missing()) != 1 || a.Missing()[0].Name != "liar" || string(a.Missing()[0].Reason) != reason {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
	}
	liar := padded("liar", 400*kib)
	for range 3 { // nothing of it stays
		without("one that sends much", "Faulty", honest, liar)
		release()
		whole("those that send little", small...)
		release()
		if _, err := list(append(small, padded("m9", 20*kib), padded("n", 20*kib), padded("o", 20*kib))...); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("too many that send little: %v", err)
		}
		release()
	}
	whole("the first", small...)
	whole("the second", small...)
	without("one that sends much, next to others", "NotReady", honest, padded("liar", 60*kib))
	_, err := list(small...)
	if seconds, again := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !again || seconds == 0 {
		t.Errorf("the third: %v", err)
	}
	release()
	whole("once the others are done", small...)
}
