package aggregated

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
)

// held is a client that begins to read its answer when it is told to.
type held struct {
	*httptest.ResponseRecorder
	began, read chan struct{}
}

func (h held) Write(b []byte) (int, error) {
	close(h.began) // an answer to a Query is written at once
	<-h.read
	return h.ResponseRecorder.Write(b)
}

// U8: the bytes of answers to Queries count until they are sent, and no answer has more than one may have.
func TestU8AnswersToQueriesAreBoundedUntilTheyAreSent(t *testing.T) {
	c := &cluster{}
	c.allow(allPods, "bob list /pods /", "eve list /pods /")
	var pods []any
	for i := range 40 {
		pods = append(pods, fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"a","name":"p%d","uid":"u%d","resourceVersion":"5",`+
			`"annotations":{"a":%q}}}`, i, i, strings.Repeat("x", 10<<10)))
	}
	h := New(Options{FrontProxy: c, Reviewer: c, Resources: resource.New(kapistest.NewStore(t, map[string][]any{"/api/v1/pods": pods}), resource.Options{}),
		Namespaces: c.namespaces, Unauthenticated: filter.LimitHTTP2, Drain: t.Context()})
	if h.answers == nil {
		t.Error("answers have no bound")
	}
	h.answers = httpcache.NewResponses(900<<10, 256<<10)
	chain := filter.Chain(h, filter.Info)
	create := func(w http.ResponseWriter, who string, limit int) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, root+"/queries", strings.NewReader(fmt.Sprintf(
			`{"apiVersion":"query.kapis.dev/v1alpha1","kind":"Query","spec":{"resource":"pods","limit":%d}}`, limit)))
		r.Header.Set("X-Remote-User", who)
		chain.ServeHTTP(w, r)
	}
	want := func(limit, code int) {
		t.Helper()
		rec := httptest.NewRecorder()
		if create(rec, "eve", limit); rec.Code != code {
			t.Errorf("with limit %d: %d %.300s, want %d", limit, rec.Code, rec.Body, code)
		}
	}
	want(40, http.StatusRequestEntityTooLarge)
	want(20, http.StatusCreated)
	var all sync.WaitGroup
	end := make(chan struct{})
	for i := range 4 { // of some 200 KiB each: one user has at most half
		one := held{httptest.NewRecorder(), make(chan struct{}), end}
		all.Go(func() { create(one, []string{"ann", "bob"}[i/2], 20) })
		if <-one.began; one.Code != http.StatusCreated {
			t.Errorf("%d", one.Code)
		}
		if i == 1 {
			rec := httptest.NewRecorder()
			if create(rec, "ann", 20); rec.Code != http.StatusTooManyRequests {
				t.Errorf("one user takes the room of the others: %d", rec.Code)
			}
		}
	}
	want(20, http.StatusTooManyRequests)
	want(2, http.StatusCreated)
	close(end)
	all.Wait()
	want(20, http.StatusCreated)
}
