package resource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/resource/page"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/plan"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// churning is a world of random pods that change, and a model of them.
type churning struct {
	*world

	r       *rand.Rand
	pods    map[string]*corev1.Pod // by namespace and name
	version int
	made    int
}

const podsPath = "/api/v1/pods"

func newChurning(t testing.TB, seed uint64, n int) *churning {
	c := &churning{r: rand.New(rand.NewPCG(seed, 3)), pods: map[string]*corev1.Pod{}, version: 1000}
	var objects []string
	for range n {
		p := c.newPod()
		c.pods[p.Namespace+"/"+p.Name] = p
		objects = append(objects, jsonOf(p))
	}
	c.world = newWorld(t, map[string][]string{podsPath: objects}, Options{})
	return c
}

func jsonOf(p *corev1.Pod) string {
	text, _ := json.Marshal(p)
	return string(text)
}

func (c *churning) newPod() *corev1.Pod {
	c.made++
	p := randomPod(c.r, c.made)
	p.Name = fmt.Sprintf("%s-%d", strings.SplitN(p.Name, "-", 2)[0], c.made)
	return p
}

// change makes one random event: a new pod, another version of one, a deleted one, or one that is created again under its name.
func (c *churning) change() {
	c.version++
	keys := slices.Sorted(maps.Keys(c.pods))
	send := func(event string, p *corev1.Pod) {
		p.ResourceVersion = strconv.Itoa(c.version)
		c.send(podsPath, event, jsonOf(p))
	}
	what := c.r.IntN(10)
	if len(keys) == 0 || what < 2 {
		p := c.newPod()
		c.pods[p.Namespace+"/"+p.Name] = p
		send("ADDED", p)
		return
	}
	old := c.pods[keys[c.r.IntN(len(keys))]]
	key := old.Namespace + "/" + old.Name
	if what < 4 {
		delete(c.pods, key)
		send("DELETED", old)
		return
	}
	p := c.newPod()
	p.Name, p.Namespace = old.Name, old.Namespace
	if what < 9 {
		p.UID, p.CreationTimestamp = old.UID, old.CreationTimestamp
	} else {
		p.UID = types.UID(fmt.Sprintf("again-%d", c.version))
		if c.r.IntN(2) == 0 {
			p.CreationTimestamp = old.CreationTimestamp
		}
	}
	c.pods[key] = p
	send("MODIFIED", p)
}

func (c *churning) all() []*corev1.Pod { return slices.Collect(maps.Values(c.pods)) }

// facetsModel is the naive count.
var facetsModel = map[string]func(*corev1.Pod) string{
	".status.phase":        func(p *corev1.Pod) string { return string(p.Status.Phase) },
	".spec.nodeName":       func(p *corev1.Pod) string { return p.Spec.NodeName },
	".metadata.labels.app": func(p *corev1.Pod) string { return p.Labels["app"] },
	".metadata.labels":     func(*corev1.Pod) string { return "" }, // an object
	".metadata.annotations['kubesphere.io/alias-name']": func(p *corev1.Pod) string { return p.Annotations["kubesphere.io/alias-name"] },
}

// question is a query that is repeated, and its meaning.
type question struct {
	scope  plan.Scope
	values url.Values
	chosen []filter
	sortBy string
	facets []string
}

func (c *churning) question(all []filter, sortKeys []string) question {
	q := question{values: url.Values{}, scope: scopes[c.r.IntN(len(scopes))], sortBy: sortKeys[c.r.IntN(len(sortKeys))]}
	for range c.r.IntN(3) {
		if f := all[c.r.IntN(len(all))]; !q.values.Has(f.key) {
			q.values.Set(f.key, f.value)
			q.chosen = append(q.chosen, f)
		}
	}
	if q.sortBy != "" {
		q.values.Set("sortBy", q.sortBy)
	}
	for path := range facetsModel {
		if c.r.IntN(4) == 0 {
			q.facets = append(q.facets, path)
		}
	}
	if len(q.facets) > 0 {
		q.values.Set("facets", strings.Join(q.facets, ","))
	}
	return q
}

// The property: after any number of changes, cached results, counts and pages are what a model finds that tests every object, for any
// filters, order, scope and page.
func TestStandingResultsAnswerLikeTheModel(t *testing.T) {
	const rounds = 9
	all, sortKeys := filters(), slices.Sorted(maps.Keys(sorts))
	for seed := uint64(1); seed <= seeds; seed++ {
		c := newChurning(t, seed, c0(seed))
		kind := c.resolve(t, "", "pods")
		questions := make([]question, 24)
		for i := range questions {
			questions[i] = c.question(all, sortKeys)
			for _, f := range questions[i].chosen {
				if f.value == "deployment1" { // there are no ReplicaSets in this world
					questions[i].chosen, questions[i].values = nil, url.Values{"sortBy": {questions[i].sortBy}}
					questions[i].facets = nil
					break
				}
			}
		}
		for round := range rounds {
			for range c.r.IntN([]int{2, 30, 300}[round%3]) {
				c.change()
			}
			pods := c.all()
			for _, q := range questions {
				if c.r.IntN(3) == 0 && round < rounds-1 {
					continue // some fall behind
				}
				values := maps.Clone(q.values)
				values.Set("resourceVersion", strconv.Itoa(c.version))
				want := model(pods, q.scope, q.chosen, sorts[q.sortBy])
				compareWithModel(t, c.world, kind, q.scope, values, want)
				compareFacets(t, c.world, q, values, pods, want)
			}
		}
	}
}

