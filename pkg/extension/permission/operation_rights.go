package permission

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// Bound is what an operation stays within.
type Bound struct {
	// Cluster are the rules that count everywhere, and Rules those that count in Namespace.
	Cluster   []rbacv1.PolicyRule
	Namespace string
	Rules     []rbacv1.PolicyRule
}

// covers reports whether the bound has rules in a namespace, or for the whole cluster where it is empty.
func (b *Bound) covers(namespace string, rules ...rbacv1.PolicyRule) bool {
	have := b.Cluster
	if namespace != "" && namespace == b.Namespace {
		have = append(slices.Clone(have), b.Rules...)
	}
	ok, _ := validation.Covers(have, rules)
	return ok
}

// Object is an object that an operation writes.
type Object struct {
	Group, Resource string
	// Namespace is empty for an object of the cluster.
	Namespace, Name string
	// Gives are the rules of a role or a role template, of Kubernetes or of this platform. Aggregates says that it takes rules from others.
	Gives      []rbacv1.PolicyRule
	Aggregates bool
	// Binds is the role that a binding gives.
	Binds *rbacv1.RoleRef
	// Forwards says that the backend of an APIService or a ReverseProxy gets the access tokens of its callers.
	Forwards bool
}

// Need is a right that an operation needs. Name is empty for one on the whole kind.
type Need struct {
	Namespace, Verb, Group, Resource, Name string
}

// String names the right for people.
func (n Need) String() string {
	text := n.Verb + " " + n.Resource
	if n.Group != "" {
		text += "." + n.Group
	}
	if n.Name != "" {
		text += " " + strconv.Quote(n.Name)
	}
	if n.Namespace != "" {
		text += " in " + strconv.Quote(n.Namespace)
	}
	return text
}

// Rights are rules by the namespace that they count in, and by "" for the whole cluster.
type Rights map[string][]rbacv1.PolicyRule

// Add adds other rights.
func (r Rights) Add(other Rights) {
	for namespace, rules := range other {
		r[namespace] = append(r[namespace], rules...)
	}
}

// ForInstallation returns the rights by which objects are installed, upgraded and taken back, and what of it the bound does not cover.
//
// Creating is a right on the kind, since a name does not count there; everything else is one on the object. A role is written, and bound,
// by who holds what it gives: so its rules are among the rights if the bound covers them, and otherwise the verbs escalate and bind if it
// covers those. Roles and templates of this platform are written by who may escalate on them: that is among the rights if the bound covers
// what they give, or the verb. An object whose backend gets access tokens is written by who may impersonate users.
func (b *Bound) ForInstallation(objects []Object) (Rights, []Need) {
	o := operation{bound: b, needs: map[Need]bool{}, held: Rights{}}
	own := map[roleKey]bool{} // roles of the chart whose rules are held
	for i := range objects {
		switch role := &objects[i]; role.Group {
		case rbacv1.GroupName:
			own[roleKey{role.Resource, role.Namespace, role.Name}] = o.holds(role)
		case iamv1beta1.GroupName:
			o.mayGive(role)
		}
	}
	for i := range objects {
		object := &objects[i]
		o.need(object, "create", "")
		for _, verb := range []string{"delete", "get", "patch", "update"} {
			o.need(object, verb, object.Name)
		}
		if r := object.Binds; r != nil {
			bound := keyOf(r, object.Namespace)
			if object.Group != rbacv1.GroupName || !own[bound] {
				o.need(&Object{Group: object.Group, Resource: bound.resource, Namespace: object.Namespace}, "bind", r.Name)
			}
		}
		if object.Forwards {
			o.need(&Object{Resource: "users"}, "impersonate", "")
		}
	}
	return o.rights(), o.missing
}

// ForReading returns the rights by which objects are read, or all of a kind where an object has no name, and what of it the bound does not
// cover.
func (b *Bound) ForReading(objects []Object) (Rights, []Need) {
	o := operation{bound: b, needs: map[Need]bool{}, held: Rights{}}
	for i := range objects {
		verb := "get"
		if objects[i].Name == "" {
			verb = "list"
		}
		o.need(&objects[i], verb, objects[i].Name)
	}
	return o.rights(), o.missing
}

