package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	queryv1alpha1 "kapis.dev/ks-apiserver/pkg/api/query/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/status"
)

// Discovery is the part of client-go's discovery client that a Catalog uses: the groups in the order of their priority, the
// resources of the versions that answered, and why others did not.
type Discovery interface {
	GroupsAndMaybeResourcesWithContext(ctx context.Context) (*metav1.APIGroupList,
		map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error)
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// Kind is a kind of objects that kube-apiserver serves.
type Kind struct {
	GVR schema.GroupVersionResource
	// Kind is the name in objects, such as Pod.
	Kind string
	// Namespaced reports whether its objects are in namespaces.
	Namespaced bool
	// Verbs are what kube-apiserver offers.
	Verbs []string
	// Singular, ShortNames and Categories are further names that clients may take; each may be empty.
	Singular               string
	ShortNames, Categories []string
}

// Served is everything that kube-apiserver serves at one time. It is immutable.
type Served struct {
	// Groups are in the order of their priority.
	Groups []Group
}

// Group is an API group; the core group has no name.
type Group struct {
	Name string
	// Versions begin with the preferred one.
	Versions []Version
}

// Version is a version of a group.
type Version struct {
	Name string
	// Kinds are sorted by the name of their resource.
	Kinds []*Kind
}

// Cacheable reports whether the kind can be kept in memory.
func (k *Kind) Cacheable() bool {
	return slices.Contains(k.Verbs, "list") && slices.Contains(k.Verbs, "watch")
}

// Bounds on how often and how long discovery is asked.
const (
	discoverEvery   = time.Second
	discoverTimeout = 10 * time.Second
)

// Catalog knows the kinds that kube-apiserver serves now. Look-ups read one immutable directory.
type Catalog struct {
	discovery Discovery
	clock     clock.Clock
	removed   func([]schema.GroupVersionResource)
	current   atomic.Pointer[directory]
	failure   atomic.Pointer[failure] // how the last refresh went wrong
	missed    signal                  // a refresh failed that a look-up began

	mu   sync.Mutex // one refresh at a time
	last time.Time  // of the last refresh
}

// failure is how a refresh went wrong.
type failure struct {
	err   error // nil where it did not
	whole bool  // nothing was learned
}

// directory is one state of the catalog.
type directory struct {
	kinds     map[schema.GroupVersionResource]*Kind
	preferred map[schema.GroupResource]schema.GroupVersionResource
	groups    map[string][]string // resource -> groups, by priority
	silent    map[string]bool     // groups of which a version did not answer
	served    *Served
}

// homes are the groups of resource names on routes that name no group. A name that is not here belongs to the first group in the order
// of discovery.
var homes = map[string]string{
	"deployments": "apps", "daemonsets": "apps", "statefulsets": "apps", "replicasets": "apps",
	"ingresses": "networking.k8s.io", "jobs": "batch", "cronjobs": "batch", "horizontalpodautoscalers": "autoscaling",
	"roles": "rbac.authorization.k8s.io", "rolebindings": "rbac.authorization.k8s.io",
	"clusterroles": "rbac.authorization.k8s.io", "clusterrolebindings": "rbac.authorization.k8s.io",
	"customresourcedefinitions": "apiextensions.k8s.io", "events": "",
	"workspaces": "tenant.kubesphere.io", "workspacetemplates": "tenant.kubesphere.io",
	"globalroles": "iam.kubesphere.io", "globalrolebindings": "iam.kubesphere.io", "workspaceroles": "iam.kubesphere.io",
	"workspacerolebindings": "iam.kubesphere.io", "users": "iam.kubesphere.io", "loginrecords": "iam.kubesphere.io",
	"groups": "iam.kubesphere.io", "groupbindings": "iam.kubesphere.io", "categories": "iam.kubesphere.io",
	"clusters": "cluster.kubesphere.io", "labels": "cluster.kubesphere.io",
	"services": "", "configmaps": "", "secrets": "", "pods": "", "serviceaccounts": "", "persistentvolumeclaims": "",
	"persistentvolumes": "", "nodes": "", "namespaces": "",
}

func newCatalog(d Discovery, c clock.Clock, removed func([]schema.GroupVersionResource)) *Catalog {
	cat := &Catalog{discovery: d, clock: c, removed: removed, missed: make(signal, 1)}
	cat.current.Store(&directory{})
	cat.failure.Store(&failure{})
	return cat
}

// Resolve returns the kind of a group, version and resource. For an unknown one it asks discovery, at most once a second.
// The error is a 404, or a 503 while discovery does not answer.
func (c *Catalog) Resolve(ctx context.Context, gvr schema.GroupVersionResource) (*Kind, error) {
	if k := c.current.Load().kinds[gvr]; k != nil {
		return k, nil
	}
	c.miss(ctx)
	if k := c.current.Load().kinds[gvr]; k != nil {
		return k, nil
	}
	return nil, c.unknown(gvr.GroupResource())
}

// ByName returns the kind of a resource name on routes that name no group.
func (c *Catalog) ByName(ctx context.Context, resource string) (*Kind, error) {
	if k := c.byName(resource); k != nil {
		return k, nil
	}
	c.miss(ctx)
	if k := c.byName(resource); k != nil {
		return k, nil
	}
	return nil, c.unknown(schema.GroupResource{Resource: resource})
}

func (c *Catalog) byName(resource string) *Kind {
	gr, ok := c.GroupOf(resource)
	if !ok {
		return nil
	}
	d := c.current.Load()
	return d.kinds[d.preferred[gr]]
}

// GroupOf returns the group that a resource name means on routes that name no group, which is also the group whose rights
// decide there. It sends no request and allocates nothing.
func (c *Catalog) GroupOf(resource string) (schema.GroupResource, bool) {
	if group, ok := homes[resource]; ok {
		return schema.GroupResource{Group: group, Resource: resource}, true
	}
	if groups := c.current.Load().groups[resource]; len(groups) > 0 {
		return schema.GroupResource{Group: groups[0], Resource: resource}, true
	}
	return schema.GroupResource{}, false
}

// Preferred returns the version of a resource that its group prefers.
func (c *Catalog) Preferred(gr schema.GroupResource) (schema.GroupVersionResource, bool) {
	gvr, ok := c.current.Load().preferred[gr]
	return gvr, ok
}

// Known returns the kind of a group, version and resource, or nil. Unlike Resolve it sends no request.
func (c *Catalog) Known(gvr schema.GroupVersionResource) *Kind { return c.current.Load().kinds[gvr] }

// All returns the kinds that can be listed and watched, each in the version that its group prefers, sorted by group and resource. It is
// nil before discovery has answered.
func (c *Catalog) All() []*Kind {
	d := c.current.Load()
	if d.kinds == nil {
		return nil
	}
	out := make([]*Kind, 0, len(d.preferred))
	for _, gvr := range d.preferred {
		if k := d.kinds[gvr]; k.Cacheable() {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b *Kind) int {
		return cmp.Or(strings.Compare(a.GVR.Group, b.GVR.Group), strings.Compare(a.GVR.Resource, b.GVR.Resource))
	})
	return out
}

// Served returns everything that kube-apiserver serves, or nil before discovery has answered. It costs nothing: two results are the same
// pointer unless discovery was asked between them.
func (c *Catalog) Served() *Served { return c.current.Load().served }

// Serves reports whether kube-apiserver serves a group. It is true before discovery has answered.
func (c *Catalog) Serves(group string) bool {
	served := c.Served()
	return served == nil || slices.ContainsFunc(served.Groups, func(g Group) bool { return g.Name == group })
}

// unknown is the error for a resource that does not exist, or that can't be looked up for now.
func (c *Catalog) unknown(gr schema.GroupResource) error {
	switch d := c.current.Load(); {
	case d.kinds == nil:
		return unavailable(gr, "kube-apiserver has not yet told which kinds it serves")
	case c.failure.Load().whole, d.silent[gr.Group]:
		// A name without a group could be of any that does not answer. One dead API would then leave no name unknown.
		return unavailable(gr, fmt.Sprintf("kube-apiserver does not tell for now whether it serves %s", gr))
	}
	return status.About(gr, "", status.Errorf(http.StatusNotFound, "resource %q is not supported: kube-apiserver serves no such kind", gr))
}

// unavailable is a 503 with a Retry-After.
func unavailable(gr schema.GroupResource, why string) *apierrors.StatusError {
	return status.RetryAfter(1, status.About(gr, "", status.Errorf(http.StatusServiceUnavailable, "%s", why)))
}

// miss asks discovery because something was not found, unless it was asked a moment ago. The answer is for all callers that
// wait, so it goes on where the one that began it is gone.
func (c *Catalog) miss(ctx context.Context) {
	if !c.mu.TryLock() { // a refresh runs: its outcome is as good as another's
		c.mu.Lock()
		c.mu.Unlock() //nolint:staticcheck // waiting is the purpose
		return
	}
	defer c.mu.Unlock()
	if c.last.IsZero() || c.clock.Since(c.last) >= discoverEvery {
		c.refresh(context.WithoutCancel(ctx))
		if c.Err() != nil {
			c.missed.notify()
		}
	}
}

// Refresh asks discovery now. The error of a failed refresh is returned by Err; the directory stays.
func (c *Catalog) Refresh(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh(ctx)
}

// Err returns why the last refresh failed, in whole or in part, or nil. It never waits for a running refresh, since health
// checks call it.
func (c *Catalog) Err() error { return c.failure.Load().err }

// refresh needs mu.
func (c *Catalog) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	next, err := c.ask(ctx)
	c.last = c.clock.Now()
	c.failure.Store(&failure{err, next == nil})
	if next == nil {
		klog.V(2).InfoS("Discovery failed", "err", err)
		return
	}
	old := c.current.Swap(next)
	var gone []schema.GroupVersionResource
	for gvr, was := range old.kinds {
		if now := next.kinds[gvr]; now == nil || now.Kind != was.Kind || now.Namespaced != was.Namespaced {
			gone = append(gone, gvr)
		}
	}
	if len(gone) > 0 && c.removed != nil {
		c.removed(gone)
	}
}