// c0 is how many pods there are at first: none, few, and more than a scan tests between two checks.
func c0(seed uint64) int { return []int{0, 30, 400}[seed%3] }

func compareFacets(t testing.TB, w *world, q question, values url.Values, pods []*corev1.Pod, want []string) {
	t.Helper()
	if len(q.facets) == 0 {
		return
	}
	counts := map[string]map[string]int{}
	for _, path := range q.facets {
		parsed, _ := query.ParsePath(path)
		of := map[string]int{}
		counts[parsed.String()] = of
		for _, p := range pods {
			if slices.Contains(want, p.Namespace+"/"+p.Name) {
				of[facetsModel[path](p)]++
			}
		}
	}
	values.Set("limit", "1")
	page, err := w.list(t, w.resolve(t, "", "pods"), q.scope, values.Encode())
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Facets map[string]map[string]int }
	rec := httptest.NewRecorder()
	page.Items().Respond(rec, httptest.NewRequest(http.MethodGet, "/", nil))
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, rec.Body)
	}
	if !maps.EqualFunc(got.Facets, counts, maps.Equal) {
		t.Fatalf("%v:\ngot  %v\nwant %v", values, got.Facets, counts)
	}
}

// Cached answers are those of the requested page, of the present, in any requested form; and a tag stands for one answer.
func TestKeptPagesAreNeverThoseOfAnother(t *testing.T) {
	c := newChurning(t, 7, 60)
	kind := c.resolve(t, "", "pods")
	sortKeys := []string{"", "name", ".status.phase,name"}
	tags := map[string]string{} // tag and URL -> items
	cached := 0
	for round := range 1500 {
		if c.r.IntN(8) == 0 {
			c.change()
		}
		values := url.Values{
			"limit": {[]string{"-1", "3", "10"}[c.r.IntN(3)]}, "page": {strconv.Itoa(1 + c.r.IntN(2))}, "ascending": {strconv.FormatBool(c.r.IntN(2) == 0)},
			"sortBy": {sortKeys[c.r.IntN(3)]},
		}
		switch c.r.IntN(4) {
		case 0:
			values.Set("fields", ".metadata.name,.metadata.namespace")
		case 1:
			values.Set("fields", ".metadata.name,.metadata.namespace,.status.phase")
		}
		if c.r.IntN(3) == 0 {
			values.Set("facets", ".status.phase")
		}
		if c.r.IntN(3) == 0 {
			values.Set("status", "Running")
		}
		scope := scopes[c.r.IntN(len(scopes))]
		id := fmt.Sprintf("%+v %s", scope, values.Encode())
		values.Set("resourceVersion", strconv.Itoa(c.version))
		got, err := c.list(t, kind, scope, values.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if got.Body != nil {
			cached++
		}
		fresh := New(c.store, Options{})
		q, _ := query.Parse(values)
		want, err := fresh.List(t.Context(), kind, scope, q)
		if err != nil {
			t.Fatal(err)
		}
		for form, both := range map[string][2]*page.Answer{"items": {got.Items(), want.Items()}, "list": {got.List(), want.List()}} {
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			plain := httptest.NewRecorder()
			both[1].Respond(plain, req)
			zip := c.r.IntN(2) == 0
			if zip {
				req.Header.Set("Accept-Encoding", "gzip")
			}
			rec := httptest.NewRecorder()
			both[0].Respond(rec, req)
			body := rec.Body.Bytes()
			if n := rec.Header().Get("Content-Length"); n != strconv.Itoa(len(body)) {
				t.Fatalf("%d: Content-Length %s of %d", round, n, len(body))
			}
			if rec.Header().Get("Content-Encoding") == "gzip" {
				body = gunzip(t, body)
			}
			if !bytes.Equal(body, plain.Body.Bytes()) {
				t.Fatalf("%d %s %s:\ngot  %s\nwant %s", round, form, id, body, plain.Body)
			}
			tag := rec.Header().Get("ETag")
			if tag == "" || tag != plain.Header().Get("ETag") {
				t.Fatalf("%d: tag %s, that of another replica %s", round, tag, plain.Header().Get("ETag"))
			}
			_, items, _ := strings.Cut(string(body), `"items":`)
			items += strconv.Itoa(got.Total) + got.Facets
			if other, ok := tags[tag+form+id]; ok && other != items {
				t.Fatalf("%d: one tag for two answers:\n%s\n%s", round, items, other)
			}
			tags[tag+form+id] = items
			req.Header.Set("If-None-Match", tag)
			not := httptest.NewRecorder()
			both[0].Respond(not, req)
			if not.Code != http.StatusNotModified || not.Body.Len() != 0 || not.Header().Get("ETag") != tag || not.Header().Get("Vary") == "" || not.Header().
				Get("Cache-Control") == "" {
				t.Fatalf("%d: %d %v", round, not.Code, not.Header())
			}
		}
	}
	if cached == 0 {
		t.Error("nothing was kept, so nothing was tested")
	}
}
