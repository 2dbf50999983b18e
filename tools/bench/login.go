package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	// loginPeople is how many users log in, in turns, and loginClients how many of them at the same time.
	loginPeople, loginClients = 20, 4
	loginPassword             = "Bench-1234" //nolint:gosec // of users of a control plane on loopback that ends with the run
	// loginTime is how long a round logs in, and bcryptTime how long it compares hashes.
	loginTime, bcryptTime = 3 * time.Second, 2 * time.Second
	// lookingEvery is the pause between two lists whose latency is measured: that of a user's page, not of a flood.
	lookingEvery = 5 * time.Millisecond
)

// loginRound is the result of a round.
type loginRound struct {
	logins, hashes     int64
	cpu, hashCPU       time.Duration // of ks-apiserver, and of bcrypt
	wall, hashWall     time.Duration
	writes             float64         // writes sent to kube-apiserver
	took               []time.Duration // latencies of the logins, sorted; and these, of lists
	idle, during, bare []time.Duration // without logins, with them, and of the bare handler with them
}

// logins measures what logins with a password cost, next to what bcrypt alone does on the same cores, and how long lists
// take meanwhile. Processor time decides, since the client, kube-apiserver and etcd share the cores with ks-apiserver.
func (b *bench) logins(ctx context.Context) ([]figure, error) {
	if err := b.makePeople(ctx); err != nil {
		return nil, err
	}
	list, err := b.client.at(page10, http.StatusOK)
	if err != nil {
		return nil, err
	}
	page, err := b.client.answers(ctx, page10)
	if err != nil {
		return nil, err
	}
	bare, err := startYardstick(ctx, page, "bare")
	if err != nil {
		return nil, err
	}
	defer bare.stop()
	rounds := make([]loginRound, b.rounds)
	for i := range rounds {
		if rounds[i], err = b.loginRound(ctx, list, list.on(bare)); err != nil {
			return nil, err
		}
	}
	return loginFigures(rounds), nil
}

func loginFigures(rounds []loginRound) []figure {
	of := func(f func(loginRound) float64) float64 {
		values := make([]float64, len(rounds))
		for i, r := range rounds {
			values[i] = f(r)
		}
		return median(values)
	}
	millis := func(sorted func(loginRound) []time.Duration, q float64) float64 {
		return of(func(r loginRound) float64 { return micros(quantile(sorted(r), q)) / 1000 })
	}
	during := func(r loginRound) []time.Duration { return r.during }
	idle := func(r loginRound) []time.Duration { return r.idle }
	bare := func(r loginRound) []time.Duration { return r.bare }
	return []figure{
		{
			name: "password-logins-per-cpu-second", unit: "logins",
			value:     of(func(r loginRound) float64 { return float64(r.logins) / r.cpu.Seconds() }),
			yardstick: "bcrypt", base: of(func(r loginRound) float64 { return float64(r.hashes) / r.hashCPU.Seconds() }), goal: "ratio >= 0.90",
		},
		{
			name: "password-logins-per-second", unit: "logins",
			value:     of(func(r loginRound) float64 { return float64(r.logins) / r.wall.Seconds() }),
			yardstick: "bcrypt-alone-on-all-cores", base: of(func(r loginRound) float64 { return float64(r.hashes) / r.hashWall.Seconds() }),
		},
		{name: "password-login-p50", unit: "ms", value: millis(func(r loginRound) []time.Duration { return r.took }, 0.5)},
		{
			name: "writes-per-password-login", unit: "writes", value: of(func(r loginRound) float64 { return r.writes / float64(r.logins) }),
			goal: "<= 1.05",
		},
		{name: "list-p50-during-logins", unit: "ms", value: millis(during, 0.5), yardstick: "idle", base: millis(idle, 0.5)},
		{name: "list-p99-during-logins", unit: "ms", value: millis(during, 0.99), yardstick: "idle", base: millis(idle, 0.99),
			goal: "ratio <= 2"},
		// Another process, whose requests wait only for the cores: the difference to it is ks-apiserver's own.
		{name: "list-p99-beside-bare-handler-during-logins", unit: "ms", value: millis(during, 0.99), yardstick: "bare-handler",
			base: millis(bare, 0.99)},
	}
}

