package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	fleetObject = "/api/v1/namespaces/bench/configmaps/bench"
	fleetOrder  = "sortBy=name&ascending=true"
	fleetList   = "/kapis/resources.kubesphere.io/v1alpha3/pods?limit=10&" + fleetOrder
	// fleetTimeout bounds what has no promised time.
	fleetTimeout = 3 * time.Minute
	// silentTimeout is the time that a list gives a member that does not answer.
	silentTimeout = 200 * time.Millisecond
)

// measureFleet measures the hub of a fleet: a replica with many members, each of which has a link and computes what it answers.
func (b *bench) measureFleet(ctx context.Context) error {
	if _, _, err := b.fill(ctx, b.pods[0]); err != nil {
		return err
	}
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // what a hundred agents say of the ends of their links
	b.measured("fleet", func() ([]figure, error) { return b.manyMembers(ctx) })
	return ctx.Err()
}

// manyMembers measures a replica of the hub.
func (b *bench) manyMembers(ctx context.Context) (figures []figure, err error) {
	many, err := b.makeMembers(ctx, b.fleetSize)
	defer func() {
		many.end()
		err = errors.Join(err, b.removeMembers(context.WithoutCancel(ctx), many))
	}()
	if err != nil {
		return nil, err
	}
	x := &fleetHub{bench: b, fleetOf: many}
	defer func() { err = errors.Join(err, x.ends()) }()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{{"an idle member", x.idle}, {"a restart", x.restart}, {"an object", x.object}, {"a page", x.page}, {"a watch", x.watched},
		{"a silent member", x.others}, {"lists over three", x.three}, {"lists over all", x.all}, {"a right", x.rights},
		{"the end of a member", x.dead}} {
		b.say("measuring %s", step.name)
		if err := step.run(ctx); err != nil {
			return x.figures, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return x.figures, nil
}

// fleetHub is a replica of the hub that is measured.
type fleetHub struct {
	*bench
	*fleetOf
	replica *stack.Replica
	hub     client
	figures []figure
	asked   int
}

func (x *fleetHub) add(f ...figure) { x.figures = append(x.figures, f...) }

// start starts the replica, at the port that members dial.
func (x *fleetHub) start(ctx context.Context, env ...string) (err error) {
	if x.replica, err = x.stack.ReplicaWithEnv(ctx, env, "--secure-port="+strconv.Itoa(x.port)); err != nil {
		return err
	}
	x.hub = client{Server: x.replica.Server, token: x.client.token, pid: x.replica.PID}
	return nil
}

// idle measures what an idle member takes of the memory of a replica.
func (x *fleetHub) idle(ctx context.Context) error {
	if err := x.start(ctx, "GOGC=5"); err != nil { // garbage is no memory of members
		return err
	}
	before, err := x.inUse(ctx)
	if err != nil {
		return err
	}
	for _, m := range x.members {
		m.begin(ctx)
	}
	if err := x.awaitLinks(ctx); err != nil {
		return err
	}
	if err := x.answered(ctx, len(x.members)+1); err != nil {
		return err
	}
	after, err := x.inUse(ctx)
	if err != nil {
		return err
	}
	x.add(figure{name: "idle-member", value: (after - before) / float64(len(x.members)) / (1 << 20), unit: "MiB", goal: "<= 1 MiB"})
	return x.ends()
}

// ends ends the replica.
func (x *fleetHub) ends() error {
	if x.replica == nil {
		return nil
	}
	r := x.replica
	x.replica = nil
	return r.Stop()
}

// restart measures how soon all are linked after the replica has been started again, and what it then asks and writes.
func (x *fleetHub) restart(ctx context.Context) error {
	for _, m := range x.members {
		m.digests.Store(0)
		m.writes.Store(0)
	}
	begun := time.Now()
	if err := x.start(ctx); err != nil {
		return err
	}
	if err := x.awaitLinks(ctx); err != nil {
		return err
	}
	x.add(figure{name: "restart-to-all-linked", value: time.Since(begun).Seconds(), unit: "s", goal: "<= 15 s"})
	if err := x.answered(ctx, len(x.members)+1); err != nil {
		return err
	}
	digests, writes := int64(0), int64(0)
	for _, m := range x.members {
		digests, writes = digests+m.digests.Load(), writes+m.writes.Load()
	}
	n := float64(len(x.members))
	x.add(figure{name: "reconnect-digests", value: float64(digests) / n, unit: "1", goal: "<= 1"},
		figure{name: "reconnect-writes", value: float64(writes) / n, unit: "1", goal: "<= 0"})
	return nil
}

// at returns a target at the measured replica.
func (x *fleetHub) at(path string) (target, error) {
	if _, err := x.hub.get(context.Background(), path); err != nil {
		return target{}, err
	}
	return x.hub.at(path, http.StatusOK)
}

// object measures an object of a member next to a bare reverse proxy over HTTP/2 with the same bytes, and next to the member itself.
func (x *fleetHub) object(ctx context.Context) error {
	path := "/clusters/" + memberName(0) + fleetObject
	plain, done, err := x.plain(ctx, path)
	if err != nil {
		return err
	}
	defer done()
	ours, err := x.at(path)
	if err != nil {
		return err
	}
	f, err := contest{name: "object-through-a-link", conns: connections, product: side{target: ours, count: usual().passed},
		yardstick: &side{target: ours.on(plain), count: usual().passed}, beside: "http2-reverse-proxy",
		measures: []measure{cpu("ratio <= 1.50")},
	}.run(ctx, x.rounds)
	if err != nil {
		return err
	}
	x.add(f...)
	itself := ours
	itself.addr, itself.path = x.address, fleetObject
	p50 := latency(50)
	p50.beyond = "<= 1000 us"
	f, err = contest{name: "object-through-a-link", conns: 1, product: side{target: ours, count: usual().passed},
		yardstick: &side{target: itself, count: usual().passed}, beside: "the-member", measures: []measure{p50}}.run(ctx, x.rounds)
	x.add(f...)
	return err
}

// plain starts a bare reverse proxy over HTTP/2 to what answers a path as the hub does.
func (x *fleetHub) plain(ctx context.Context, path string) (proxy *process, done func(), err error) {
	got, err := x.hub.get(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	behind, err := startYardstick(ctx, []answer{{URI: path, Header: got.Header, Body: got.Body}}, "http2")
	if err != nil {
		return nil, nil, err
	}
	if proxy, err = startYardstick(ctx, nil, "http2-proxy", behind.addr); err != nil {
		behind.stop()
		return nil, nil, err
	}
	return proxy, func() { proxy.stop(); behind.stop() }, nil
}

// page measures how many pages of a member are answered in a second, next to the member itself.
func (x *fleetHub) page(ctx context.Context) error {
	ours, err := x.at("/clusters/" + memberName(0) + fleetList)
	if err != nil {
		return err
	}
	itself := ours
	itself.addr, itself.path = x.address, fleetList
	f, err := contest{name: "page-through-a-link", conns: connections, product: side{target: ours, count: usual().passed},
		yardstick: &side{target: itself, count: usual().passed}, beside: "the-member", measures: []measure{{suffix: "-rate", unit: "1/s",
			of: func(s sample) float64 { return float64(s.requests) / s.wall.Seconds() }, goal: "ratio >= 0.5"}}}.run(ctx, x.rounds)
	x.add(f...)
	return err
}

// others measures an object of one member while requests to another one hang, next to the same while all is well.
func (x *fleetHub) others(ctx context.Context) error {
	ours, err := x.at("/clusters/" + memberName(0) + fleetObject)
	if err != nil {
		return err
	}
	hang := func(ctx context.Context) (func() error, error) {
		ctx, cancel := context.WithCancel(ctx)
		x.members[1].silent.Store(true)
		for range 20 {
			go func() { _, _ = x.hub.get(ctx, "/clusters/"+memberName(1)+fleetObject) }() // nothing comes
		}
		return func() error { cancel(); x.members[1].silent.Store(false); return nil }, nil
	}
	p99 := latency(99)
	p99.goal = "ratio <= 1.05"
	f, err := contest{name: "others-while-one-is-silent", conns: connections,
		product:   side{target: ours, count: usual().passed, during: hang},
		yardstick: &side{target: ours, count: usual().passed}, beside: "all-well", measures: []measure{p99}}.run(ctx, x.rounds)
	x.add(f...)
	return err
}

// anew returns paths of lists that were not asked before.
func (x *fleetHub) anew(path string, n int) func(int) []string {
	return func(int) []string {
		out := make([]string, n)
		for i := range out {
			x.asked++
			out[i] = path + "&x=" + strconv.Itoa(x.asked)
		}
		return out
	}
}

// of returns the path of a list over members.
func of(members ...int) string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = memberName(m)
	}
	return "/fleet" + fleetList + "&memberTimeout=10s&clusters=" + strings.Join(names, ",")
}

// three measures lists over three members: next to one of the hub itself, and with one that is known to be away or does not answer.
func (x *fleetHub) three(ctx context.Context) error {
	ours, err := x.at(of(0, 1, 2))
	if err != nil {
		return err
	}
	local, err := x.at(page10)
	if err != nil {
		return err
	}
	f, err := contest{name: "fleet-page-of-3", conns: connections, product: side{target: ours, count: 400, vary: x.anew(of(0, 1, 2), 400)},
		yardstick: &side{target: local, count: usual().page}, beside: "the-hubs-own", measures: []measure{cpu("ratio <= 8")},
	}.run(ctx, x.rounds)
	x.add(f...)
	if err != nil {
		return err
	}
	x.members[5].end()
	if err := x.answered(ctx, len(x.members)); err != nil {
		return err
	}
	p99 := latency(99)
	p99.goal = "ratio <= 1.10"
	f, err = contest{name: "fleet-page-one-dead", conns: 1, product: side{target: ours, count: 400, vary: x.anew(of(3, 4, 5), 400)},
		yardstick: &side{target: ours, count: 400, vary: x.anew(of(0, 1, 2), 400)}, beside: "all-well", measures: []measure{p99},
	}.run(ctx, x.rounds)
	x.add(f...)
	if err != nil {
		return err
	}
	x.members[8].silent.Store(true)
	defer x.members[8].silent.Store(false)
	silent := strings.Replace(of(6, 7, 8), "10s", silentTimeout.String(), 1)
	p99 = latency(99)
	p99.goal = fmt.Sprintf("<= %d us", (silentTimeout+50*time.Millisecond)/time.Microsecond)
	f, err = contest{name: "fleet-page-one-silent", conns: 1, product: side{target: ours, count: 5, vary: x.anew(silent, 5)},
		measures: []measure{p99}}.run(ctx, x.rounds)
	x.add(f...)
	return err
}

// all measures lists over all members, next to as many bare requests of the same bytes.
func (x *fleetHub) all(ctx context.Context) error {
	x.members[5].begin(ctx)
	if err := x.answered(ctx, len(x.members)+1); err != nil {
		return err
	}
	path := "/fleet" + fleetList + "&memberTimeout=10s&clusterSelector=!cluster-role.kubesphere.io/host"
	ours, err := x.at(path)
	if err != nil {
		return err
	}
	keys := "/clusters/" + memberName(0) + "/kapis/resources.kubesphere.io/v1alpha3/pods?view=keys&limit=10&" + fleetOrder
	plain, done, err := x.plain(ctx, keys)
	if err != nil {
		return err
	}
	defer done()
	one, err := x.at(keys)
	if err != nil {
		return err
	}
	n := float64(len(x.members))
	f, err := contest{name: "fleet-page-of-all", conns: 1, product: side{target: ours, count: 30, vary: x.anew(path, 30)},
		yardstick: &side{target: one.on(plain), count: usual().passed}, beside: fmt.Sprintf("%.0f-bare-requests", n),
		measures: []measure{cpu("ratio <= 1.30")},
	}.run(ctx, x.rounds)
	if err != nil {
		return err
	}
	f[0].base *= n
	x.add(f...)
	first := f[0].value
	before := x.sent()
	if _, err := x.hub.get(ctx, x.anew(path, 1)(0)[0]); err != nil {
		return err
	}
	x.add(figure{name: "fleet-page-of-all-bytes-in", value: float64(x.sent()-before) / 1000, unit: "KB", goal: "<= 250 KB"})
	half := fleetPods * len(x.members) / 10 / 2
	for _, next := range []struct {
		name, goal string
		side       side
	}{
		{"fleet-page-unchanged", "ratio <= 0.1", side{target: ours, count: 30}},
		{fmt.Sprintf("fleet-page-%d", half), "ratio <= 6",
			side{target: ours, count: 10, vary: x.anew(path+"&page="+strconv.Itoa(half), 10)}},
	} {
		f, err := contest{name: next.name, conns: 1, product: next.side, measures: []measure{cpu(next.goal)}}.run(ctx, x.rounds)
		if err != nil {
			return err
		}
		f[0].yardstick, f[0].base = "page-1", first
		x.add(f...)
	}
	return nil
}

// sent returns how many bytes all members have answered.
func (x *fleetHub) sent() (n int64) {
	for _, m := range x.members {
		n += m.bytes.Load()
	}
	return n
}

// dead measures how soon it is noticed that a member ends or falls silent, and how soon it is served when it is back.
func (x *fleetHub) dead(ctx context.Context) error {
	ended, last := x.members[0], x.members[len(x.members)-1]
	begun := time.Now()
	ended.stop()
	if err := x.until(ctx, ended, false); err != nil {
		return err
	}
	x.add(figure{name: "killed-to-noticed", value: time.Since(begun).Seconds(), unit: "s", goal: "<= 2 s"})
	ended.end()
	begun = time.Now()
	ended.begin(ctx)
	if err := x.until(ctx, ended, true); err != nil {
		return err
	}
	x.add(figure{name: "started-to-served", value: time.Since(begun).Seconds(), unit: "s", goal: "<= 30 s"})
	begun = time.Now()
	x.through.fallSilent()
	if err := x.until(ctx, last, false); err != nil {
		return err
	}
	x.add(figure{name: "silent-to-noticed", value: time.Since(begun).Seconds(), unit: "s", goal: "<= 10 s"})
	if err := x.unready(ctx, last.name); err != nil {
		return err
	}
	x.add(figure{name: "silent-to-not-ready", value: time.Since(begun).Seconds(), unit: "s", goal: "<= 20 s"})
	begun = time.Now()
	x.through.back()
	if err := x.until(ctx, last, true); err != nil {
		return err
	}
	x.add(figure{name: "back-to-served", value: time.Since(begun).Seconds(), unit: "s", goal: "<= 6 s"})
	return nil
}

// until waits until a member is answered for, or no longer.
func (x *fleetHub) until(ctx context.Context, m *computed, served bool) error {
	path, status := "/clusters/"+m.name+fleetList, 0
	err := wait.PollUntilContextTimeout(ctx, pollEvery/5, fleetTimeout, true, func(ctx context.Context) (bool, error) {
		resp, err := x.hub.Do(ctx, stack.Request{Path: path, Header: x.hub.header()})
		status = resp.Status
		return err == nil && (status == http.StatusOK) == served, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the member %s: the last answer is %d: %w", m.name, status, err)
	}
	return nil
}

// unready waits until the condition Ready of a Cluster is False.
func (x *fleetHub) unready(ctx context.Context, name string) error {
	err := wait.PollUntilContextTimeout(ctx, pollEvery, fleetTimeout, true, func(ctx context.Context) (bool, error) {
		resp, err := x.client.get(ctx, fleetClusters+"/"+name)
		if err != nil {
			return false, err
		}
		var c struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
		err = json.Unmarshal(resp.Body, &c)
		return slices.Contains(c.Status.Conditions, struct{ Type, Status string }{"Ready", "False"}), err
	})
	if err != nil {
		return fmt.Errorf("wait until %s is not ready: %w", name, err)
	}
	return nil
}

// inUse returns the memory that the replica uses.
func (x *fleetHub) inUse(ctx context.Context) (inUse float64, err error) {
	raw, err := x.hub.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for name, value := range samples(raw.Body) {
		if name == "go_memstats_heap_inuse_bytes" || name == "go_memstats_stack_inuse_bytes" {
			inUse += value
		}
	}
	return inUse, nil
}

// awaitLinks waits until the replica has a link to each member.
func (x *fleetHub) awaitLinks(ctx context.Context) error {
	linked := 0
	err := wait.PollUntilContextTimeout(ctx, pollEvery, fleetTimeout, true, func(ctx context.Context) (bool, error) {
		raw, err := x.hub.get(ctx, "/metrics")
		if err != nil {
			return false, err
		}
		linked = 0
		for name, value := range samples(raw.Body) {
			if isLinks(name) && value > 0 {
				linked++
			}
		}
		return linked >= len(x.members), nil
	})
	if err != nil {
		return fmt.Errorf("wait for %d members: %d are linked: %w", len(x.members), linked, err)
	}
	return nil
}

// answered waits until so many clusters, this one among them, answer a list over all.
func (x *fleetHub) answered(ctx context.Context, want int) error {
	var last atomic.Value
	err := wait.PollUntilContextTimeout(ctx, pollEvery, fleetTimeout, true, func(ctx context.Context) (bool, error) {
		resp, err := x.hub.get(ctx, "/fleet"+strings.Replace(fleetList, "limit=10", "limit=0", 1)+"&memberTimeout=10s")
		if ctx.Err() != nil {
			return false, ctx.Err() // and what was answered before is told
		}
		if err != nil {
			last.Store(err.Error())
			return false, nil //nolint:nilerr // it is told if it lasts
		}
		var l struct {
			Clusters struct {
				Answered int
				Missing  []struct{ Name, Reason string }
			}
		}
		if err := json.Unmarshal(resp.Body, &l); err != nil {
			return false, fmt.Errorf("read a list: %w", err)
		}
		last.Store(fmt.Sprintf("%d clusters answer, missing are %v", l.Clusters.Answered, l.Clusters.Missing))
		return l.Clusters.Answered == want, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %d clusters: %w: %v", want, err, last.Load())
	}
	return nil
}

// removeMembers deletes the Clusters.
func (b *bench) removeMembers(ctx context.Context, f *fleetOf) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	for _, m := range f.members {
		_, e := b.client.Do(ctx, stack.Request{Method: http.MethodDelete, Path: fleetClusters + "/" + m.name, Token: b.client.token})
		err = errors.Join(err, e)
	}
	return err
}

// newHTTP2Proxy is the plain way to pass requests on over one connection of HTTP/2 within TLS.
func newHTTP2Proxy(address string) http.Handler {
	unverified := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // a yardstick verifies nobody
	t := &http.Transport{TLSClientConfig: unverified, Protocols: &http.Protocols{}}
	t.Protocols.SetHTTP2(true)
	to := &url.URL{Scheme: "https", Host: address}
	return &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }, Transport: t}
}

// selfSigned returns the TLS configuration of a server that nobody verifies.
func selfSigned() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
}
