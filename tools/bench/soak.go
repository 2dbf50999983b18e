package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	soakWatchers = 200
	soakListers  = 50
	// soakWarm is when memory is looked at for the first time: buffers and pools are filled by then.
	soakWarm = time.Minute
	// soakGrowth is how much of it may be added afterwards.
	soakGrowth = 1.15
	// soakPause is between two lists of one client, on the average.
	soakPause = 250 * time.Millisecond
	// soakSample is how often memory is looked at.
	soakSample = 5 * time.Second
)

// soakPaths are what the clients of a soak ask for in turns.
var soakPaths = [...]string{
	"?limit=10&page=%d", "?limit=100&page=%d", "?limit=10&page=%d&sortBy=name&ascending=true", "?limit=10&name=-00%02d",
	"?limit=10&page=%d&status=Running", "?limit=10&page=%d&labelSelector=bench/quarter%%3D1", "?limit=10&page=%d&sortBy=.status.podIP",
	"?limit=10&page=%d&fieldSelector=spec.schedulerName!%%3Dx", "?limit=20&page=%d&q=checkout", "?limit=10&page=%d&facets=.status.phase",
}

// soak is the state of a run that looks for errors and growth under load.
type soak struct {
	client
	lists, events, streams atomic.Int64

	mu     sync.Mutex
	errs   []error
	failed int
}

// soaked loads the product: churn, watchers and listing clients, for as long as was asked for. It fails where an answer was
// an error, or where memory went on growing after the first minute.
func (b *bench) soaked(ctx context.Context) error {
	pods := b.pods[0]
	if _, err := b.empty(ctx); err != nil {
		return err
	}
	if _, _, err := b.fill(ctx, pods); err != nil {
		return err
	}
	b.say("loading the product for %v: %d changes a second, %d watchers, %d clients that list", b.soak, churnRate, soakWatchers, soakListers)
	s := &soak{client: b.client}
	changes := startChurn(ctx, b.kube, pods)
	loadCtx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for i := range soakWatchers {
		wg.Go(func() { s.watch(loadCtx, i) })
	}
	for range soakListers {
		wg.Go(func() { s.list(loadCtx) })
	}
	samples, err := s.observe(ctx, b.soak)
	cancel()
	wg.Wait()
	made := changes.made.Load()
	err = errors.Join(err, changes.stop(), errors.Join(s.errs...))
	if len(samples) == 0 {
		return errors.Join(err, errors.New("the soak was too short to look at memory"))
	}
	warm, last := samples[0], samples[len(samples)-1]
	seconds := b.soak.Seconds()
	b.report.add(
		figure{name: "soak-changes", value: float64(made) / seconds, unit: "1/s"},
		figure{name: "soak-lists", value: float64(s.lists.Load()) / seconds, unit: "1/s"},
		figure{name: "soak-events-delivered", value: float64(s.events.Load()) / seconds, unit: "1/s"},
		figure{name: "soak-streams-opened", value: float64(s.streams.Load()), unit: "streams"},
		figure{name: "soak-errors", value: float64(s.failed), unit: "errors", goal: "<= 0"},
		figure{
			name: "soak-rss", value: float64(last) / mebibyte, unit: "MiB", yardstick: "after-the-first-minute", base: float64(warm) / mebibyte,
			goal: fmt.Sprintf("ratio <= %.2f", soakGrowth),
		},
	)
	if float64(last) > soakGrowth*float64(warm) {
		err = errors.Join(err, fmt.Errorf("memory grew from %d to %d MiB", warm/mebibyte, last/mebibyte))
	}
	return err
}

// observe returns the memory from the end of the warm-up on, smoothed: the least of each minute's samples, which leaves
// garbage out that is not collected yet.
func (s *soak) observe(ctx context.Context, length time.Duration) ([]int64, error) {
	start := time.Now()
	var least []int64
	for minute := -1; time.Since(start) < length; {
		select {
		case <-ctx.Done():
			return least, ctx.Err()
		case <-time.After(soakSample):
		}
		rss, err := stack.RSS(s.pid)
		if err != nil {
			return least, err
		}
		past := time.Since(start) - min(soakWarm, length/4)
		if past < 0 {
			continue
		}
		if m := int(past / time.Minute); m > minute {
			minute, least = m, append(least, rss)
			continue
		}
		least[len(least)-1] = min(least[len(least)-1], rss)
	}
	return least, nil
}

func (s *soak) fault(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed++; len(s.errs) < 10 {
		s.errs = append(s.errs, err)
	}
}

// list asks for lists, one after the other, as a person with a console would.
func (s *soak) list(ctx context.Context) {
	for {
		path := fmt.Sprintf(podLists+soakPaths[rand.IntN(len(soakPaths))], 1+rand.IntN(50)) //nolint:gosec // no secret
		if _, err := s.get(ctx, path); err != nil {
			if ctx.Err() != nil {
				return
			}
			s.fault(err)
		}
		s.lists.Add(1)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rand.Int64N(int64(2 * soakPause)))): //nolint:gosec // nor this
		}
	}
}

// watch follows pods: as events or as a live page, of all namespaces or of one. A stream that ends is opened anew.
func (s *soak) watch(ctx context.Context, i int) {
	path := "/kapis/resources.kubesphere.io/v1alpha3/namespaces/" + podNamespace(i) + "/pods?watch=true"
	switch i % 4 {
	case 1:
		path = podLists + "?view=live&limit=10&sortBy=name"
	case 2:
		path = podLists + "?watch=true&labelSelector=bench/quarter%3D1&fields=.metadata.name"
	}
	for ctx.Err() == nil {
		s.streams.Add(1)
		if err := s.follow(ctx, path); err != nil && ctx.Err() == nil {
			s.fault(err)
			return
		}
	}
}

func (s *soak) follow(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	req.Header = s.header()
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		return fmt.Errorf("GET %s: answered %s: %s", path, resp.Status, text)
	}
	for r := bufio.NewReaderSize(resp.Body, 32<<10); ; {
		line, err := r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = r.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			return nil // its time is up
		}
		if err != nil {
			return fmt.Errorf("GET %s: %w", path, err)
		}
		if strings.HasPrefix(string(line[:min(len(line), 20)]), `{"type":"ERROR"`) {
			return fmt.Errorf("GET %s: %s", path, line)
		}
		s.events.Add(1)
	}
}
