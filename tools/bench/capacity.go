package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"

	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	// capacityWatchers and capacityLive are the streams that are open while lists are measured, and capacityChanges the changes of
	// pods a second that they get.
	capacityWatchers, capacityLive, capacityChanges = 1000, 100, 20
	// capacityPeople are the users whose streams they are: one user may have 1000.
	capacityPeople = 10
	// capacityLogins are the logins a second that are aimed at, by capacityClients at the same time.
	capacityLogins, capacityClients = 50, 16
	// capacityTime is how long each list is measured.
	capacityTime = 10 * time.Second
	// many are more pods than a server gets without GOMEMLIMIT, which could be more than the machine has: limitOfMany is GOMEMLIMIT then,
	// and cachesOfMany the bound of the caches.
	many                      = 500_000
	limitOfMany, cachesOfMany = "11GiB", "10Gi"
)

// capacityLists are the lists that are measured; each has pages, so that no two requests in a row are the same.
var capacityLists = [...]struct{ name, path string }{
	{"page", podLists + "?limit=10&page=%d"},
	{"filter", podLists + "?limit=10&page=%d&labelSelector=bench/quarter%%3D1"},
	{"search", podLists + "?limit=10&page=%d&q=checkout"},
}

// capacityStream returns the path of the i-th stream: the events of a namespace from now on, or a live page.
func capacityStream(i int) string {
	if i < capacityWatchers {
		return "/kapis/resources.kubesphere.io/v1alpha3/namespaces/" + podNamespace(i) +
			"/pods?watch=true&fields=.metadata.name&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
	}
	return podLists + fmt.Sprintf("?view=live&limit=10&page=%d", 1+i-capacityWatchers)
}

// capacity is what one number of pods needs.
type capacity struct {
	pods     int
	recorded bool
	figures  []figure
	// caches, peak and rss are bytes: what the caches take, the most memory that the process has had, and what it has at the end.
	caches, peak, rss float64
	// cpu is the share of a core with streams, changes and lists, without logins.
	cpu float64
}

// limited reports whether the server has a memory limit.
func (s capacity) limited() bool { return s.pods > many }