func (b *bench) loginRound(ctx context.Context, list, bare target) (r loginRound, err error) {
	if r.hashes, r.hashCPU, r.hashWall, err = bcryptAlone(bcryptTime); err != nil {
		return r, err
	}
	if err := b.countLogins(ctx, &r); err != nil {
		return r, err
	}
	if r.idle, err = list.paced(ctx, lookingEvery, loginTime); err != nil {
		return r, err
	}
	l := startLogins(ctx, b.client.Server)
	if r.during, err = list.paced(ctx, lookingEvery, loginTime); err == nil {
		r.bare, err = bare.paced(ctx, lookingEvery, loginTime)
	}
	_, failed := l.stop()
	return r, errors.Join(err, failed)
}

// countLogins logs users in for a while, and measures what that costs.
func (b *bench) countLogins(ctx context.Context, r *loginRound) error {
	writes, err := countWrites(ctx, b.kube)
	if err != nil {
		return err
	}
	cpu, err := stack.CPU(b.client.pid)
	if err != nil {
		return err
	}
	start := time.Now()
	l := startLogins(ctx, b.client.Server)
	select {
	case <-ctx.Done():
	case <-time.After(loginTime):
	}
	if r.took, err = l.stop(); err != nil {
		return err
	}
	r.wall = time.Since(start)
	if r.cpu, err = stack.CPU(b.client.pid); err != nil {
		return err
	}
	r.writes, err = countWrites(ctx, b.kube)
	r.logins, r.cpu, r.writes = int64(len(r.took)), r.cpu-cpu, r.writes-writes
	return err
}

func personName(i int) string { return fmt.Sprintf("bench-%02d", i) }

// makePeople creates the users, and logs each in once, so that this machine is a known source of their logins.
func (b *bench) makePeople(ctx context.Context) error {
	for i := range loginPeople {
		if err := b.makePerson(ctx, personName(i)); err != nil {
			return err
		}
	}
	for i := range loginPeople {
		if _, err := b.loginOf(ctx, personName(i)); err != nil {
			return err
		}
	}
	return nil
}

// makePerson creates a user with a password.
func (b *bench) makePerson(ctx context.Context, name string) error {
	const users = "/kapis/iam.kubesphere.io/v1beta1/users"
	body := fmt.Appendf(nil, `{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","metadata":{"name":%q},"spec":{"email":"%[1]s@example.com","password":%[2]q}}`,
		name, loginPassword)
	resp, err := b.client.Do(ctx, stack.Request{Method: http.MethodPost, Path: users, Token: b.client.token, Body: body})
	if err == nil && resp.Status >= http.StatusBadRequest && resp.Status != http.StatusConflict {
		err = resp.JSON(nil, http.StatusOK)
	}
	if err != nil {
		return fmt.Errorf("make user %s: %w", name, err)
	}
	return nil
}

// loginOf logs a user in who has just been created.
func (b *bench) loginOf(ctx context.Context, name string) (token stack.Token, err error) {
	var last error
	err = wait.PollUntilContextTimeout(ctx, pollEvery, clusterTimeout, true, func(ctx context.Context) (bool, error) {
		token, last = b.client.Login(ctx, name, loginPassword)
		return last == nil, nil
	})
	if err != nil {
		return token, fmt.Errorf("wait until %s may log in: %w (%w)", name, err, last)
	}
	return token, nil
}

// logging is users who log in, one after the other at each of the clients.
type logging struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	next   atomic.Int64
	mu     sync.Mutex
	took   []time.Duration
	err    error
}

