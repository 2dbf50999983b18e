package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	// objectsOfChart is how many objects the chart has that is installed.
	objectsOfChart = 20
	// chartsOfRepo and versionsOfChart make a Repo of the store: as many charts as one may have, or as many versions as are taken of each.
	chartsOfRepo, versionsOfChart        = 1000, 2
	fewChartsOfRepo, manyVersionsOfChart = 100, 20
	// installTimeout bounds an installation, and repoTimeout the first read of the Repo.
	installTimeout, repoTimeout = 5 * time.Minute, 15 * time.Minute
)

// measureInstallations measures installations of extensions, and the store's Repo.
func (b *bench) measureInstallations(ctx context.Context) error {
	client, err := dynamic.NewForConfig(b.restConfig)
	if err != nil {
		return fmt.Errorf("make a client for installations: %w", err)
	}
	i := installations{b, client}
	b.measured("installations", func() ([]figure, error) { return i.measure(ctx) })
	b.measured("killed", func() ([]figure, error) { return i.killed(ctx) })
	b.measured("index", func() ([]figure, error) { return i.index(ctx) })
	b.measured("many", func() ([]figure, error) { return i.many(ctx) })
	b.measured("repo", func() ([]figure, error) { return i.repo(ctx, chartsOfRepo, versionsOfChart) })
	b.measured("repo-versions", func() ([]figure, error) { return i.repo(ctx, fewChartsOfRepo, manyVersionsOfChart) })
	return ctx.Err()
}

// installations makes extensions, and the objects of a Repo.
type installations struct {
	*bench
	client dynamic.Interface
}

func (i installations) of(group, version, plural string) dynamic.NamespaceableResourceInterface {
	return i.client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
}

func (i installations) platform(plural string) dynamic.NamespaceableResourceInterface {
	return i.of("kubesphere.io", "v1alpha1", plural)
}

// chartOf packs an extension with some ConfigMaps, and an APIService with a backend unless that is "".
func chartOf(name, version string, objects int, backend string) ([]byte, error) {
	var all strings.Builder
	for n := range objects {
		fmt.Fprintf(&all, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%d}\ndata: {a: {{ .Values.a | quote }}}\n", name, n)
	}
	permissions := "kind: Role\nrules: []\n"
	if backend != "" {
		fmt.Fprintf(&all, "---\napiVersion: extensions.kubesphere.io/v1alpha1\nkind: APIService\nmetadata: {name: %s}\nspec: {group: %[1]s.example.com, "+
			"version: v1, url: 'http://%s'}\n", name, backend)
		permissions = "kind: ClusterRole\nrules: [{apiGroups: [extensions.kubesphere.io], resources: [apiservices], verbs: ['*']}]\n"
	}
	return chart.Pack(name, &chart.Archive{Files: []chart.File{
		{Name: "Chart.yaml", Data: fmt.Appendf(nil, "{apiVersion: v2, name: %s, version: %s}", name, version)},
		{Name: "extension.yaml", Data: fmt.Appendf(nil, "{apiVersion: kubesphere.io/v1alpha1, name: %s, version: %s, displayName: {en: Bench}}", name, version)},
		{Name: "permissions.yaml", Data: []byte(permissions)},
		{Name: "templates/all.yaml", Data: []byte(all.String())},
		{Name: "values.yaml", Data: []byte("a: b\n")},
	}})
}

// measure installs an extension in each round, and the same chart with Helm's CLI.
func (i installations) measure(ctx context.Context) ([]figure, error) {
	cli, err := buildHelm(ctx, i.dir)
	if err != nil {
		i.report.skip("helm-cli", err.Error())
	}
	var begun, done, byCLI []float64
	for round := range i.rounds {
		name := fmt.Sprintf("bench-install-%d", round)
		packed, err := chartOf(name, "1.0.0", objectsOfChart, "")
		if err != nil {
			return nil, err
		}
		if err := i.push(ctx, name, "1.0.0", packed, true); err != nil {
			return nil, err
		}
		toInstalling, toInstalled, err := i.install(ctx, name)
		err = errors.Join(err, i.uninstall(context.WithoutCancel(ctx), name))
		if err != nil {
			return nil, err
		}
		begun, done = append(begun, toInstalling.Seconds()), append(done, toInstalled.Seconds())
		if cli != "" {
			took, err := i.installByCLI(ctx, cli, name, packed)
			if err != nil {
				return nil, err
			}
			byCLI = append(byCLI, took.Seconds())
		}
	}
	wall := figure{name: fmt.Sprintf("install-%d-objects-wall", objectsOfChart), value: median(done), unit: "s"}
	if len(byCLI) > 0 {
		wall.yardstick, wall.base, wall.goal = "helm-cli", median(byCLI), "ratio <= 1.30"
	}
	slices.Sort(begun)
	return []figure{wall, {name: "plan-to-installing-p99", value: quantile(begun, 0.99), unit: "s", goal: "<= 1.0 s"}}, nil
}

