package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

const (
	iamPath    = "/apis/iam.kubesphere.io/v1beta1/"
	tenantPath = "/apis/tenant.kubesphere.io/v1beta1/"
	corePath   = "/api/v1/"
	nativePath = "/apis/rbac.authorization.k8s.io/v1/"

	// crowdWriters is how many objects are created at the same time.
	crowdWriters = 32
	// settleTimeout bounds the wait until ks-controller-manager has nothing to do any more.
	settleTimeout = 30 * time.Minute
	// namespacesOfWorkspace is how many namespaces a workspace has.
	namespacesOfWorkspace = 5

	// member is bound in every namespace; newcomer in none except those in which the benchmark gives them a role.
	member, newcomer = "crowd-member", "crowd-newcomer"
)

// crowd is so many users and their objects: a workspace for ten, five namespaces in each, a role on the platform and one in a
// workspace for each user, and three in namespaces, of which one in each namespace is a single member's.
type crowd int

func (c crowd) workspaces() int { return max(int(c)/10, 1) }
func (c crowd) namespaces() int { return c.workspaces() * namespacesOfWorkspace }
func (c crowd) bindings() int   { return 5 * int(c) }

func (c crowd) String() string {
	return fmt.Sprintf("%d users, %d workspaces, %d namespaces and %d bindings", int(c), c.workspaces(), c.namespaces(), c.bindings())
}

func crowdUser(i int) string      { return fmt.Sprintf("crowd-%05d", i) }
func crowdWorkspace(i int) string { return fmt.Sprintf("crowd-ws-%04d", i) }
func crowdNamespace(i int) string { return fmt.Sprintf("crowd-ns-%04d", i) }

// object is something to create: the path of its collection, and its JSON.
type object struct {
	path string
	body map[string]any
}

func metadata(name string, labels map[string]string) map[string]any {
	m := map[string]any{"name": name}
	if labels != nil {
		m["labels"] = labels
	}
	return m
}

// workspaceOf returns the i-th workspace, as its template.
func (c crowd) workspaceOf(i int) object {
	return object{tenantPath + "workspacetemplates", map[string]any{
		"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "WorkspaceTemplate", "metadata": metadata(crowdWorkspace(i), nil),
		"spec": map[string]any{"placement": map[string]any{"clusters": []any{map[string]any{"name": "host"}}},
			"template": map[string]any{"spec": map[string]any{}}},
	}}
}

// namespaceOf returns the i-th namespace, as the console creates them.
func (c crowd) namespaceOf(i int) object {
	return object{corePath + "namespaces", map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": metadata(crowdNamespace(i), map[string]string{
			"kubesphere.io/workspace": crowdWorkspace(i % c.workspaces()), "kubesphere.io/managed": "true",
		}),
	}}
}

// userOf returns the i-th user, who has no password.
func (c crowd) userOf(i int) object {
	return object{iamPath + "users", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User", "metadata": metadata(crowdUser(i), nil),
		"spec": map[string]any{"email": crowdUser(i) + "@example.com"},
	}}
}

// bindingOf returns the i-th binding.
func (c crowd) bindingOf(i int) object {
	who, name := crowdUser(i%int(c)), "crowd-"+strconv.Itoa(i)
	switch i / int(c) {
	case 0:
		return binding(iamPath+"globalrolebindings", "GlobalRole", "platform-regular", name, who, nil)
	case 1:
		ws := crowdWorkspace(i % c.workspaces())
		return binding(iamPath+"workspacerolebindings", "WorkspaceRole", ws+"-viewer", name, who,
			map[string]string{"kubesphere.io/workspace": ws})
	}
	at := i - 2*int(c)
	if at < c.namespaces() {
		return namespaceBinding(at, "viewer", name, member)
	}
	return namespaceBinding(at%c.namespaces(), "operator", name, who)
}

func namespaceBinding(at int, role, name, who string) object {
	return binding(iamPath+"namespaces/"+crowdNamespace(at)+"/rolebindings", "Role", role, name, who, nil)
}

func binding(path, kind, role, name, who string, labels map[string]string) object {
	return object{path, map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": kind + "Binding", "metadata": metadata(name, labels),
		"roleRef":  map[string]any{"apiGroup": "iam.kubesphere.io", "kind": kind, "name": role},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": who}},
	}}
}

// create creates an object, with retries where the cluster was too busy; an existing one is left as it is.
func create(ctx context.Context, c rest.Interface, o object) error {
	body, err := json.Marshal(o.body)
	if err != nil {
		return fmt.Errorf("encode an object of %s: %w", o.path, err)
	}
	busy := func(err error) bool {
		return ctx.Err() == nil && (apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
			apierrors.IsTooManyRequests(err))
	}
	err = retry.OnError(wait.Backoff{Duration: time.Second, Factor: 2, Steps: 5}, busy, func() error {
		return c.Post().AbsPath(o.path).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create an object of %s: %w", o.path, err)
	}
	return nil
}

// createAll creates n objects, some at once, and prints how long that took.
func (b *bench) createAll(ctx context.Context, what string, n int, of func(i int) object) error {
	start := time.Now()
	var done atomic.Int64
	telling, stop := context.WithCancel(ctx)
	defer stop()
	go tell(telling, b.progress, &done, n, what)
	c := b.kube.CoreV1().RESTClient()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(crowdWriters)
	for i := range n {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error {
			defer done.Add(1)
			return create(groupCtx, c, of(i))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	b.say("%d %s created in %v", n, what, time.Since(start).Round(time.Millisecond))
	return ctx.Err()
}

// gather creates the crowd, and returns how long it took after the last binding until everything was mirrored.
func (b *bench) gather(ctx context.Context, c crowd) (settled time.Duration, err error) {
	if err := b.createAll(ctx, "workspaces", c.workspaces(), c.workspaceOf); err != nil {
		return 0, err
	}
	if err := b.createAll(ctx, "namespaces", c.namespaces(), c.namespaceOf); err != nil {
		return 0, err
	}
	if _, err := b.settle(ctx); err != nil {
		return 0, err
	}
	for _, name := range []string{member, newcomer} {
		if err := b.makePerson(ctx, name); err != nil {
			return 0, err
		}
	}
	if err := b.createAll(ctx, "users", int(c), c.userOf); err != nil {
		return 0, err
	}
	if err := b.createAll(ctx, "bindings", c.bindings(), c.bindingOf); err != nil {
		return 0, err
	}
	return b.settle(ctx)
}