func startLogins(ctx context.Context, at stack.Server) *logging {
	stopping, cancel := context.WithCancel(ctx)
	l := &logging{cancel: cancel}
	for range loginClients {
		l.wg.Go(func() {
			for stopping.Err() == nil {
				start := time.Now()
				// A login that has begun is finished, also after the stop.
				_, err := at.Login(ctx, personName(int(l.next.Add(1)%loginPeople)), loginPassword)
				l.note(time.Since(start), err)
			}
		})
	}
	return l
}

func (l *logging) note(took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.err = errors.Join(l.err, err)
		l.cancel()
		return
	}
	l.took = append(l.took, took)
}

// stop returns how long each login took, sorted, when the last one is over.
func (l *logging) stop() ([]time.Duration, error) {
	l.cancel()
	l.wg.Wait()
	slices.Sort(l.took)
	if l.err == nil && len(l.took) == 0 {
		l.err = errors.New("nobody has logged in")
	}
	return l.took, l.err
}

// bcryptAlone compares passwords with hashes of the product's cost, on all cores, for length and at least once on each, and does
// nothing else.
func bcryptAlone(length time.Duration) (n int64, cpu, wall time.Duration, err error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(loginPassword), bcrypt.DefaultCost)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("make a hash: %w", err)
	}
	before, err := stack.CPU(os.Getpid())
	if err != nil {
		return 0, 0, 0, err
	}
	var wg sync.WaitGroup
	var made atomic.Int64
	start := time.Now()
	errs := make([]error, runtime.NumCPU())
	for i := range errs {
		wg.Go(func() {
			for again := true; again; again = errs[i] == nil && time.Since(start) < length {
				errs[i] = bcrypt.CompareHashAndPassword(hash, []byte(loginPassword))
				made.Add(1)
			}
		})
	}
	wg.Wait()
	wall = time.Since(start)
	after, err := stack.CPU(os.Getpid())
	return made.Load(), after - before, wall, errors.Join(append(errs, err)...)
}

// paced makes one request every interval for length, at least one, over one connection, and returns how long each took, sorted. A late
// request delays the next one, whose time does not include the delay.
func (t target) paced(ctx context.Context, every, length time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	wires, err := t.wires()
	if err != nil {
		return nil, err
	}
	c, err := t.dial(ctx, wires)
	if err != nil {
		return nil, err
	}
	defer c.close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var took []time.Duration
	for begun := time.Now(); len(took) == 0 || time.Since(begun) < length; <-tick.C {
		start := time.Now()
		if _, err := c.call(); err != nil {
			return nil, t.failed(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took, nil
}

// countWrites returns how many of the writes that logins make kube-apiserver has received until now.
func countWrites(ctx context.Context, kube kubernetes.Interface) (float64, error) {
	text, err := metricsOf(ctx, kube)
	return writesIn(text), err
}

func metricsOf(ctx context.Context, kube kubernetes.Interface) (string, error) {
	text, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("read the figures of kube-apiserver: %w", err)
	}
	return string(text), nil
}

// writesIn adds up the counters of writes of sessions and lockouts in the text form of Prometheus. Logins don't wait for login
// records, of which there is one for each user and source in ten seconds, and a program that logs in all the time makes no more.
func writesIn(metrics string) float64 { return writesOf(metrics, "resource", "sessions", "lockouts") }

// writesOf adds up the counters of writes for which a label has one of the values.
func writesOf(metrics, label string, values ...string) float64 {
	sum := 0.0
	s := bufio.NewScanner(strings.NewReader(metrics))
	s.Buffer(nil, len(metrics)+1)
	for s.Scan() {
		labels, ok := strings.CutPrefix(s.Text(), "apiserver_request_total{")
		if !ok || !namesOne(labels, "verb", "POST", "PUT", "PATCH", "DELETE") || !namesOne(labels, label, values...) {
			continue
		}
		var n float64
		if _, err := fmt.Sscan(labels[strings.LastIndexByte(labels, '}')+1:], &n); err == nil {
			sum += n
		}
	}
	return sum
}

func namesOne(labels, label string, values ...string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return strings.Contains(labels, label+`="`+v+`"`) })
}