// push puts a chart where desks push theirs, with the Extension where it is the first version.
func (i installations) push(ctx context.Context, name, version string, packed []byte, first bool) error {
	source := "extension-" + name + "-" + version + "-chart"
	object := func(apiVersion, kind, of string, more map[string]any) *unstructured.Unstructured {
		o := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": of,
			"labels": map[string]any{"kubesphere.io/extension-ref": name}}}
		for k, v := range more {
			o[k] = v
		}
		return &unstructured.Unstructured{Object: o}
	}
	const platform = "kubesphere.io/v1alpha1"
	var errExtension error
	_, errMap := i.of("", "v1", "configmaps").Namespace("kubesphere-system").Create(ctx, object("v1", "ConfigMap", source, map[string]any{
		"binaryData": map[string]any{"chart.tgz": base64.StdEncoding.EncodeToString(packed)}}), metav1.CreateOptions{})
	if first {
		_, errExtension = i.platform("extensions").Create(ctx, object(platform, "Extension", name, nil), metav1.CreateOptions{})
	}
	_, errVersion := i.platform("extensionversions").Create(ctx, object(platform, "ExtensionVersion", name+"-"+version, map[string]any{
		"spec": map[string]any{"version": version, "chartDataRef": map[string]any{"namespace": "kubesphere-system", "name": source, "key": "chart.tgz"}},
	}), metav1.CreateOptions{})
	return errors.Join(errMap, errExtension, errVersion)
}

// planOf is the plan of an extension.
func planOf(name, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kubesphere.io/v1alpha1", "kind": "InstallPlan",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"enabled": true,
			"extension": map[string]any{"name": name, "version": version}}}}
}

// install makes a plan, and returns when it was installing and when it was installed.
func (i installations) install(ctx context.Context, name string) (installing, installed time.Duration, err error) {
	// What says of the chart that it can be read comes first: that is no part of an installation.
	if err := i.until(ctx, installTimeout, "extensionversions", name+"-1.0.0", hasConditions); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	watched, err := i.platform("installplans").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return 0, 0, err
	}
	defer watched.Stop()
	start := time.Now()
	if _, err := i.platform("installplans").Create(ctx, planOf(name, "1.0.0"), metav1.CreateOptions{}); err != nil {
		return 0, 0, err
	}
	for {
		select {
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("wait until %s is installed: %w", name, ctx.Err())
		case e, ok := <-watched.ResultChan():
			if !ok {
				return 0, 0, fmt.Errorf("the watch of the plan %s has ended", name)
			}
			o, is := e.Object.(*unstructured.Unstructured)
			if !is {
				continue
			}
			state, _, _ := unstructured.NestedString(o.Object, "status", "state")
			switch state {
			case "Installing":
				if installing == 0 {
					installing = time.Since(start)
				}
			case "Installed":
				return installing, time.Since(start), nil
			case "InstallFailed":
				return 0, 0, fmt.Errorf("the plan %s: %v", name, o.Object["status"])
			}
		}
	}
}

// until waits for an object of the platform.
func (i installations) until(ctx context.Context, timeout time.Duration, plural, name string, is func(*unstructured.Unstructured) bool) error {
	err := wait.PollUntilContextTimeout(ctx, pollEvery, timeout, true, func(ctx context.Context) (bool, error) {
		o, err := i.platform(plural).Get(ctx, name, metav1.GetOptions{})
		return err == nil && is(o), nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s %s: %w", plural, name, err)
	}
	return nil
}

// uninstall removes a plan, and waits until it is gone.
func (i installations) uninstall(ctx context.Context, name string) error {
	if err := i.platform("installplans").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, pollEvery, installTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := i.platform("installplans").Get(ctx, name, metav1.GetOptions{})
		return err != nil, nil
	})
}

