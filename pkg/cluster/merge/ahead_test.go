package merge_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// even returns clusters whose objects take turns in the order by name.
func even(clusters, each int) (out []*member) {
	for c := range clusters {
		m := &member{name: fmt.Sprintf("c%02d", c)}
		for i := range each {
			m.objects = append(m.objects, object{namespace: "a", name: fmt.Sprintf("p-%03d", i), version: 1, uid: fmt.Sprintf("%s-%d", m.name, i)})
		}
		out = append(out, m)
	}
	return out
}

// F40: a page that has a few objects of each cluster takes one question to each; a cluster that sends none with its keys, being older, is asked
// for them as before, and the page is the same.
func TestAPageOfFewClustersAsksEachOnce(t *testing.T) {
	v := url.Values{"sortBy": {"name"}, "ascending": {"true"}, "limit": {"10"}}
	members := even(3, 50)
	a := must(t, sources(members), v)
	for _, m := range members {
		if n := m.asked.Load(); n != 1 {
			t.Errorf("%s was asked %d times", m.name, n)
		}
	}
	for _, m := range members {
		m.older = true
	}
	if again := must(t, sources(members), v); len(a.Items) != 10 || !slices.Equal(a.ids(), again.ids()) || a.Next != again.Next {
		t.Errorf("%v, and of older clusters %v", a.ids(), again.ids())
	}
	many := even(30, 10)
	must(t, sources(many), v)
	twice := 0
	for _, m := range many {
		twice += int(m.asked.Load()) - 1
	}
	if twice != 10 {
		t.Errorf("of 30 clusters, %d were asked for objects", twice)
	}
}

// F34, F38: objects that come with their keys count where a row names them; what changed in between is asked for again, and one that claims to
// be another makes its cluster faulty.
func TestObjectsThatComeWithTheirKeysAreJudged(t *testing.T) {
	v := url.Values{"sortBy": {"name"}, "ascending": {"true"}, "limit": {"9"}}
	want := must(t, sources(even(3, 50)), v).ids()
	for what, change := range map[string]func(keys string) string{
		"without the second": func(s string) string { return strings.Replace(s, `"uid":"c01-1"`, `"uid":"new"`, 1) },
		"without any":        func(s string) string { return strings.Replace(s, `"items":[`, `"items":[],"others":[`, 1) },
		"none at all":        func(s string) string { return strings.Replace(s, `"items":[`, `"others":[`, 1) },
		"no array":           func(s string) string { return strings.Replace(s, `"items":[`, `"items":{},"others":[`, 1) },
	} {
		members := even(3, 50)
		altered(members[1], change)
		if got := must(t, sources(members), v); !slices.Equal(got.ids(), want) {
			t.Errorf("%s: %v, want %v", what, got.ids(), want)
		}
	}
	for what, change := range map[string]func(keys string) string{
		"another name":      func(s string) string { return strings.ReplaceAll(s, `"name":"p-000"`, `"name":"p-x"`) },
		"another namespace": func(s string) string { return strings.ReplaceAll(s, `"namespace":"a"`, `"namespace":"b"`) },
		"twice a UID":       func(s string) string { return strings.ReplaceAll(s, `"uid":"c01-0"`, `"uid":"c01-0","UID":"c00-0"`) },
	} {
		members := even(3, 50)
		altered(members[1], change)
		if m := must(t, sources(members), v).Clusters.Missing; len(m) != 1 || m[0].Name != "c01" || m[0].Reason != "Faulty" {
			t.Errorf("%s: %+v", what, m)
		}
	}
}

// altered has a member send keys with objects that are altered, once.
func altered(m *member, change func(string) string) {
	behind := &member{name: m.name, objects: m.objects}
	m.answer = func(v url.Values, w http.ResponseWriter) bool {
		if v.Get("objects") == "" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, change(served(behind, v)))
		return true
	}
}

// F34: pages with objects of their keys are those of one list, whatever the clusters have, older ones among them.
func TestPagesWithObjectsOfTheirKeysPartition(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		members := random(r, 1+r.IntN(6), 30)
		for _, m := range members {
			m.older = r.IntN(3) == 0
		}
		v := url.Values{"sortBy": {[]string{"name", "cluster,name", ".status.phase,cluster"}[r.IntN(3)]}, "ascending": {"true"}}
		want, got := model(members, v), []string(nil)
		for next := ""; ; {
			a := must(t, sources(members), with(v, "limit", fmt.Sprint(1+r.IntN(20)), "next", next))
			if got = append(got, a.ids()...); a.Next == "" {
				break
			}
			next = a.Next
		}
		if !slices.Equal(got, want) && len(got)+len(want) > 0 {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
	}
}

// served is what a member answers.
func served(m *member, v url.Values) string {
	w := httptest.NewRecorder()
	m.serve(w, v, http.Header{})
	return w.Body.String()
}
