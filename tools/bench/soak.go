package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	soakWatchers = 200
	soakListers  = 50
	// soakWarm is when memory is measured for the first time: buffers and pools are filled by then.
	soakWarm = time.Minute
	// soakGrowth is by how much memory may grow afterwards.
	soakGrowth = 1.15
	// soakSample is how often memory is measured.
	soakSample = 5 * time.Second
)

// soak is the state of a run that looks for errors and growth under load.
type soak struct {
	client
	events, streams, opened atomic.Int64

	mu     sync.Mutex
	took   []time.Duration // by lists
	errs   []error
	failed int
}

// soaks loads the product, then, if requested, one built with the race detector, and writes the results.
func (b *bench) soaks(ctx context.Context) error {
	runs := []soakRun{{name: "as released"}}
	if b.race {
		runs = append(runs, soakRun{name: "with -race", raced: true})
	}
	var errs []error
	for i := range runs {
		if err := b.soaked(ctx, &runs[i]); err != nil {
			errs = append(errs, fmt.Errorf("the soak of the product %s: %w", runs[i].name, err))
		}
	}
	return errors.Join(append(errs, writeSoak(b.markdown, machine(), b.soak, runs))...)
}

// soaked starts the product, loads it, and stops it. A data race that was found is an error of the stop.
func (b *bench) soaked(ctx context.Context, r *soakRun) (err error) {
	bin := b.bin
	if r.raced {
		b.say("building the product with the race detector")
		repo, err := stack.Repo(".", b.bin)
		if err != nil {
			return err
		}
		if b.bin, err = stack.Build(ctx, repo, true); err != nil {
			return err
		}
	}
	defer func() { b.bin = bin }()
	if err := b.start(ctx); err != nil {
		return err
	}
	defer func() {
		b.say("stopping")
		err = errors.Join(err, b.finish())
		var counted error
		r.races, counted = races(b.dir)
		err = errors.Join(err, counted)
		r.say(b.report)
	}()
	return b.load(ctx, r)
}

// load makes changes, watches and lists for the requested time. It fails if an answer was an error, or if memory kept growing after
// the first minute.
func (b *bench) load(ctx context.Context, r *soakRun) error {
	pods := b.pods[0]
	if err := b.ask(ctx); err != nil {
		return err
	}
	if _, _, err := b.fill(ctx, pods); err != nil {
		return err
	}
	m, err := newMix(ctx, b.kube, churners)
	if err != nil {
		return err
	}
	b.say("loading the product for %v: %d changes a second, %d watchers, %d clients that list", b.soak, churnRate, soakWatchers, soakListers)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // the memory of this process does not matter, its share of the CPU does
	s := &soak{client: b.client}
	changes, err := settled(ctx, m.writers())
	if err != nil {
		return err
	}
	loadCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for i := range soakWatchers {
		wg.Go(func() { s.watch(loadCtx, soakWatch(i)) })
	}
	for range soakListers {
		wg.Go(func() { s.list(loadCtx) })
	}
	made := changes.made.Load()
	seen, err := s.observe(ctx, b.soak)
	r.changes = float64(changes.made.Load()-made) / b.soak.Seconds()
	cancel()
	wg.Wait()
	err = errors.Join(err, changes.stop(), errors.Join(s.errs...))
	r.streams, r.errors = s.streams.Load(), s.failed
	r.lists, r.delivered = float64(len(s.took))/b.soak.Seconds(), float64(s.events.Load())/b.soak.Seconds()
	slices.Sort(s.took)
	r.listP50, r.listP99 = quantile(s.took, 0.5), quantile(s.took, 0.99)
	r.seen = seen
	switch grown := seen.grown(r.raced); {
	case math.IsNaN(grown):
		err = errors.Join(err, errors.New("the soak was too short to look at memory"))
	case grown > soakGrowth:
		err = errors.Join(err, fmt.Errorf("memory grew to %.2f of what it was after the first minute", grown))
	}
	return err
}