// buildHelm builds Helm's CLI of the version that go.mod names, with a copy of go.mod: it needs more than the product does.
func buildHelm(ctx context.Context, dir string) (string, error) {
	for _, name := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, "helm."+strings.TrimPrefix(name, "go.")), raw, 0o600); err != nil {
			return "", err
		}
	}
	program := filepath.Join(dir, "helm")
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s", "-modfile="+filepath.Join(dir, "helm.mod"), "-mod=mod", "-o", program,
		"helm.sh/helm/v4/cmd/helm")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build Helm's CLI: %w: %s", err, out)
	}
	return program, nil
}

// installByCLI installs and removes a chart with Helm's CLI, and returns how long the installation took.
func (i installations) installByCLI(ctx context.Context, cli, name string, packed []byte) (time.Duration, error) {
	file := filepath.Join(i.dir, name+".tgz")
	if err := os.WriteFile(file, packed, 0o600); err != nil {
		return 0, err
	}
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, cli, append(args, "--kubeconfig", filepath.Join(i.stack.Dir, "kubeconfig"), "-n", "default")...)
		cmd.Env = []string{"HOME=" + i.dir, "PATH=" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("helm %s: %w: %s", args[0], err, out)
		}
		return nil
	}
	start := time.Now()
	if err := run("install", name, file); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return took, run("uninstall", name)
}

// repo measures the first read of a Repo of the store with some charts, and one that finds nothing new.
func (i installations) repo(ctx context.Context, charts, versions int) (figures []figure, err error) {
	var index strings.Builder
	index.WriteString("apiVersion: v1\nentries:\n")
	for n := range charts {
		fmt.Fprintf(&index, "  c-%04d:\n", n)
		for v := range versions {
			fmt.Fprintf(&index, "  - {apiVersion: v2, name: c-%04d, version: 1.%d.0, urls: [c-%04d-1.%d.0.tgz], digest: %064x, description: %s}\n",
				n, v, n, v, n*versions+v, strings.Repeat("d", 100))
		}
	}
	index.WriteString("generated: \"2026-01-01T00:00:00Z\"\n")
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(index.String()))
	})}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	manager, err := i.managerPID()
	if err != nil {
		return nil, err
	}
	repos := i.of("application.kubesphere.io", "v2", "repos")
	defer func() {
		err = errors.Join(err, repos.Delete(context.WithoutCancel(ctx), "bench", metav1.DeleteOptions{}))
	}()
	before, err := stack.RSS(manager)
	if err != nil {
		return nil, err
	}
	read := func(begin func() error) (wall, cpu time.Duration, err error) {
		used, err := stack.CPU(manager)
		if err != nil {
			return 0, 0, err
		}
		start := time.Now()
		if err := begin(); err != nil {
			return 0, 0, err
		}
		err = wait.PollUntilContextTimeout(ctx, pollEvery, repoTimeout, true, func(ctx context.Context) (bool, error) {
			o, err := repos.Get(ctx, "bench", metav1.GetOptions{})
			if err != nil {
				return false, nil //nolint:nilerr // it is asked again
			}
			state, _, _ := unstructured.NestedString(o.Object, "status", "state")
			if state == "failed" {
				return false, fmt.Errorf("the Repo can't be read: %v", o.Object["status"])
			}
			return state == "successful", nil
		})
		wall = time.Since(start)
		now, errCPU := stack.CPU(manager)
		return wall, now - used, errors.Join(err, errCPU)
	}
	wall, cpu, err := read(func() error {
		_, err := repos.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "application.kubesphere.io/v2", "kind": "Repo",
			"metadata": map[string]any{"name": "bench"}, "spec": map[string]any{"url": "http://" + listener.Addr().String()}}}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	after, err := stack.RSS(manager)
	if err != nil {
		return nil, err
	}
	prefix := fmt.Sprintf("repo-%d-charts-%d-versions", charts, charts*versions)
	figures = []figure{
		{name: prefix + "-wall", value: wall.Seconds(), unit: "s"},
		{name: prefix + "-cpu", value: cpu.Seconds(), unit: "s"},
		{name: prefix + "-rss-growth", value: float64(after-before) / mebibyte, unit: "MiB"},
	}
	if _, err := i.settle(ctx); err != nil {
		return figures, err
	}
	wall, cpu, err = read(func() error {
		_, err := repos.Patch(ctx, "bench", "application/merge-patch+json", []byte(`{"status":{"state":"manualTrigger"}}`), metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		return figures, err
	}
	return append(figures, figure{name: prefix + "-nothing-new-wall", value: wall.Seconds(), unit: "s"},
		figure{name: prefix + "-nothing-new-cpu", value: float64(cpu.Milliseconds()), unit: "ms"}), nil
}
