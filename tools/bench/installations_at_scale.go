package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	// manyExtensions are installed at once, and each has the versions of manyVersions.
	manyExtensions = 200
	// manyTimeout bounds that, and makersAtOnce who makes objects.
	manyTimeout, makersAtOnce = 15 * time.Minute, 8
	// killedOperations is how many operations are killed, each at another moment.
	killedOperations = 10
	// chartsOfIndex, versionsOfIndex and bytesOfEntry make an index of 20 MiB.
	chartsOfIndex, versionsOfIndex, bytesOfEntry = 50, 20, 20 << 10
	// quietFor is how long ks-controller-manager uses hardly any CPU where a read of an index is over.
	quietFor = 2 * time.Second
	// tickOfCPU is how exactly Linux counts the CPU of a process.
	tickOfCPU = 10 * time.Millisecond
)

var manyVersions = []string{"1.0.0", "1.1.0", "1.2.0"}

// extensionGroups are the API groups of what ks-controller-manager writes for extensions.
var extensionGroups = []string{"kubesphere.io", "extensions.kubesphere.io", "rbac.authorization.k8s.io"}

func manyName(n int) string { return fmt.Sprintf("bench-many-%03d", n) }

// inParallel makes something for each number below n, some of them at once.
func inParallel(ctx context.Context, n int, one func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(makersAtOnce)
	for i := range n {
		group.Go(func() error { return one(ctx, i) })
	}
	return group.Wait()
}