// ask builds a directory from discovery. A version that does not answer keeps its former resources, and the error names it. The API that
// this server itself serves through kube-apiserver is left out: its kinds are those of other groups.
func (c *Catalog) ask(ctx context.Context) (*directory, error) {
	groups, lists, failed, err := c.discovery.GroupsAndMaybeResourcesWithContext(ctx)
	if groups == nil || err != nil && lists == nil && len(failed) == 0 {
		return nil, fmt.Errorf("ask kube-apiserver for its groups: %w", err)
	}
	groups.Groups = slices.DeleteFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == queryv1alpha1.GroupName })
	d := &directory{
		kinds: map[schema.GroupVersionResource]*Kind{}, preferred: map[schema.GroupResource]schema.GroupVersionResource{},
		groups: map[string][]string{}, silent: map[string]bool{}, served: &Served{},
	}
	problems := map[schema.GroupVersion]error{}
	maps.Copy(problems, failed)
	maps.DeleteFunc(problems, func(gv schema.GroupVersion, _ error) bool { return gv.Group == queryv1alpha1.GroupName })
	for i := range groups.Groups {
		for _, gv := range versionsOf(&groups.Groups[i]) {
			list, problem := lists[gv], problems[gv]
			if lists == nil && problem == nil { // a server without aggregated discovery
				list, problem = c.discovery.ServerResourcesForGroupVersionWithContext(ctx, gv.String())
			}
			switch {
			case list != nil:
				d.add(gv, list)
			case problem != nil && !apierrors.IsNotFound(problem):
				problems[gv] = problem
				d.silent[gv.Group] = true
				d.keep(gv, c.current.Load())
			}
		}
	}
	d.gather(groups.Groups)
	errs := make([]error, 0, len(problems))
	for gv, err := range problems {
		errs = append(errs, fmt.Errorf("discover %s: %w", gv, err))
	}
	return d, errors.Join(errs...)
}