// capacities measures every number of pods. The document is written after each, so that a run that ends early has what it measured.
func (b *bench) capacities(ctx context.Context) (err error) {
	if b.kubeconfig != "" {
		return errors.New("--capacity fills a control plane of its own: unset KUBECONFIG")
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	defer func() {
		b.say("stopping")
		err = errors.Join(err, b.finish())
	}()
	c := crowd(b.people)
	b.say("creating %v", c)
	if _, err := b.gather(ctx, c); err != nil {
		return err
	}
	if err := b.makePeople(ctx); err != nil {
		return err
	}
	watchers, err := b.makeWatchers(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(b.out, header)
	var sizes []capacity
	for _, pods := range b.pods {
		size, err := b.capacityAt(ctx, pods, watchers)
		if err != nil {
			return fmt.Errorf("with %d pods: %w", pods, err)
		}
		b.report.suffix = fmt.Sprintf("@%d", pods)
		b.report.add(size.figures...)
		sizes = append(sizes, size)
		if err := writeCapacity(b.markdown, machine(), c, sizes); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// capacityAt measures one number of pods, with a server of its own.
func (b *bench) capacityAt(ctx context.Context, pods int, watchers []string) (_ capacity, err error) {
	size := capacity{pods: pods, recorded: pods > b.real}
	if err := b.fillReal(ctx, min(pods, b.mostReal())); err != nil {
		return size, err
	}
	b.size = pods
	var env, args []string
	if size.recorded {
		kubeconfig, stop, err := b.record(ctx, pods)
		if err != nil {
			return size, err
		}
		defer stop()
		args = append(args, "--kubeconfig="+kubeconfig)
	}
	if size.limited() {
		config, err := b.withCaches(cachesOfMany)
		if err != nil {
			return size, err
		}
		env, args = append(env, "GOMEMLIMIT="+limitOfMany), append(args, "--config="+config)
	}
	hashes, hashCPU, hashWall, err := bcryptAlone(bcryptTime)
	if err != nil {
		return size, err
	}
	size.add(freeCores, hashCPU.Seconds()/hashWall.Seconds(), "cores")
	size.add("bcrypt-per-cpu-second", float64(hashes)/hashCPU.Seconds(), "hashes")

	b.say("starting a server for %d pods", pods)
	began := time.Now()
	r, err := b.stack.ReplicaWithEnv(ctx, env, args...)
	if err != nil {
		return size, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	size.add("start-until-readyz", time.Since(began).Seconds(), "s")
	c := client{Server: r.Server, token: b.client.token, pid: r.PID}
	if err := b.awaitPods(ctx, c); err != nil {
		return size, err
	}
	size.add("start-until-all-pods-are-listed", time.Since(began).Seconds(), "s")
	used, err := stack.CPU(r.PID)
	if err != nil {
		return size, err
	}
	size.add("start-cpu", used.Seconds(), "s")
	peak, rss, err := memoryOf(r.PID)
	if err != nil {
		return size, err
	}
	size.add("rss-after-the-start", rss/mebibyte, "MiB")
	size.add("most-memory-of-the-start", peak/mebibyte, "MiB")
	if err := b.loaded(ctx, c, watchers, &size); err != nil {
		return size, err
	}
	resp, err := c.get(ctx, "/metrics")
	if err != nil {
		return size, err
	}
	size.caches = sumOf(string(resp.Body), "ks_cache_memory_bytes")
	size.add("caches", size.caches/mebibyte, "MiB")
	if size.peak, size.rss, err = memoryOf(r.PID); err != nil {
		return size, err
	}
	size.add("rss-at-the-end", size.rss/mebibyte, "MiB")
	size.add("most-memory", size.peak/mebibyte, "MiB")
	return size, nil
}

func (s *capacity) add(name string, value float64, unit string) {
	s.figures = append(s.figures, figure{name: name, value: value, unit: unit})
}

// memoryOf returns the most memory that a process has had, and what it has now.
func memoryOf(pid int) (peak, rss float64, err error) {
	most, err := stack.Peak(pid)
	if err != nil {
		return 0, 0, err
	}
	now, err := stack.RSS(pid)
	return float64(most), float64(now), err
}

// sumOf adds up the values of a metric in the text form of Prometheus.
func sumOf(metrics, name string) (sum float64) {
	for line := range strings.Lines(metrics) {
		if rest, ok := strings.CutPrefix(line, name+"{"); ok {
			var value float64
			if n, _ := fmt.Sscan(rest[strings.LastIndexByte(rest, '}')+1:], &value); n == 1 {
				sum += value
			}
		}
	}
	return sum
}

// mostReal is the largest number of pods that the control plane is filled with.
func (b *bench) mostReal() int {
	most := minPods
	for _, n := range b.pods {
		if n <= b.real {
			most = max(most, n)
		}
	}
	return most
}

// fillReal creates what is missing of so many pods in the control plane.
func (b *bench) fillReal(ctx context.Context, pods int) error {
	b.say("creating what is missing of %d pods", pods)
	_, err := seeder{client: b.kube, progress: b.progress, now: time.Now}.seed(ctx, pods)
	return err
}

// record starts the server of recorded pods.
func (b *bench) record(ctx context.Context, pods int) (kubeconfig string, stop func(), err error) {
	text, err := b.kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/"+podNamespace(1)+"/pods/"+podName(1)).
		SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("read a pod to record: %w", err)
	}
	pod, err := cutPod(text, time.Now())
	if err != nil {
		return "", nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(b.stack.Dir, "ks-apiserver.kubeconfig"))
	if err != nil {
		return "", nil, fmt.Errorf("read the credentials of ks-apiserver: %w", err)
	}
	return serveRecorded(config, pod, pods, time.Second/capacityChanges, b.dir)
}

// withCaches writes a copy of the configuration with a bound on the caches, and returns its name.
func (b *bench) withCaches(bound string) (string, error) {
	text, err := os.ReadFile(filepath.Join(b.stack.Dir, "kubesphere.yaml"))
	if err != nil {
		return "", fmt.Errorf("read the configuration: %w", err)
	}
	name := filepath.Join(b.dir, "capacity.yaml")
	if err := os.WriteFile(name, fmt.Appendf(text, "resources: {cacheMemory: %s}\n", bound), 0o600); err != nil {
		return "", fmt.Errorf("write the configuration: %w", err)
	}
	return name, nil
}

// loaded measures lists of an idle server, then with streams that get changes, then with logins as well.
func (b *bench) loaded(ctx context.Context, c client, watchers []string, size *capacity) (err error) {
	pages, err := c.answers(ctx, page10)
	if err != nil {
		return err
	}
	bare, err := startYardstick(ctx, pages, "bare")
	if err != nil {
		return err
	}
	defer bare.stop()
	b.say("measuring lists of %d pods", size.pods)
	if err := size.lists(ctx, c, bare, "idle", 1); err != nil {
		return err
	}

	loadCtx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var s streams
	for _, token := range watchers {
		s = append(s, &soak{client: client{Server: c.Server, token: token, pid: c.pid}})
	}
	defer func() { err = errors.Join(err, s.failed()) }() // what failed meanwhile is told too
	for i := range capacityWatchers + capacityLive {
		wg.Go(func() { s[i%len(s)].watch(loadCtx, capacityStream(i)) })
	}
	if err := s.allOpen(ctx, capacityWatchers+capacityLive); err != nil {
		return err
	}
	if !size.recorded { // the recorded watch has changes of its own
		wg.Go(func() {
			if err := b.touch(loadCtx, size.pods); err != nil && loadCtx.Err() == nil {
				s[0].fault(err)
			}
		})
	}
	b.say("measuring lists with %d watchers and %d live pages", capacityWatchers, capacityLive)
	start, events := time.Now(), s.events()
	cpu, err := stack.CPU(c.pid)
	if err != nil {
		return err
	}
	if err := size.lists(ctx, c, bare, "streams", len(capacityLists)); err != nil {
		return err
	}
	used, err := stack.CPU(c.pid)
	if err != nil {
		return err
	}
	took := time.Since(start).Seconds()
	size.cpu = (used - cpu).Seconds() / took
	delivered := s.events() - events
	if delivered == 0 {
		return errors.New("no change of a pod reached a stream, so that these figures would be of another load: is the server still reading the pods?")
	}
	size.add("events-and-pages-delivered", float64(delivered)/took, "1/s")
	size.add("processor-with-streams", 100*size.cpu, "% of a core")

	b.say("measuring lists with logins")
	return size.logins(ctx, c, bare)
}

// lists measures the first n of the lists, and the first next to the bare handler, which is asked in turn.
func (s *capacity) lists(ctx context.Context, c client, bare *process, name string, n int) error {
	for k, list := range capacityLists[:n] {
		t, err := c.at(fmt.Sprintf(list.path, 1), http.StatusOK)
		if err != nil {
			return err
		}
		for page := 2; page <= 40; page++ {
			t.others = append(t.others, fmt.Sprintf(list.path, page))
		}
		took, err := t.paced(ctx, lookingEvery, capacityTime)
		if err != nil {
			return err
		}
		var base []time.Duration
		if k == 0 {
			y, err := c.at(page10, http.StatusOK)
			if err != nil {
				return err
			}
			if base, err = y.on(bare).paced(ctx, lookingEvery, capacityTime/2); err != nil {
				return err
			}
		}
		s.quantiles(list.name+"-"+name, took, base)
	}
	return nil
}

// quantiles adds the median and the 99th percentile of sorted times, next to those of a yardstick, which may be none.
func (s *capacity) quantiles(name string, took, bare []time.Duration) {
	for _, q := range [...]int{50, 99} {
		f := figure{name: fmt.Sprintf("%s-p%d", name, q), value: micros(quantile(took, float64(q)/100)) / 1000, unit: "ms"}
		if len(bare) > 0 {
			f.yardstick, f.base = "bare-handler", micros(quantile(bare, float64(q)/100))/1000
		}
		s.figures = append(s.figures, f)
	}
}

// streams are those of several users.
type streams []*soak

func (s streams) events() (n int64) {
	for _, one := range s {
		n += one.events.Load()
	}
	return n
}

// failed returns what failed, the first failures of each user.
func (s streams) failed() error {
	var errs []error
	for _, one := range s {
		one.mu.Lock()
		errs = append(errs, one.errs...)
		one.mu.Unlock()
	}
	return errors.Join(errs...)
}

// allOpen waits until so many streams were opened.
func (s streams) allOpen(ctx context.Context, n int) error {
	opened := int64(0)
	err := wait.PollUntilContextTimeout(ctx, pollEvery, clusterTimeout, true, func(context.Context) (bool, error) {
		opened = 0
		for _, one := range s {
			opened += one.opened.Load()
		}
		return int(opened) >= n, s.failed()
	})
	if err != nil {
		return fmt.Errorf("open %d streams, of which %d are: %w", n, opened, err)
	}
	return nil
}

// makeWatchers creates users who may see every pod, and returns a token of each.
func (b *bench) makeWatchers(ctx context.Context) (tokens []string, err error) {
	for i := range capacityPeople {
		name := fmt.Sprintf("bench-watcher-%d", i)
		if err := b.makePerson(ctx, name); err != nil {
			return nil, err
		}
		role := binding(iamPath+"globalrolebindings", "GlobalRole", "platform-admin", name, name, nil)
		if err := create(ctx, b.kube.CoreV1().RESTClient(), role); err != nil {
			return nil, err
		}
		token, err := b.loginOf(ctx, name)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, token.Access)
	}
	return tokens, nil
}

// touch changes pods, one after the other, until ctx ends.
func (b *bench) touch(ctx context.Context, pods int) error {
	tick := time.NewTicker(time.Second / capacityChanges)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"%d"}}}`, touchLabel, i)
		at := i % pods
		_, err := b.kube.CoreV1().Pods(podNamespace(at)).Patch(ctx, podName(at), types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("change pod %s: %w", podName(at), err)
		}
	}
}

// logins logs users in at the rate that is aimed at, as far as the server is able to, and measures lists meanwhile.
func (s *capacity) logins(ctx context.Context, c client, bare *process) error {
	loginCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	due := time.NewTicker(time.Second / capacityLogins)
	defer due.Stop()
	var mu sync.Mutex
	var took []time.Duration
	var errs []error
	var wg sync.WaitGroup
	for i := range capacityClients {
		wg.Go(func() {
			for n := i; ; n += capacityClients {
				select {
				case <-loginCtx.Done():
					return
				case <-due.C: // one that nobody waits for is dropped
				}
				start := time.Now()
				_, err := c.Login(ctx, personName(n%loginPeople), loginPassword)
				mu.Lock()
				if errs = append(errs, err); err == nil {
					took, errs = append(took, time.Since(start)), errs[:len(errs)-1]
				}
				mu.Unlock()
			}
		})
	}
	start := time.Now()
	before, err := stack.CPU(c.pid)
	if err == nil {
		err = s.lists(ctx, c, bare, "logins", 1)
	}
	cancel()
	wg.Wait()
	wall := time.Since(start).Seconds()
	if err != nil {
		return err
	}
	after, err := stack.CPU(c.pid)
	if err != nil {
		return err
	}
	if len(took) == 0 {
		return errors.Join(append(errs, errors.New("nobody has logged in"))...)
	}
	slices.Sort(took)
	s.add("logins", float64(len(took))/wall, "1/s")
	s.quantiles("login", took, nil)
	s.add("logins-refused", float64(len(errs))/wall, "1/s")
	s.add("processor-with-logins", 100*(after-before).Seconds()/wall, "% of a core")
	return nil
}