// many measures an installation with many extensions, each with versions and a backend: until all are installed, what every page of the
// console reads of them, what they cost while nothing happens, and what the next start costs.
func (i installations) many(ctx context.Context) (figures []figure, err error) {
	backend, err := startYardstick(ctx, []answer{{URI: "/", Header: http.Header{}, Body: []byte("{}")}}, "bare") // it is probed
	if err != nil {
		return nil, err
	}
	defer backend.stop()
	host, _, err := net.SplitHostPort(backend.addr)
	if err != nil {
		return nil, err
	}
	pid, err := i.managerPID()
	if err != nil {
		return nil, err
	}
	before, err := stack.RSS(pid)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, i.removeMany(context.WithoutCancel(ctx))) }()
	err = inParallel(ctx, manyExtensions, func(ctx context.Context, n int) error {
		for v, version := range manyVersions {
			packed, err := chartOf(manyName(n), version, 3, backend.addr)
			if err != nil {
				return err
			}
			if err := i.push(ctx, manyName(n), version, packed, v == 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := i.until(ctx, manyTimeout, "extensionversions", manyName(manyExtensions-1)+"-"+manyVersions[2], hasConditions); err != nil {
		return nil, err
	}
	start := time.Now()
	err = inParallel(ctx, manyExtensions, func(ctx context.Context, n int) error {
		plan := planOf(manyName(n), manyVersions[0])
		plan.SetAnnotations(map[string]string{"kapis.dev/upstreams": host})
		_, err := i.platform("installplans").Create(ctx, plan, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := i.allInstalled(ctx); err != nil {
		return nil, err
	}
	figures = append(figures, figure{name: fmt.Sprintf("install-%d-extensions-wall", manyExtensions), value: time.Since(start).Seconds(), unit: "s",
		goal: "<= 300 s"})
	list, err := i.bench.client.get(ctx, "/kapis/kubesphere.io/v1alpha1/extensions?limit=-1")
	if err != nil {
		return figures, err
	}
	figures = append(figures, figure{name: fmt.Sprintf("list-of-%d-extensions", manyExtensions), value: float64(len(list.Body)) / mebibyte, unit: "MiB",
		goal: "<= 2 MiB"})
	if _, err := i.settled(ctx, pid, extensionGroups); err != nil {
		return figures, err
	}
	rss, err := stack.RSS(pid)
	if err != nil {
		return figures, err
	}
	writes, share, err := i.watch(ctx, pid, 2*idleWindow, extensionGroups)
	if err != nil {
		return figures, err
	}
	prefix := fmt.Sprintf("idle-%d-plans-%d-versions", manyExtensions, manyExtensions*len(manyVersions))
	figures = append(figures, figure{name: prefix + "-share-of-a-core", value: 100 * share, unit: "%", goal: "<= 0.5 %"},
		figure{name: prefix + "-writes", value: writes, unit: "writes", goal: "<= 0"},
		figure{name: prefix + "-rss-growth", value: float64(rss-before) / mebibyte, unit: "MiB", goal: "<= 60 MiB"})
	more, err := i.nextStart(ctx)
	return append(figures, more...), err
}

// nextStart starts a second ks-controller-manager, and measures when it has found that everything is done.
func (i installations) nextStart(ctx context.Context) (_ []figure, err error) {
	before, err := i.writes(ctx, extensionGroups)
	if err != nil {
		return nil, err
	}
	m, err := i.stack.Manager()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Stop()) }()
	took, err := i.settled(ctx, m.PID, extensionGroups)
	if err != nil {
		return nil, err
	}
	after, err := i.writes(ctx, extensionGroups)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("start-with-%d-extensions", manyExtensions)
	return []figure{{name: name, value: took.Seconds(), unit: "s", goal: "<= 10 s"}, {name: name + "-writes", unit: "writes", goal: "<= 0",
		value: after - before}}, nil
}

// allInstalled waits until the many are.
func (i installations) allInstalled(ctx context.Context) error {
	var states map[string]int
	err := wait.PollUntilContextTimeout(ctx, time.Second, manyTimeout, true, func(ctx context.Context) (bool, error) {
		all, err := i.platform("installplans").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // it is asked again
		}
		states = map[string]int{}
		for n := range all.Items {
			state, _, _ := unstructured.NestedString(all.Items[n].Object, "status", "state")
			states[state]++
		}
		return states["Installed"] >= manyExtensions, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %d extensions are installed (%v): %w", manyExtensions, states, err)
	}
	return nil
}

// removeMany removes them with what they have installed.
func (i installations) removeMany(ctx context.Context) error {
	return inParallel(ctx, manyExtensions, func(ctx context.Context, n int) error {
		return i.uninstall(ctx, manyName(n))
	})
}

// killed measures how soon an installation is done whose process was killed, each at another moment, next to those that nobody disturbs.
func (i installations) killed(ctx context.Context) (figures []figure, err error) {
	pid, err := i.managerPID()
	if err != nil {
		return nil, err
	}
	var alone, after []float64
	hit := 0
	for n := range killedOperations {
		for _, kill := range []bool{false, true} {
			name := fmt.Sprintf("bench-killed-%d-%t", n, kill)
			packed, err := chartOf(name, "1.0.0", objectsOfChart, "")
			if err != nil {
				return nil, err
			}
			if err := i.push(ctx, name, "1.0.0", packed, true); err != nil {
				return nil, err
			}
			took, was, err := i.installKilled(ctx, pid, name, kill, time.Duration(n)*100*time.Millisecond)
			if err = errors.Join(err, i.uninstall(context.WithoutCancel(ctx), name)); err != nil {
				return nil, err
			}
			switch {
			case was:
				hit++
				after = append(after, took.Seconds())
			case !kill:
				alone = append(alone, took.Seconds())
			}
		}
	}
	if hit == 0 {
		return nil, errors.New("every operation had ended before it was killed")
	}
	pending, err := i.kube.CoreV1().Secrets("").List(ctx, metav1.ListOptions{
		LabelSelector: "owner=helm,status in (pending-install,pending-upgrade,pending-rollback)"})
	if err != nil {
		return nil, err
	}
	slices.Sort(after)
	return []figure{
		{name: fmt.Sprintf("killed-%d-of-%d-to-installed-max", hit, killedOperations), value: after[len(after)-1], unit: "s", yardstick: "undisturbed",
			base: median(alone), goal: "<= 60 s"},
		{name: "killed-left-pending", value: float64(len(pending.Items)), unit: "releases", goal: "<= 0"},
	}, nil
}

// installKilled installs an extension, and kills its operation a while after it has begun. It returns how long it took from then on, and
// whether there was something to kill.
func (i installations) installKilled(ctx context.Context, manager int, name string, kill bool, moment time.Duration) (took time.Duration, was bool, err error) {
	if err := i.until(ctx, installTimeout, "extensionversions", name+"-1.0.0", hasConditions); err != nil {
		return 0, false, err
	}
	if _, err := i.platform("installplans").Create(ctx, planOf(name, "1.0.0"), metav1.CreateOptions{}); err != nil {
		return 0, false, err
	}
	in := func(states ...string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool {
			state, _, _ := unstructured.NestedString(o.Object, "status", "state")
			return slices.Contains(states, state)
		}
	}
	if err := i.until(ctx, installTimeout, "installplans", name, in("Installing", "Installed")); err != nil {
		return 0, false, err
	}
	start := time.Now()
	if kill {
		select {
		case <-ctx.Done():
			return 0, false, ctx.Err()
		case <-time.After(moment):
		}
		start = time.Now()
		for _, child := range childrenOf(manager) {
			was = syscall.Kill(child, syscall.SIGKILL) == nil || was
		}
	}
	err = i.until(ctx, installTimeout, "installplans", name, in("Installed"))
	return time.Since(start), was, err
}

// childrenOf returns the processes that a process has started.
func childrenOf(pid int) (children []int) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// index measures what it takes to read the whole index of a Repository of 20 MiB, and to compare it with what was read before.
func (i installations) index(ctx context.Context) (figures []figure, err error) {
	var entries strings.Builder
	charts := map[string][]byte{}
	for n := range chartsOfIndex {
		name := fmt.Sprintf("bench-index-%d", n)
		fmt.Fprintf(&entries, "  %s:\n", name)
		for v := range versionsOfIndex {
			version := fmt.Sprintf("1.%d.0", v)
			file, digest := name+"-"+version+".tgz", sha256.Sum256([]byte(name+version))
			if v == versionsOfIndex-1 { // the one that is read
				if charts["/"+file], err = chartOf(name, version, 1, ""); err != nil {
					return nil, err
				}
				digest = sha256.Sum256(charts["/"+file])
			}
			fmt.Fprintf(&entries, "  - {apiVersion: v2, name: %s, version: %s, urls: [%s], digest: %x, description: %s}\n", name, version, file, digest,
				strings.Repeat("d", bytesOfEntry))
		}
	}
	var asked atomic.Int64
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if packed := charts[r.URL.Path]; packed != nil {
			_, _ = w.Write(packed)
			return
		}
		_, _ = fmt.Fprintf(w, "apiVersion: v1\nentries:\n%sgenerated: \"2026-01-01T00:00:00Z\"\n", entries.String())
		asked.Add(1)
	})}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	pid, err := i.managerPID()
	if err != nil {
		return nil, err
	}
	repositories := i.platform("repositories")
	_, err = repositories.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kubesphere.io/v1alpha1", "kind": "Repository",
		"metadata": map[string]any{"name": "bench-index"}, "spec": map[string]any{"url": "http://" + listener.Addr().String(), "depth": int64(1)}}},
		metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, repositories.Delete(context.WithoutCancel(ctx), "bench-index", metav1.DeleteOptions{}))
	}()
	if err := i.until(ctx, repoTimeout, "repositories", "bench-index", hasConditions); err != nil {
		return nil, err
	}
	if _, err := i.settled(ctx, pid, extensionGroups); err != nil {
		return nil, err
	}
	resting, errRSS := stack.RSS(pid)
	used, errCPU := stack.CPU(pid)
	written, err := i.writes(ctx, extensionGroups)
	if err = errors.Join(err, errRSS, errCPU); err != nil {
		return nil, err
	}
	before, start := asked.Load(), time.Now()
	if _, err := repositories.Patch(ctx, "bench-index", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"kapis.dev/sync":"again"}}}`),
		metav1.PatchOptions{}); err != nil {
		return nil, err
	}
	busy, peak, last := start, resting, used
	for asked.Load() == before || time.Since(busy) < quietFor {
		now, errCPU := stack.CPU(pid)
		rss, errRSS := stack.RSS(pid)
		if err := errors.Join(errCPU, errRSS, ctx.Err()); err != nil {
			return nil, err
		}
		if time.Since(start) > repoTimeout {
			return nil, errors.New("the index is not asked for, or its reader does not come to rest")
		}
		// The clock ticks every 10 ms: one tick may be anything.
		if peak = max(peak, rss); now > last+tickOfCPU || asked.Load() == before {
			busy, last = time.Now(), now
		}
		time.Sleep(20 * time.Millisecond)
	}
	after, err := i.writes(ctx, extensionGroups)
	if err != nil {
		return nil, err
	}
	size := float64(entries.Len()) / mebibyte
	prefix := fmt.Sprintf("index-%.0f-mib", size)
	return []figure{
		{name: prefix + "-wall", value: busy.Sub(start).Seconds(), unit: "s", goal: "<= 3 s"},
		{name: prefix + "-cpu", value: (last - used).Seconds(), unit: "s"},
		{name: prefix + "-memory", value: float64(peak-resting) / mebibyte, unit: "MiB", yardstick: "its-size", base: size, goal: "ratio <= 6.00"},
		// But for the one that asks for it, and the time of it.
		{name: prefix + "-writes", value: after - written - 2, unit: "writes", goal: "<= 0"},
	}, nil
}

// hasConditions reports whether something was said of an object.
func hasConditions(o *unstructured.Unstructured) bool {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return len(all) > 0
}