// versionsOf returns a group's versions, the preferred one first.
func versionsOf(g *metav1.APIGroup) []schema.GroupVersion {
	out := make([]schema.GroupVersion, 0, len(g.Versions))
	for _, v := range g.Versions {
		gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
		if v.Version == g.PreferredVersion.Version {
			out = slices.Insert(out, 0, gv)
			continue
		}
		out = append(out, gv)
	}
	return out
}

func (d *directory) add(gv schema.GroupVersion, list *metav1.APIResourceList) {
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if strings.Contains(r.Name, "/") {
			continue // a sub-resource
		}
		d.put(&Kind{
			GVR: gv.WithResource(r.Name), Kind: r.Kind, Namespaced: r.Namespaced, Verbs: r.Verbs,
			Singular: r.SingularName, ShortNames: r.ShortNames, Categories: r.Categories,
		})
	}
}

// gather fills in what Served returns. A version without kinds is left out.
func (d *directory) gather(groups []metav1.APIGroup) {
	kinds := map[schema.GroupVersion][]*Kind{}
	for gvr, k := range d.kinds {
		kinds[gvr.GroupVersion()] = append(kinds[gvr.GroupVersion()], k)
	}
	for i := range groups {
		group := Group{Name: groups[i].Name}
		for _, gv := range versionsOf(&groups[i]) {
			if all := kinds[gv]; len(all) > 0 {
				slices.SortFunc(all, func(a, b *Kind) int { return strings.Compare(a.GVR.Resource, b.GVR.Resource) })
				group.Versions = append(group.Versions, Version{Name: gv.Version, Kinds: all})
			}
		}
		if len(group.Versions) > 0 {
			d.served.Groups = append(d.served.Groups, group)
		}
	}
}

// keep copies what was known of a version that does not answer.
func (d *directory) keep(gv schema.GroupVersion, old *directory) {
	for gvr, k := range old.kinds {
		if gvr.GroupVersion() == gv {
			d.put(k)
		}
	}
}

func (d *directory) put(k *Kind) {
	d.kinds[k.GVR] = k
	gr := k.GVR.GroupResource()
	if _, ok := d.preferred[gr]; !ok { // the preferred version comes first
		d.preferred[gr] = k.GVR
		d.groups[gr.Resource] = append(d.groups[gr.Resource], gr.Group)
	}
}
