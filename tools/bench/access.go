package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	visibleNamespaces = "/kapis/tenant.kubesphere.io/v1beta1/namespaces?limit=10"
	visibleWorkspaces = "/kapis/tenant.kubesphere.io/v1beta1/workspaces?limit=10"

	// afterChanges is how many questions are asked right after a change of a user's bindings, each after one of its own.
	afterChanges = 30
	// grants is how many bindings are created, watched and deleted.
	grants = 30
	// grantTimeout bounds the wait until one takes effect.
	grantTimeout = 30 * time.Second
	// grantPause is between two questions whether a binding has taken effect: the precision, and long enough to spare the shared
	// cores.
	grantPause = 3 * time.Millisecond
	// idleWindow is how long ks-controller-manager is watched while it should do nothing.
	idleWindow = 30 * time.Second
)

// nativeGroups are the API groups of the objects that ks-controller-manager writes for access.
var nativeGroups = []string{"iam.kubesphere.io", "tenant.kubesphere.io", "rbac.authorization.k8s.io"}

// access measures what roles and bindings cost with many users: to decide, to list what one sees, to wait until a change takes effect,
// to start.
func (b *bench) access(ctx context.Context) ([]figure, error) {
	c := crowd(b.people)
	b.say("creating %v", c)
	settled, err := b.gather(ctx, c)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(b.out, "# %v\n", c)
	figures := []figure{{name: "access-settled", value: settled.Seconds(), unit: "s"}}
	token, err := b.loginOf(ctx, member)
	if err != nil {
		return nil, err
	}
	as := client{Server: b.client.Server, token: token.Access, pid: b.client.pid}
	if err := as.sees(ctx, c.namespaces()); err != nil {
		return nil, err
	}
	rss, err := stack.RSS(b.client.pid)
	if err != nil {
		return nil, err
	}
	figures = append(figures, figure{name: "access-rss", value: float64(rss) / mebibyte, unit: "MiB"})
	for _, part := range []func() ([]figure, error){
		func() ([]figure, error) { return b.visible(ctx, as) },
		func() ([]figure, error) { return b.granted(ctx, c) },
		func() ([]figure, error) { return b.written(ctx) },
		func() ([]figure, error) { return b.managed(ctx) },
		func() ([]figure, error) { return b.started(ctx, as, c) },
	} {
		more, err := part()
		if err != nil {
			return figures, err
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

// sees waits until a user is shown so many namespaces.
func (c client) sees(ctx context.Context, namespaces int) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollEvery, clusterTimeout, true, func(ctx context.Context) (bool, error) {
		resp, err := c.get(ctx, visibleNamespaces)
		if last = err; err != nil {
			return false, nil //nolint:nilerr // it is told if it lasts
		}
		var list struct{ TotalItems int }
		if last = json.Unmarshal(resp.Body, &list); last == nil && list.TotalItems != namespaces {
			last = fmt.Errorf("%d of %d", list.TotalItems, namespaces)
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait until a member sees the namespaces: %w (%w)", err, last)
	}
	return nil
}

// visible measures how long it takes a member who is bound in every namespace to list what they see: right after a change of bindings,
// when it has to be computed, and without one.
func (b *bench) visible(ctx context.Context, as client) ([]figure, error) {
	var figures []figure
	for _, list := range [...]struct{ name, path string }{{"visible-namespaces", visibleNamespaces},
		{"visible-workspaces", visibleWorkspaces}} {
		t, err := as.at(list.path, http.StatusOK)
		if err != nil {
			return nil, err
		}
		warm, err := t.paced(ctx, lookingEvery, loginTime)
		if err != nil {
			return nil, err
		}
		if list.path == visibleNamespaces {
			cold, err := b.afterChanges(ctx, as, list.path)
			if err != nil {
				return nil, err
			}
			figures = append(figures, quantiles(list.name+"-cold", cold, "<= 50 ms")...)
		}
		figures = append(figures, quantiles(list.name+"-warm", warm, "<= 1 ms")...)
	}
	return figures, nil
}

// quantiles are the median, which has the goal, and the 99th percentile, which includes the effect of other programs on the cores.
func quantiles(name string, sorted []time.Duration, goal string) []figure {
	return []figure{
		{name: name + "-p50", value: micros(quantile(sorted, 0.5)) / 1000, unit: "ms", goal: goal},
		{name: name + "-p99", value: micros(quantile(sorted, 0.99)) / 1000, unit: "ms"},
	}
}

// afterChanges asks once after each of some bindings that another user is given, and returns how long the answers took, sorted.
func (b *bench) afterChanges(ctx context.Context, as client, path string) ([]time.Duration, error) {
	var took []time.Duration
	for i := range afterChanges {
		o := namespaceBinding(i, "viewer", fmt.Sprintf("crowd-change-%d", i), crowdUser(i))
		if err := create(ctx, b.kube.CoreV1().RESTClient(), o); err != nil {
			return nil, err
		}
		select { // ks-apiserver learns of it within this time, which is not measured
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(followPause):
		}
		start := time.Now()
		if _, err := as.get(ctx, path); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took, nil
}

// granted measures how long after a binding exists a user may do what its role says, and how long after its deletion they may not: by
// ks-apiserver's own decision, through it at kube-apiserver, and by kube-apiserver's own decision.
func (b *bench) granted(ctx context.Context, c crowd) ([]figure, error) {
	token, err := b.loginOf(ctx, newcomer)
	if err != nil {
		return nil, err
	}
	as := client{Server: b.client.Server, token: token.Access, pid: b.client.pid}
	ways := [...]struct {
		name    string
		allowed func(ctx context.Context, namespace string) (bool, error)
	}{
		{"ours", func(ctx context.Context, namespace string) (bool, error) {
			return as.may(ctx, "/kapis/resources.kubesphere.io/v1alpha3/namespaces/"+namespace+"/pods?limit=1")
		}},
		{"passed-on", func(ctx context.Context, namespace string) (bool, error) {
			return as.may(ctx, "/api/v1/namespaces/"+namespace+"/pods?limit=1")
		}},
		{"mirrored", b.natively},
	}
	var took [2][len(ways)][]time.Duration
	kube := b.kube.CoreV1().RESTClient()
	for i := range grants {
		at := i % c.namespaces()
		o := namespaceBinding(at, "viewer", fmt.Sprintf("crowd-grant-%d", i), newcomer)
		for change, write := range [...]func() error{
			func() error { return create(ctx, kube, o) },
			func() error { return kube.Delete().AbsPath(o.path, fmt.Sprintf("crowd-grant-%d", i)).Do(ctx).Error() },
		} {
			if err := write(); err != nil {
				return nil, fmt.Errorf("change what the newcomer may do: %w", err)
			}
			start, seen := time.Now(), make(chan error, len(ways))
			var at2 [len(ways)]time.Duration
			for k, way := range ways {
				go func() {
					err := until(ctx, change == 0, func(ctx context.Context) (bool, error) { return way.allowed(ctx, crowdNamespace(at)) })
					at2[k] = time.Since(start)
					seen <- err
				}()
			}
			var errs []error
			for range ways {
				errs = append(errs, <-seen)
			}
			if err := errors.Join(errs...); err != nil {
				return nil, err
			}
			for k := range ways {
				took[change][k] = append(took[change][k], at2[k])
			}
		}
	}
	var figures []figure
	for change, name := range [...]string{"grant", "revocation"} {
		for k, way := range ways {
			slices.Sort(took[change][k])
			for _, q := range [...]int{50, 99} {
				figures = append(figures, figure{
					name: fmt.Sprintf("%s-%s-p%d", name, way.name, q), value: micros(quantile(took[change][k], float64(q)/100)) / 1000, unit: "ms",
					goal: "<= 1000 ms",
				})
			}
		}
	}
	return figures, nil
}

// may reports whether a GET is allowed.
func (c client) may(ctx context.Context, path string) (bool, error) {
	resp, err := c.Do(ctx, stack.Request{Path: path, Header: c.header()})
	if err != nil {
		return false, err
	}
	switch resp.Status {
	case http.StatusOK:
		return true, nil
	case http.StatusForbidden:
		return false, nil
	}
	return false, fmt.Errorf("GET %s: %w", path, resp.JSON(nil, http.StatusOK))
}

// natively asks kube-apiserver whether the newcomer may list pods with a kubeconfig of their own.
func (b *bench) natively(ctx context.Context, namespace string) (bool, error) {
	body := fmt.Appendf(nil, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":%q,"groups":["system:authenticated"],`+
		`"resourceAttributes":{"namespace":%q,"verb":"list","resource":"pods"}}}`, newcomer, namespace)
	text, err := b.kube.CoreV1().RESTClient().Post().AbsPath("/apis/authorization.k8s.io/v1/subjectaccessreviews").
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).DoRaw(ctx)
	if err != nil {
		return false, fmt.Errorf("ask kube-apiserver what the newcomer may do: %w", err)
	}
	var answer struct{ Status struct{ Allowed bool } }
	if err := json.Unmarshal(text, &answer); err != nil {
		return false, fmt.Errorf("ask kube-apiserver what the newcomer may do: %w", err)
	}
	return answer.Status.Allowed, nil
}

// until asks until the answer is the wanted one.
func until(ctx context.Context, want bool, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, grantTimeout)
	defer cancel()
	for {
		got, err := ask(ctx)
		switch {
		case err != nil:
			return err
		case got == want:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("a change of bindings did not count within %v", grantTimeout)
		}
		time.Sleep(grantPause)
	}
}

// written measures the creation of a RoleBinding, which passes the webhook of ks-controller-manager, next to that of a native one,
// which does not.
func (b *bench) written(ctx context.Context) ([]figure, error) {
	kube := b.kube.CoreV1().RESTClient()
	var ours, native []time.Duration
	for i := range 2 * grants {
		one := namespaceBinding(i%namespacesOfWorkspace, "viewer", fmt.Sprintf("crowd-write-%d", i), crowdUser(i))
		other := one
		other.path = strings.Replace(one.path, iamPath, nativePath, 1)
		other.body = map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": one.body["metadata"], "subjects": one.body["subjects"],
			"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
		}
		for _, w := range [...]struct {
			object
			took *[]time.Duration
		}{{one, &ours}, {other, &native}} {
			start := time.Now()
			if err := create(ctx, kube, w.object); err != nil {
				return nil, err
			}
			*w.took = append(*w.took, time.Since(start))
		}
	}
	slices.Sort(ours)
	slices.Sort(native)
	return []figure{{
		name: "rolebinding-create-p50", value: micros(quantile(ours, 0.5)) / 1000, unit: "ms",
		yardstick: "native-without-webhook", base: micros(quantile(native, 0.5)) / 1000,
	}}, nil
}
