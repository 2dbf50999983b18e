package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unique"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/admission/reference"
	"kapis.dev/ks-apiserver/pkg/admission/shipped"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// Cache has the objects that the check needs besides roles and bindings: the templates that roles are made of, the roles of groups, and
// which clusters are public. The store feeds it, and of bindings it stores only those that name groups.
type Cache struct {
	mu        sync.RWMutex
	templates map[string]template
	groups    map[string]string // the workspace of a group, by its name
	leaving   map[string]bool   // the groups that are being deleted
	grants    map[string][]grant
	bound     map[bindingKey][]string // the groups that a binding names; those that name none are not in it
	public    map[string]bool         // the clusters that every workspace may be placed in
	kept      keeping
	admins    map[string][]string // the users who administer the platform, by the name of the binding
	refs      *reference.Index    // the GroupBindings, the workspaces and their templates
}

type template struct {
	scope  string
	labels labels.Set
	rules  []rbacv1.PolicyRule
}

// grant is a role that a group has, by a binding.
type grant struct {
	binding bindingKey
	scope   authz.BindingScope
	role    authz.RoleRef
}

type bindingKey struct {
	scope           request.Scope
	namespace, name string
}

// NewCache returns an empty cache: no write may be checked with it before its sinks are fed.
func NewCache() *Cache {
	return &Cache{
		templates: map[string]template{}, groups: map[string]string{}, grants: map[string][]grant{}, bound: map[bindingKey][]string{},
		kept:    keeping{map[authz.RoleRef]unique.Handle[string]{}, map[string]pattern{}},
		leaving: map[string]bool{}, public: map[string]bool{}, admins: map[string][]string{}, refs: reference.NewIndex(),
	}
}

// Sinks returns, for each kind that the cache has, the sink that feeds it.
func (k *Cache) Sinks() map[schema.GroupVersionResource]store.Sink {
	iam := iamv1beta1.SchemeGroupVersion
	all := map[schema.GroupVersionResource]store.Sink{
		iam.WithResource("roletemplates"):         templateSink{k},
		iam.WithResource("groups"):                groupSink{k},
		clustersKind:                              clusterSink{k},
		iam.WithResource("globalrolebindings"):    bindingSink{k, request.Global},
		iam.WithResource("workspacerolebindings"): bindingSink{k, request.Workspace},
		iam.WithResource("clusterrolebindings"):   bindingSink{k, request.Cluster},
		iam.WithResource("rolebindings"):          bindingSink{k, request.Namespace},
		iam.WithResource("globalroles"):           roleSink{k, request.Global},
		iam.WithResource("workspaceroles"):        roleSink{k, request.Workspace},
		iam.WithResource("clusterroles"):          roleSink{k, request.Cluster},
		iam.WithResource("roles"):                 roleSink{k, request.Namespace},
		iam.WithResource("builtinroles"):          patternSink{k},
	}
	maps.Copy(all, k.refs.Sinks())
	return all
}

// Named reports whether a GroupBinding or a workspace names a user, existing or not.
func (k *Cache) Named(user string) bool { return k.refs.Names(user) }

var errNoTemplates = errors.New("the templates that the role takes rules from are not known here")

// rulesOf returns the rules of the templates of a scope that a role names or selects.
func (k *Cache) rulesOf(scope request.Scope, t *iamv1beta1.AggregationRoleTemplates) ([]rbacv1.PolicyRule, error) {
	if t == nil || len(t.TemplateNames) == 0 && t.RoleSelector == nil {
		return nil, nil
	}
	if k == nil {
		return nil, errNoTemplates
	}
	if _, err := selectorOf(t); err != nil {
		return nil, fmt.Errorf("aggregationRoleTemplates.roleSelector can't be read: %w", err)
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.chosen(scope, t), nil
}

func selectorOf(t *iamv1beta1.AggregationRoleTemplates) (labels.Selector, error) {
	if t.RoleSelector == nil {
		return labels.Nothing(), nil
	}
	return metav1.LabelSelectorAsSelector(t.RoleSelector)
}

// chosen is rulesOf; a selector that can't be read finds nothing. Templates of every installation count as they are applied again, too. The
// caller holds the lock.
func (k *Cache) chosen(scope request.Scope, t *iamv1beta1.AggregationRoleTemplates) []rbacv1.PolicyRule {
	if t == nil {
		return nil
	}
	selector, err := selectorOf(t)
	if err != nil {
		selector = labels.Nothing()
	}
	var out []rbacv1.PolicyRule
	for name, one := range k.templates {
		if one.scope == scope.Label() && (slices.Contains(t.TemplateNames, name) || selector.Matches(one.labels)) {
			out = append(out, one.rules...)
		}
	}
	var back []rbacv1.PolicyRule
	for name, one := range shipped.Templates() {
		if one.Labels[iamv1beta1.LabelScope] == scope.Label() &&
			(slices.Contains(t.TemplateNames, name) || selector.Matches(labels.Set(one.Labels))) {
			back = append(back, one.Spec.Rules...)
		}
	}
	return append(out, added(back, out)...)
}

// unknownTemplates returns the names that no template of a scope has.
func (k *Cache) unknownTemplates(scope request.Scope, names []string) []string {
	if k == nil {
		return names
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		one, ok := k.templates[name]
		return ok && one.scope == scope.Label()
	})
}

