package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"kapis.dev/ks-apiserver/tools/stack"
)

// podLists is the list that the benchmark asks for: all pods of the cluster.
const podLists = "/kapis/resources.kubesphere.io/v1alpha3/pods"

// connections is how many requests are open at the same time where processor time is measured.
const connections = 4

// counts are the requests of a round: fewer where they cost more.
type counts struct {
	page, large, sort, all int
	single                 int // one at a time
	passed                 int // on to kube-apiserver
}

// usual returns enough requests for the clocks of processes, which bound the time of a run.
func usual() counts {
	return counts{page: 8000, large: 2000, sort: 40, all: 3, single: 2000, passed: 1500}
}

// pageOfTen is a page by its number, from 1.
func pageOfTen(number int) string { return fmt.Sprintf("%s?limit=10&page=%d", podLists, number) }

// The lists that are asked for most.
const (
	page10  = podLists + "?limit=10&page=1"
	page100 = podLists + "?limit=100&page=1"
	allPods = podLists + "?limit=-1"
)

// onePod is a single object, as it is cached.
func onePod() string {
	return fmt.Sprintf("/kapis/resources.kubesphere.io/v1alpha3/namespaces/%s/pods/%s", podNamespace(10), podName(10))
}

// on returns the same request to a yardstick.
func (t target) on(y *process) target {
	t.addr, t.pid = y.addr, y.pid
	return t
}

// lists compares lists of the product with the bare handler and with the plain way to make a list.
type lists struct {
	client
	counts   counts
	rounds   int
	pods     int  // those that lists show
	podBytes int  // of JSON, in a list
	whole    bool // the product gives all pods in one answer
	report   *report
	bare     *process
	sort     *process
}

// answers returns answers of the product for the bare handler to repeat.
func (c client) answers(ctx context.Context, paths ...string) ([]answer, error) {
	var answers []answer
	for _, path := range paths {
		resp, err := c.get(ctx, path)
		if err != nil {
			return nil, err
		}
		answers = append(answers, answer{URI: path, Header: resp.Header, Body: resp.Body})
	}
	return answers, nil
}

// floor marks the answers that show what net/http alone costs where the goal is relative to another answer's cost.
const floor = "&floor=true"

// floors returns what the bare handler answers for the product's 304 and for its compressed page, where it has them.
func (c client) floors(ctx context.Context) ([]answer, error) {
	page, err := c.get(ctx, page10)
	if err != nil {
		return nil, err
	}
	var floors []answer
	if tag := page.Header.Get("ETag"); tag != "" {
		resp, err := c.Do(ctx, stack.Request{Path: page10, Header: c.header("If-None-Match", tag)})
		if err != nil {
			return nil, err
		}
		floors = append(floors, answer{URI: page10 + floor, Status: resp.Status, Header: resp.Header})
	}
	packed, err := c.get(ctx, page100, "Accept-Encoding", "gzip")
	if err == nil && packed.Header.Get("Content-Encoding") == "gzip" {
		floors = append(floors, answer{URI: page100 + floor, Header: packed.Header, Body: packed.Body})
	}
	return floors, err
}