// seen is what was observed of the product while it was loaded.
type seen struct {
	// rss and heap are bytes, the least of each minute after the warm-up, which leaves out garbage that is not collected yet. heap is
	// where the next collection is due: the last one found half of it alive.
	rss, heap  []float64
	goroutines []float64 // at the end of each of these minutes
	taken      float64   // events of kube-apiserver that were read, a second
	cpu        float64   // parts of a core
}

// grown returns the memory at the end relative to that of the first minute. The race detector keeps a shadow of all memory that was
// ever used, which counts as resident: with it, the heap is compared.
func (o seen) grown(raced bool) float64 {
	values := o.rss
	if raced {
		values = o.heap
	}
	first, last := ends(values)
	return last / first
}

// ends are the first and the last value; NaN of none.
func ends(values []float64) (first, last float64) {
	if len(values) == 0 {
		return math.NaN(), math.NaN()
	}
	return values[0], values[len(values)-1]
}

// observe observes the product for so long.
func (s *soak) observe(ctx context.Context, length time.Duration) (o seen, err error) {
	start, warm := time.Now(), min(soakWarm, length/4)
	cpu, err := stack.CPU(s.pid)
	if err != nil {
		return o, err
	}
	first, err := s.metrics(ctx)
	if err != nil {
		return o, err
	}
	now := first
	for time.Since(start) < length {
		select {
		case <-ctx.Done():
			return o, ctx.Err()
		case <-time.After(soakSample):
		}
		rss, err := stack.RSS(s.pid)
		if err != nil {
			return o, err
		}
		if now, err = s.metrics(ctx); err != nil {
			return o, err
		}
		if past := time.Since(start) - warm; past >= 0 {
			o.sample(int(past/time.Minute), float64(rss), now)
		}
	}
	used, err := stack.CPU(s.pid)
	took := time.Since(start).Seconds()
	o.taken, o.cpu = (now.events-first.events)/took, (used-cpu).Seconds()/took
	return o, err
}

// sample adds what was observed in a minute after the warm-up.
func (o *seen) sample(minute int, rss float64, m metrics) {
	if minute >= len(o.rss) {
		o.rss, o.heap, o.goroutines = append(o.rss, rss), append(o.heap, m.heap), append(o.goroutines, m.goroutines)
		return
	}
	last := len(o.rss) - 1
	o.rss[last], o.heap[last], o.goroutines[last] = min(o.rss[last], rss), min(o.heap[last], m.heap), m.goroutines
}

// metrics are those of the product's own that a soak reads.
type metrics struct{ goroutines, events, heap float64 }

func (s *soak) metrics(ctx context.Context) (m metrics, err error) {
	resp, err := s.get(ctx, "/metrics")
	if err != nil {
		return m, err
	}
	for name, value := range samples(resp.Body) {
		switch {
		case name == "go_goroutines":
			m.goroutines = value
		case name == "go_memstats_next_gc_bytes":
			m.heap = value
		case strings.HasPrefix(name, "ks_cache_events_total{") && !strings.Contains(name, `"bookmark"`) && !strings.Contains(name, `"listed"`):
			m.events += value
		}
	}
	return m, nil
}

// samples are the names, with labels, and the values of a text of metrics.
func samples(text []byte) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for line := range strings.Lines(string(text)) {
			name, text, ok := strings.Cut(strings.TrimSpace(line), " ")
			var value float64
			if n, _ := fmt.Sscan(text, &value); ok && n == 1 && !yield(name, value) {
				return
			}
		}
	}
}

func (s *soak) fault(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed++; len(s.errs) < 10 {
		s.errs = append(s.errs, err)
	}
}

// races counts the reports of the race detector in the log of the product.
func races(dir string) (int, error) {
	log, err := os.ReadFile(filepath.Join(dir, "log", "ks-apiserver.log"))
	if err != nil {
		return 0, fmt.Errorf("look for data races: %w", err)
	}
	return strings.Count(string(log), "WARNING: DATA RACE"), nil
}