// workspaceOf returns the workspace that a Group belongs to, "" for none; known is false if there is no such Group.
func (k *Cache) workspaceOf(group string) (workspace string, known bool) {
	if k == nil {
		return "", false
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	workspace, known = k.groups[group]
	return workspace, known
}

// reading returns what f finds in the cache while nothing changes it, and nothing for a cache that is nil.
func reading[T any](k *Cache, f func() T) (found T) {
	if k != nil {
		k.mu.RLock()
		defer k.mu.RUnlock()
		found = f()
	}
	return found
}

// grantsOf returns the roles that a group has.
func (k *Cache) grantsOf(group string) []grant {
	return reading(k, func() []grant { return slices.Clone(k.grants[group]) })
}

type templateSink struct{ *Cache }

// Set stores a template. One that can't be read gives nothing, as in aggregation.
func (s templateSink) Set(o *store.Object) {
	v := read(o)
	rules, _ := iamv1beta1.ValidRules(v.Spec.Rules) // ks-controller-manager reports what is wrong with the others, which give nothing
	s.mu.Lock()
	defer s.mu.Unlock()
	s.templates[o.Name] = template{scope: v.Metadata.Labels[iamv1beta1.LabelScope], labels: v.Metadata.Labels, rules: rules}
}

// Delete removes a template.
func (s templateSink) Delete(_, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.templates, name)
}

type groupSink struct{ *Cache }

// Set stores a group.
func (s groupSink) Set(o *store.Object) {
	v := read(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[o.Name] = v.workspace()
	if delete(s.leaving, o.Name); v.Metadata.DeletionTimestamp != nil {
		s.leaving[o.Name] = true
	}
}

// Delete removes a group.
func (s groupSink) Delete(_, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.groups, name)
	delete(s.leaving, name)
}

// isLeaving reports whether a Group is being deleted.
func (k *Cache) isLeaving(group string) bool {
	return reading(k, func() bool { return k.leaving[group] })
}

// isPublic reports whether every workspace may be placed in a cluster.
func (k *Cache) isPublic(cluster string) bool {
	return reading(k, func() bool { return k.public[cluster] })
}

type clusterSink struct{ *Cache }

// Set stores a cluster.
func (s clusterSink) Set(o *store.Object) {
	public := read(o).Metadata.Labels[clusterv1alpha1.LabelVisibility] == clusterv1alpha1.VisibilityPublic
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.public, o.Name); public {
		s.public[o.Name] = true
	}
}

// Delete removes a cluster.
func (s clusterSink) Delete(_, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.public, name)
}

type bindingSink struct {
	*Cache
	scope request.Scope
}

// Set stores what a binding gives to groups.
func (s bindingSink) Set(o *store.Object) {
	v, key := read(o), bindingKey{s.scope, o.Namespace, o.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(key)
	if s.scope == request.Global && isAdministrators(&v.RoleRef) && v.Metadata.DeletionTimestamp == nil {
		for i := range v.Subjects {
			if isUser(&v.Subjects[i]) {
				s.admins[o.Name] = append(s.admins[o.Name], v.Subjects[i].Name)
			}
		}
	}
	g := grant{key, v.scopeOf(s.scope, o.Namespace), authz.RoleRef{Scope: s.scope, Namespace: o.Namespace, Name: v.RoleRef.Name}}
	named := map[string]bool{} // not sought in the list: a binding has up to some ten thousand subjects, and every check waits meanwhile
	for _, subject := range v.Subjects {
		if subject.Kind == rbacv1.GroupKind && !named[subject.Name] {
			named[subject.Name] = true
			s.grants[subject.Name] = append(s.grants[subject.Name], g)
			s.bound[key] = append(s.bound[key], subject.Name)
		}
	}
}

// Delete removes a binding.
func (s bindingSink) Delete(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(bindingKey{s.scope, namespace, name})
}

// forget removes a binding. The caller holds the lock.
func (s bindingSink) forget(key bindingKey) {
	for _, group := range s.bound[key] {
		rest := slices.DeleteFunc(s.grants[group], func(g grant) bool { return g.binding == key })
		if len(rest) == 0 {
			delete(s.grants, group)
		} else {
			s.grants[group] = rest
		}
	}
	delete(s.bound, key)
	if s.scope == request.Global {
		delete(s.admins, key.name)
	}
}

func read(o *store.Object) *object {
	v := &object{}
	if err := decodeInto(o.Raw, v); err != nil {
		klog.ErrorS(err, "An object is taken to grant nothing", "object", klog.KRef(o.Namespace, o.Name))
		return &object{}
	}
	return v
}