// besideFloor compares a form of a page with the bare handler's whole page, for the product and for the bare handler: no handler of
// net/http is below the second.
func (l lists) besideFloor(ctx context.Context, name string, ours target, page string, count int, m measure) error {
	whole, err := l.at(page, http.StatusOK)
	if err != nil {
		return err
	}
	beside := map[string]string{page10: "bare-handler-page-10", page100: "bare-handler-page-100"}[page]
	bare := ours.on(l.bare)
	bare.path = page + floor
	for _, one := range []struct {
		name string
		target
		measure
	}{{name, ours, m}, {name + "-by-bare-handler", bare, cpu("")}} {
		err := l.play(ctx, contest{
			name: one.name, conns: connections, product: side{target: one.target, count: count},
			yardstick: &side{target: whole.on(l.bare), count: count}, beside: beside, measures: []measure{one.measure},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// run measures all lists. What can't be measured is reported, and the rest continues.
func (l lists) run(ctx context.Context) error {
	middle, last := max(l.pods/10/2, 1), max(l.pods/10, 1)
	steps := []struct {
		name string
		run  func(context.Context, string) error
	}{
		{"page-10", l.besideBare(page10, l.counts.page, cpu("ratio <= 1.30"))},
		{"page-10-alone", l.aloneBesideBare(page10)},
		{"page-100", l.besideBare(page100, l.counts.large, cpu("ratio <= 1.10"))},
		{"object", l.besideBare(onePod(), l.counts.page, cpu("ratio <= 1.30"))},
		{"not-modified", l.notModified},
		{"page-100-gzip", l.gzip},
		{"page-middle", l.besidePage10(pageOfTen(middle), cpu("ratio <= 1.10"))},
		{"page-last", l.besidePage10(pageOfTen(last), cpu("ratio <= 1.10"))},
		{"filter-name", l.besidePage10(podLists+"?limit=10&name=-0001", filtered)},
		{"filter-name-new", l.newNames},
		{"filter-label", l.besidePage10(podLists+"?limit=10&labelSelector="+url.QueryEscape(quarterLabel+"=0"), filtered)},
		{"filter-field", l.besidePage10(podLists+"?limit=10&fieldSelector="+url.QueryEscape(".spec.containers[0].env[4].value!=7"), filtered)},
		{"filter-status", l.besidePage10(podLists+"?limit=10&status=Running", filtered)},
		{"filter-cel", l.besidePage10(podLists+"?limit=10&cel="+url.QueryEscape(`object.status.phase == "Running"`), filtered)},
		{"sort-field", l.besidePage10(podLists+"?limit=10&sortBy="+url.QueryEscape(".status.podIP,name"), filtered)},
		{"page-10-engine", l.besideSort},
		{"all-pods", l.all},
	}
	for _, s := range steps {
		if err := s.run(ctx, s.name); err != nil {
			if ctx.Err() != nil {
				return err
			}
			l.report.miss(s.name, err)
		}
	}
	return nil
}

// filtered is the cost of a page that a filter or an order of its own chooses.
var filtered = measure{suffix: "-cpu", unit: "us", of: cpu("").of, beyond: "<= 50 us"}

// newNames searches another part of a name with each request, so that no answer can be cached.
func (l lists) newNames(ctx context.Context, name string) error {
	t, err := l.at(page10, http.StatusOK)
	if err != nil {
		return err
	}
	n := min(l.pods/10, 1000)
	ends := [...]string{"-", "8-", "48-", "b48-", "5b48-", "c5b48-", "9c5b48-"} // the characters before the number
	vary := func(round int) []string {
		paths := make([]string, n)
		for i := range paths {
			paths[i] = fmt.Sprintf("%s?limit=10&name=%s%04d", podLists, ends[round%len(ends)], i)
		}
		return paths
	}
	return l.play(ctx, contest{
		name: name, conns: connections, product: side{target: t, count: n, vary: vary}, yardstick: &side{target: t, count: l.counts.page},
		beside: "first-page", measures: []measure{filtered},
	})
}

func (l lists) play(ctx context.Context, c contest) error {
	figures, err := c.run(ctx, l.rounds)
	if err == nil {
		l.report.add(figures...)
	}
	return err
}

func (l lists) besideBare(path string, count int, m measure) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		t, err := l.at(path, http.StatusOK)
		if err != nil {
			return err
		}
		return l.play(ctx, contest{
			name: name, conns: connections, product: side{target: t, count: count}, yardstick: &side{target: t.on(l.bare), count: count},
			beside: "bare-handler", measures: []measure{m},
		})
	}
}

// aloneBesideBare sends one request at a time: how long it takes without other requests.
func (l lists) aloneBesideBare(path string) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		t, err := l.at(path, http.StatusOK)
		if err != nil {
			return err
		}
		return l.play(ctx, contest{
			name: name, conns: 1, product: side{target: t, count: l.counts.single}, yardstick: &side{target: t.on(l.bare), count: l.counts.single},
			beside: "bare-handler", measures: []measure{latency(50), latency(99)},
		})
	}
}

// besidePage10 compares another page of ten with the first page of all pods.
func (l lists) besidePage10(path string, m measure) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		resp, err := l.get(ctx, path)
		if err != nil {
			return err
		}
		var list struct {
			Items []struct{} `json:"items"`
		}
		if err := resp.JSON(&list, http.StatusOK); err != nil {
			return err
		}
		if len(list.Items) != 10 {
			return fmt.Errorf("GET %s has %d items, not 10 as the page that it is compared with", path, len(list.Items))
		}
		t, err := l.at(path, http.StatusOK)
		if err != nil {
			return err
		}
		first, err := l.at(page10, http.StatusOK)
		if err != nil {
			return err
		}
		return l.play(ctx, contest{
			name: name, conns: connections, product: side{target: t, count: l.counts.page}, yardstick: &side{target: first, count: l.counts.page},
			beside: "first-page", measures: []measure{m},
		})
	}
}

func (l lists) notModified(ctx context.Context, name string) error {
	resp, err := l.get(ctx, page10)
	if err != nil {
		return err
	}
	tag := resp.Header.Get("ETag")
	if tag == "" {
		l.report.skip(name, "lists have no ETag")
		return nil
	}
	ours, err := l.at(page10, http.StatusNotModified, "If-None-Match", tag)
	if err != nil {
		return err
	}
	return l.besideFloor(ctx, name, ours, page10, l.counts.page, cpu("ratio <= 0.80"))
}

func (l lists) gzip(ctx context.Context, name string) error {
	resp, err := l.get(ctx, page100, "Accept-Encoding", "gzip")
	if err != nil {
		return err
	}
	if resp.Header.Get("Content-Encoding") != "gzip" {
		l.report.skip(name, "lists are not compressed")
		return nil
	}
	ours, err := l.at(page100, http.StatusOK, "Accept-Encoding", "gzip")
	if err != nil {
		return err
	}
	return l.besideFloor(ctx, name, ours, page100, l.counts.large, cpu("ratio <= 0.25"))
}

func (l lists) besideSort(ctx context.Context, name string) error {
	t, err := l.at(page10, http.StatusOK)
	if err != nil {
		return err
	}
	return l.play(ctx, contest{
		name: name, conns: connections, product: side{target: t, count: l.counts.page},
		yardstick: &side{target: t.on(l.sort), count: l.counts.sort},
		beside:    "sort-per-request", measures: []measure{cpu("")},
	})
}

// all lists every pod in one answer.
func (l lists) all(ctx context.Context, name string) error {
	if !l.whole {
		l.report.skip(name, "the product asks for pages of a list that long")
		return nil
	}
	t, err := l.at(allPods, http.StatusOK)
	if err != nil {
		return err
	}
	return l.play(ctx, contest{
		name: name, conns: 1, product: side{target: t, count: l.counts.all}, yardstick: &side{target: t.on(l.bare), count: l.counts.all},
		beside: "bare-handler", measures: []measure{throughput()},
	})
}