// ForRemoval returns the rights by which objects are removed. No bound counts: what the record of a release has is its own, and a chart
// that asked for no right to delete is removed all the same.
func ForRemoval(objects []Object) Rights {
	o := operation{needs: map[Need]bool{}, held: Rights{}}
	for i := range objects {
		o.need(&objects[i], "get", objects[i].Name)
		o.need(&objects[i], "delete", objects[i].Name)
	}
	return o.rights()
}

// roleKey names a role of Kubernetes.
type roleKey struct{ resource, namespace, name string }

// keyOf returns the role that a binding in a namespace gives.
func keyOf(r *rbacv1.RoleRef, namespace string) roleKey {
	k := roleKey{resource: strings.ToLower(r.Kind) + "s", name: r.Name}
	if r.Kind == "Role" {
		k.namespace = namespace
	}
	return k
}

// operation collects what is needed. Without a bound, everything is allowed.
type operation struct {
	bound   *Bound
	needs   map[Need]bool
	held    Rights
	missing []Need
}

// need notes a right on an object, or on its kind where name is empty, if the bound covers it.
func (o *operation) need(object *Object, verb, name string) {
	n := Need{object.Namespace, verb, object.Group, object.Resource, name}
	if o.needs[n] || slices.Contains(o.missing, n) {
		return
	}
	if o.bound != nil && !o.bound.covers(n.Namespace, n.rule()) {
		o.missing = append(o.missing, n)
		return
	}
	o.needs[n] = true
}

// holds notes that what a role gives is held, and reports whether the bound covers it. Where it does not, writing the role needs the verb
// escalate, which counts on the kind, since a role that is created has no name in the request.
func (o *operation) holds(role *Object) bool {
	if len(role.Gives) == 0 && !role.Aggregates {
		return role.Binds == nil
	}
	if role.Aggregates || !o.bound.covers(role.Namespace, role.Gives...) {
		o.need(role, "escalate", "")
		return false
	}
	o.held[role.Namespace] = append(o.held[role.Namespace], role.Gives...)
	return true
}

// mayGive notes the right to write a role or a template of this platform, which gives rules to others.
func (o *operation) mayGive(role *Object) {
	if len(role.Gives) == 0 && !role.Aggregates {
		return
	}
	if role.Aggregates || !o.bound.covers(role.Namespace, role.Gives...) {
		o.need(role, "escalate", role.Name)
		return
	}
	o.needs[Need{role.Namespace, "escalate", role.Group, role.Resource, role.Name}] = true
}

// rule returns a need as a rule.
func (n *Need) rule() rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{Verbs: []string{n.Verb}, APIGroups: []string{n.Group}, Resources: []string{n.Resource}}
	if n.Name != "" {
		r.ResourceNames = []string{n.Name}
	}
	return r
}

// kind is the rights on objects of one kind that have the same names.
type kind struct{ namespace, group, resource, name string }

// rights returns what was noted, one rule for all verbs on an object, in a fixed order.
func (o *operation) rights() Rights {
	verbs := map[kind][]string{}
	for n := range o.needs {
		k := kind{n.Namespace, n.Group, n.Resource, n.Name}
		verbs[k] = append(verbs[k], n.Verb)
	}
	kinds := slices.SortedFunc(maps.Keys(verbs), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource),
			cmp.Compare(a.name, b.name))
	})
	out := Rights{}
	for _, k := range kinds {
		slices.Sort(verbs[k])
		r := (&Need{Group: k.group, Resource: k.resource, Name: k.name}).rule()
		r.Verbs = verbs[k]
		out[k.namespace] = append(out[k.namespace], r)
	}
	for namespace, rules := range o.held {
		out[namespace] = append(out[namespace], canonical(rules)...)
	}
	return out
}
