package admission_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/admission"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// key identifies an object: the plural of its kind, its namespace and name.
type key struct{ resource, namespace, name string }

// object has the fields of guarded objects of all kinds.
type object struct {
	Metadata  metav1.ObjectMeta                    `json:"metadata"`
	Rules     []rbacv1.PolicyRule                  `json:"rules,omitempty"`
	Templates *iamv1beta1.AggregationRoleTemplates `json:"aggregationRoleTemplates,omitempty"`
	RoleRef   *rbacv1.RoleRef                      `json:"roleRef,omitempty"`
	Subjects  []rbacv1.Subject                     `json:"subjects,omitempty"`
	GroupRef  *iamv1beta1.GroupRef                 `json:"groupRef,omitempty"`
	Users     []string                             `json:"users,omitempty"`
	Spec      spec                                 `json:"spec"`
}

type spec struct {
	Rules    []rbacv1.PolicyRule `json:"rules,omitempty"`
	Email    string              `json:"email,omitempty"`
	Password string              `json:"password,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Manager  string              `json:"manager,omitempty"`
}

func (o *object) clone() *object {
	out := &object{}
	if err := json.Unmarshal(o.raw(), out); err != nil {
		panic(err)
	}
	return out
}

func (o *object) raw() []byte {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return raw
}

// write is a user's write: of an object, or of nil for its deletion.
type write struct {
	by     string
	key    key
	object *object
}

// scopes are those of roles, by the plurals of roles and of bindings.
var scopes = map[string]request.Scope{
	"globalroles": request.Global, "workspaceroles": request.Workspace, "clusterroles": request.Cluster, "roles": request.Namespace,
	"globalrolebindings": request.Global, "workspacerolebindings": request.Workspace, "clusterrolebindings": request.Cluster, "rolebindings": request.Namespace,
}

var (
	roleKinds    = []string{"globalroles", "workspaceroles", "clusterroles", "roles"}
	bindingKinds = []string{"globalrolebindings", "workspacerolebindings", "clusterrolebindings", "rolebindings"}
	// namespaces with their workspaces.
	namespaces = map[string]string{"n1": "w1", "n2": "w1", "n3": "w2", "kube-system": ""}
	people     = []string{"u1", "u2", "u3", "u4", "u5", account}
)

// account is a service account of n1.
const account = "system:serviceaccount:n1:s"

// platform does what a cluster does with roles, bindings and what they are made of: the index, the guard before it, and the controllers after it.
type platform struct {
	t       testing.TB
	index   *rbac.Index
	known   *admission.Cache
	guard   *admission.Guard
	sinks   map[string][]store.Sink
	objects map[key]*object // each of which is immutable
	joined  map[string][]string
}

func newPlatform(t testing.TB, objects map[key]*object) *platform {
	t.Helper()
	index, err := rbac.NewIndex()
	if err != nil {
		t.Fatal(err)
	}
	p := &platform{t: t, index: index, known: admission.NewCache(), sinks: map[string][]store.Sink{}, objects: map[key]*object{}, joined: map[string][]string{}}
	p.guard = &admission.Guard{Holdings: index, Known: p.known}
	for _, all := range []map[schema.GroupVersionResource]store.Sink{index.Sinks(), p.known.Sinks()} {
		for gvr, sink := range all {
			p.sinks[gvr.Resource] = append(p.sinks[gvr.Resource], sink)
		}
	}
	for namespace, workspace := range namespaces {
		p.put(key{"namespaces", "", namespace}, &object{Metadata: metav1.ObjectMeta{Name: namespace, Labels: inWorkspace(workspace)}})
	}
	for k, o := range objects {
		p.put(k, o)
	}
	p.settle()
	return p
}

func inWorkspace(name string) map[string]string {
	if name == "" {
		return nil
	}
	return map[string]string{tenantv1beta1.LabelWorkspace: name}
}

// put stores an object, or deletes it if it is nil, and updates the sinks of the kind.
func (p *platform) put(k key, o *object) {
	if o == nil {
		delete(p.objects, k)
		for _, sink := range p.sinks[k.resource] {
			sink.Delete(k.namespace, k.name)
		}
		return
	}
	p.objects[k] = o
	raw := o.raw()
	for _, sink := range p.sinks[k.resource] {
		sink.Set(&store.Object{Namespace: k.namespace, Name: k.name, Raw: raw})
	}
}

// person returns the user.Info of a name, with the groups of its User.
func (p *platform) person(name string) user.Info {
	groups := []string{user.AllAuthenticated}
	if o := p.objects[key{"users", "", name}]; o != nil {
		groups = append(groups, o.Spec.Groups...)
	}
	return &user.DefaultInfo{Name: name, Groups: groups}
}

// try makes a write if the guard allows it.
func (p *platform) try(w *write) bool {
	var old, now []byte
	verb, before := "update", p.objects[w.key]
	switch {
	case w.object == nil:
		verb = "delete"
	case before == nil:
		verb = "create"
	}
	if before != nil {
		old = before.raw()
	}
	if w.object != nil {
		now = w.object.raw()
	}
	err := p.guard.Check(p.t.Context(), &admission.Write{
		By: p.person(w.by), Verb: verb, GVR: gvrOf(w.key.resource), Namespace: w.key.namespace, Name: w.key.name, Object: now, Old: old,
	})
	if err != nil || w.object == nil && before == nil {
		return false
	}
	p.put(w.key, w.object)
	p.settle()
	return true
}

func gvrOf(resource string) schema.GroupVersionResource {
	switch resource {
	case "workspaces":
		return tenantv1beta1.SchemeGroupVersion.WithResource(resource)
	case "serviceaccounts":
		return schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	return iamv1beta1.SchemeGroupVersion.WithResource(resource)
}

// settle does what the controllers do: it writes rules of templates into roles, bindings of groups into users, and bindings for fields that name a role.
func (p *platform) settle() {
	for _, k := range p.keys() {
		o := p.objects[k]
		switch {
		case o == nil:
		case slices.Contains(roleKinds, k.resource):
			p.aggregate(k, o)
		case k.resource == "users":
			p.join(k, o)
			p.bind(key{"globalrolebindings", "", "of-" + k.name}, o.Metadata.Annotations[iamv1beta1.AnnotationGlobalRole], "",
				rbacv1.Subject{Kind: "User", Name: k.name})
		case k.resource == "workspaces":
			manager := o.Spec.Manager
			if p.objects[key{"users", "", manager}] == nil {
				manager = ""
			}
			p.bind(key{"workspacerolebindings", "", "of-" + k.name}, k.name+"-admin", k.name, rbacv1.Subject{Kind: "User", Name: manager})
		case k.resource == "serviceaccounts":
			p.bind(key{"rolebindings", k.namespace, "of-" + k.name}, o.Metadata.Annotations[iamv1beta1.AnnotationRole], "",
				rbacv1.Subject{Kind: "ServiceAccount", Namespace: k.namespace, Name: k.name})
		}
	}
}

func (p *platform) keys() []key {
	return slices.SortedFunc(maps.Keys(p.objects), func(a, b key) int {
		return slices.Compare([]string{a.resource, a.namespace, a.name}, []string{b.resource, b.namespace, b.name})
	})
}

func (p *platform) aggregate(k key, o *object) {
	next := o.clone()
	role := aggregation.Role{Meta: &next.Metadata, Templates: next.Templates, Rules: &next.Rules}
	if !aggregation.Wanted(role) {
		return
	}
	var templates []iamv1beta1.RoleTemplate
	for _, at := range p.keys() {
		if one := p.objects[at]; at.resource == "roletemplates" && one.Metadata.Labels[iamv1beta1.LabelScope] == scopes[k.resource].Label() {
			templates = append(templates, iamv1beta1.RoleTemplate{ObjectMeta: one.Metadata, Spec: iamv1beta1.RoleTemplateSpec{Rules: one.Spec.Rules}})
			templates[len(templates)-1].Name = at.name
		}
	}
	if changed, err := aggregation.Aggregate(role, templates); err == nil && changed {
		p.put(k, next)
	}
}

func (p *platform) join(k key, o *object) {
	var want []string
	for _, at := range p.keys() {
		b := p.objects[at]
		if at.resource != "groupbindings" || b.GroupRef == nil || !slices.Contains(b.Users, k.name) {
			continue
		}
		group := b.GroupRef.Name
		reserved := strings.HasPrefix(group, "system:") || strings.HasPrefix(group, "kapis:")
		if p.objects[key{"groups", "", group}] != nil && !reserved && !slices.Contains(want, group) {
			want = append(want, group)
		}
	}
	had := p.joined[k.name]
	groups := slices.DeleteFunc(slices.Clone(o.Spec.Groups), func(g string) bool { return slices.Contains(had, g) && !slices.Contains(want, g) })
	for _, g := range want {
		if !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	p.joined[k.name] = want
	if !slices.Equal(groups, o.Spec.Groups) {
		next := o.clone()
		next.Spec.Groups = groups
		p.put(k, next)
	}
}

// bind stores the binding of an object whose field names a role; there is none if the field is empty.
func (p *platform) bind(k key, role, workspace string, subject rbacv1.Subject) {
	if role == "" || subject.Name == "" {
		if p.objects[k] != nil {
			p.put(k, nil)
		}
		return
	}
	if b := p.objects[k]; b == nil || b.RoleRef.Name != role || b.Subjects[0] != subject {
		p.put(k, &object{
			Metadata: metav1.ObjectMeta{Name: k.name, Labels: inWorkspace(workspace)}, RoleRef: refTo(k.resource, role), Subjects: []rbacv1.Subject{subject},
		})
	}
}

func refTo(bindings, role string) *rbacv1.RoleRef {
	return &rbacv1.RoleRef{APIGroup: iamv1beta1.GroupName, Kind: scopes[bindings].RoleKind(), Name: role}
}

// asked is one request of the closed universe.
type asked struct {
	info  *request.Info
	place authz.BindingScope
}

var universe = everyRequest()

// everyRequest returns every request that is asked about: some verbs on some kinds, at every scope, with and without a name; and some paths.
func everyRequest() []asked {
	places := []authz.BindingScope{{}, {Scope: request.Cluster}, {Scope: request.Workspace, Workspace: "w1"}, {Scope: request.Workspace, Workspace: "w2"}}
	for _, n := range slices.Sorted(maps.Keys(namespaces)) {
		places = append(places, authz.BindingScope{Scope: request.Namespace, Namespace: n})
	}
	kinds := []schema.GroupResource{
		{Resource: "pods"}, {Resource: "secrets"}, {Group: "apps", Resource: "deployments"}, {Group: "iam.kubesphere.io", Resource: "globalroles"},
	}
	var out []asked
	for _, at := range places {
		for _, gr := range kinds {
			for _, verb := range []string{"get", "list", "create", "delete", "escalate", "bind", "impersonate"} {
				for _, name := range []string{"", "a"} {
					out = append(out, asked{&request.Info{
						Verb: verb, APIGroup: gr.Group, APIVersion: "v1", Resource: gr.Resource, Name: name, Namespace: at.Namespace, Workspace: at.Workspace,
						IsResource: true, Scope: at.Scope,
					}, at})
				}
			}
		}
	}
	for _, path := range []string{"/x", "/x/y", "/z"} {
		out = append(out, asked{&request.Info{Verb: "get", Path: path, Scope: request.Cluster}, authz.BindingScope{Scope: request.Cluster}})
	}
	return out
}

// allowed returns for each request of the universe whether a user may make it.
func (p *platform) allowed(name string) []bool {
	who, out := p.person(name), make([]bool, len(universe))
	for i := range universe {
		d, err := p.index.Authorize(p.t.Context(), who, universe[i].info)
		if err != nil {
			p.t.Fatal(err)
		}
		out[i] = d.Allowed()
	}
	return out
}

// lifted reports whether a user was given escalate or bind by name at a scope, which lifts the rule there. At the system's scopes, a verb by name that was
// given for these scopes does not count.
func (p *platform) lifted(name string, at authz.BindingScope) bool {
	who, names := p.person(name), []string{""}
	for k := range p.objects {
		names = append(names, k.name)
	}
	places := []authz.BindingScope{{}}
	if at.Scope != request.Global {
		places = append(places, authz.BindingScope{Scope: request.Cluster})
	}
	if at.Scope != request.Global && !tenantv1beta1.IsSystemNamespace(at.Namespace) {
		places = append(places, at)
	}
	for _, place := range places {
		for _, resource := range append([]string{"groups", "users", "roletemplates"}, roleKinds...) {
			for _, object := range names {
				if p.index.HoldsVerb(who, place, "bind", resource, object) || p.index.HoldsVerb(who, place, "escalate", resource, object) {
					return true
				}
			}
		}
	}
	return false
}
