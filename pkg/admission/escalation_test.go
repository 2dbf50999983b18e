package admission_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/tools/hostile"
)

var vocabulary = &hostile.Vocabulary{
	Verbs: []string{"get", "list", "create", "delete", "*", "get", "list", "create"}, Groups: []string{"", "", "apps", "iam.kubesphere.io", "*"},
	Resources: []string{"pods", "secrets", "deployments", "globalroles", "*", "pods"}, Names: []string{"a", "b"}, Paths: []string{"/x", "/x/*", "/*", "*"},
}

type chance struct {
	*hostile.Generator
	pending []write // second halves of pairs that could be mistaken for each other
}

func (c *chance) workspace() string { return c.One("w1", "w2") }
func (c *chance) namespace() string { return c.One("n1", "n1", "n2", "n3", "kube-system") }

func (c *chance) roleKey() key {
	k := key{resource: c.One(roleKinds...), name: c.One("r1", "r2", "r3", "w1-admin", "w2-admin")}
	if k.resource == "roles" {
		k.namespace = c.namespace()
	}
	return k
}

// plain returns a rule without a hostile word.
func (c *chance) plain() *rbacv1.PolicyRule {
	return &rbacv1.PolicyRule{
		Verbs: []string{c.One(vocabulary.Verbs...)}, APIGroups: []string{c.One(vocabulary.Groups...)}, Resources: []string{c.One(vocabulary.Resources...)},
	}
}

func (c *chance) rules() []rbacv1.PolicyRule {
	rules := c.Rules(2, vocabulary)
	for range c.N(2) {
		rules = append(rules, *c.plain())
	}
	if c.Chance(12) {
		rules = append(rules, rbacv1.PolicyRule{
			Verbs: []string{c.One("escalate", "bind", "impersonate")}, APIGroups: []string{"iam.kubesphere.io"},
			Resources: []string{c.One(append([]string{"groups", "users"}, roleKinds...)...)},
		})
	}
	return rules
}

// role returns a role, or a change of the existing one.
func (c *chance) role(k key, old *object) *object {
	o := &object{}
	if old != nil && !c.Chance(4) {
		o = old.clone()
	}
	o.Metadata.Name = k.name
	if o.Metadata.Annotations == nil {
		o.Metadata.Annotations = map[string]string{}
	}
	if k.resource == "workspaceroles" && (old == nil || c.Chance(6)) {
		o.Metadata.Labels = inWorkspace(c.One("w1", "w1", "w2", ""))
	}
	switch c.N(8) {
	case 0:
		o.Rules = c.rules()
	case 1, 2:
		o.Rules = append(o.Rules, c.rules()...)
	case 3:
		if len(o.Rules) > 0 {
			o.Rules = slices.Delete(o.Rules, 0, 1)
		}
	case 4:
		o.Rules = c.reworded(o.Rules)
	case 5:
		o.Templates = &iamv1beta1.AggregationRoleTemplates{TemplateNames: c.Some(2, "t1", "t2", "t3")}
		if c.Chance(3) {
			o.Templates.RoleSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pick": c.One("x", "y")}}
		}
		if c.Chance(2) {
			o.Rules = nil
		}
	case 6:
		o.Metadata.Annotations[iamv1beta1.AnnotationAutoAggregate] = c.One("true", "false", "")
	case 7:
		if c.Chance(2) {
			delete(o.Metadata.Annotations, iamv1beta1.AnnotationCELCondition)
		} else {
			o.Metadata.Annotations[iamv1beta1.AnnotationCELCondition] = c.One("false", "true", `user.name == "u1"`)
		}
	}
	return o
}

// reworded changes how rules are written: they look alike afterwards, but mean something else.
func (c *chance) reworded(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	out := make([]rbacv1.PolicyRule, len(rules))
	for i := range rules {
		out[i] = *rules[i].DeepCopy()
		list := []*[]string{&out[i].Verbs, &out[i].APIGroups, &out[i].Resources, &out[i].ResourceNames}[c.N(4)]
		by := c.One(" ", ",", ", ", ":", "/", "", "\n")
		if len(*list) > 1 {
			*list = []string{strings.Join(*list, by)}
		} else if len(*list) == 1 {
			*list = strings.Split((*list)[0], by)
		}
	}
	return out
}

func (c *chance) subject() rbacv1.Subject {
	switch c.N(6) {
	case 0:
		return rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: c.Mixed("g1", "g2", "g3", "g1", "system:authenticated")}
	case 1:
		return rbacv1.Subject{Kind: "ServiceAccount", Namespace: "n1", Name: "s"}
	}
	return rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: c.Mixed("u1", "u2", "u3", "u4", "u5", "u1", "u2")}
}

func (c *chance) binding() (key, *object) {
	k := key{resource: c.One(bindingKinds...), name: c.One("b1", "b2", "b3")}
	if k.resource == "rolebindings" {
		k.namespace = c.namespace()
	}
	o := &object{Metadata: metav1.ObjectMeta{Name: k.name}, RoleRef: refTo(k.resource, c.One("r1", "r2", "r3", "w1-admin"))}
	if k.resource == "workspacerolebindings" {
		o.Metadata.Labels = inWorkspace(c.workspace())
	}
	for range 1 + c.N(2) {
		o.Subjects = append(o.Subjects, c.subject())
	}
	return k, o
}

func (c *chance) user(p *platform) (key, *object) {
	k := key{"users", "", c.One("u1", "u2", "u3", "u4", "u5")}
	o := &object{}
	if old := p.objects[k]; old != nil {
		o = old.clone()
	}
	o.Metadata.Name = k.name
	switch c.N(4) {
	case 0:
		o.Metadata.Annotations = map[string]string{iamv1beta1.AnnotationGlobalRole: c.One("r1", "r2", "r3", "")}
	case 1:
		o.Spec.Groups = c.Some(2, "g1", "g2", "g3", "system:masters", c.Word())
	case 2:
		o.Spec.Password = fmt.Sprint("p", c.N(1000))
	case 3:
		o.Spec.Email = fmt.Sprint(c.N(1000), "@example.org")
	}
	return k, o
}

// next returns a random write.
func (c *chance) next(p *platform) write {
	by := c.One(people...)
	if n := len(c.pending); n > 0 && c.Chance(2) {
		w := c.pending[n-1]
		c.pending = c.pending[:n-1]
		return w
	}
	switch c.N(20) {
	case 0, 1, 2, 3, 4, 5:
		k := c.roleKey()
		return write{by, k, c.role(k, p.objects[k])}
	case 6:
		k := c.roleKey()
		quiet, loud := c.Twins(c.plain(), c.plain())
		first := &object{Metadata: metav1.ObjectMeta{Name: k.name}, Rules: []rbacv1.PolicyRule{quiet}}
		if k.resource == "workspaceroles" {
			first.Metadata.Labels = inWorkspace(c.workspace())
		}
		second := first.clone()
		second.Rules = []rbacv1.PolicyRule{loud}
		c.pending = append(c.pending, write{by, k, second})
		return write{by, k, first}
	case 7, 8, 9, 10, 11:
		k, o := c.binding()
		return write{by, k, o}
	case 12, 13:
		o := &object{Spec: spec{Rules: c.rules()}, Metadata: metav1.ObjectMeta{Name: c.One("t1", "t2", "t3")}}
		o.Metadata.Labels = map[string]string{iamv1beta1.LabelScope: c.One("global", "workspace", "cluster", "namespace"), "pick": c.One("x", "y")}
		return write{by, key{"roletemplates", "", o.Metadata.Name}, o}
	case 14:
		o := &object{Metadata: metav1.ObjectMeta{Name: c.One("g1", "g2", "g3"), Labels: inWorkspace(c.One("w1", "w2", ""))}}
		return write{by, key{"groups", "", o.Metadata.Name}, o}
	case 15:
		o := &object{Metadata: metav1.ObjectMeta{Name: c.One("m1", "m2"), Labels: inWorkspace(c.One("w1", "w2", ""))},
			Users:    c.Some(2, "u1", "u2", "u3", "u4", "u5"),
			GroupRef: &iamv1beta1.GroupRef{Kind: "Group", Name: c.One("g1", "g2", "g3", "system:masters")}}
		return write{by, key{"groupbindings", "", o.Metadata.Name}, o}
	case 16:
		k, o := c.user(p)
		return write{by, k, o}
	case 17:
		name := c.workspace()
		return write{by, key{"workspaces", "", name}, &object{Metadata: metav1.ObjectMeta{Name: name}, Spec: spec{Manager: c.One("u1", "u2", "u3", "u5", "")}}}
	case 18:
		o := &object{Metadata: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{iamv1beta1.AnnotationRole: c.One("r1", "r2", "r3", "")}}}
		return write{by, key{"serviceaccounts", "n1", "s"}, o}
	}
	keys := slices.DeleteFunc(p.keys(), func(k key) bool { return k.resource == "namespaces" })
	return write{by, keys[c.N(len(keys))], nil}
}

// beginning returns a random platform: some users hold much, some hold little.
func beginning(c *chance) map[key]*object {
	out := map[key]*object{}
	for range 8 {
		k := c.roleKey()
		o := &object{Metadata: metav1.ObjectMeta{Name: k.name}, Rules: append(c.rules(), *c.plain())}
		if k.resource == "workspaceroles" {
			o.Metadata.Labels = inWorkspace(c.workspace())
		}
		out[k] = o
	}
	for range 8 {
		k, o := c.binding()
		out[k] = o
	}
	for _, name := range []string{"u1", "u2", "u3", "u4"} {
		out[key{"users", "", name}] = &object{Metadata: metav1.ObjectMeta{Name: name}}
	}
	for _, name := range []string{"w1", "w2"} {
		out[key{"workspaces", "", name}] = &object{Metadata: metav1.ObjectMeta{Name: name}}
	}
	out[key{"groups", "", "g1"}] = &object{Metadata: metav1.ObjectMeta{Name: "g1", Labels: inWorkspace("w1")}}
	return out
}

// rights returns what each user may do.
func (p *platform) rights() map[string][]bool {
	out := map[string][]bool{}
	for _, name := range people {
		out[name] = p.allowed(name)
	}
	return out
}

// gained returns what a write gave that its writer did not hold, or "" for nothing. before is what users could do, and was has the objects before.
func (p *platform) gained(w *write, before map[string][]bool, was map[key]*object) (string, map[string][]bool) {
	after := p.rights()
	var earlier *platform
	lifted := func(i int) bool {
		if earlier == nil {
			earlier = newPlatform(p.t, was)
		}
		return earlier.lifted(w.by, universe[i].place)
	}
	for _, name := range people {
		for i := range universe {
			if after[name][i] && !before[name][i] && !before[w.by][i] && !lifted(i) {
				return fmt.Sprintf("%s gave %s the right to %s %s, which he did not hold", w.by, name, universe[i].info.Asked(), universe[i].place), after
			}
		}
	}
	if old := was[w.key]; w.key.resource == "users" && w.object != nil && w.by != w.key.name && slices.Contains(people, w.key.name) &&
		(old == nil || old.Spec.Password != w.object.Spec.Password || old.Spec.Email != w.object.Spec.Email) {
		for i, at := range universe {
			wide := at.place.Scope == request.Global || at.place.Scope == request.Cluster // rights in workspaces and namespaces do not count
			if wide && after[w.key.name][i] && !before[w.by][i] && !lifted(i) {
				return fmt.Sprintf("%s can be %s now, who may %s %s", w.by, w.key.name, at.info.Asked(), at.place), after
			}
		}
	}
	return "", after
}

// broken replays writes from a beginning, and returns what the first write gave that its writer did not hold, or "" for none.
func broken(t testing.TB, objects map[key]*object, writes []write) string {
	t.Helper()
	p := newPlatform(t, objects)
	before := p.rights()
	for i := range writes {
		was := maps.Clone(p.objects)
		if !p.try(&writes[i]) {
			continue
		}
		wrong, after := p.gained(&writes[i], before, was)
		if wrong != "" {
			return wrong
		}
		before = after
	}
	return ""
}

// shrunk leaves out writes, and objects of the beginning, that a failure does not need.
func shrunk(t testing.TB, objects map[key]*object, writes []write) (map[key]*object, []write) {
	t.Helper()
	for i := len(writes) - 1; i >= 0; i-- {
		if less := slices.Delete(slices.Clone(writes), i, i+1); broken(t, objects, less) != "" {
			writes = less
		}
	}
	for _, k := range slices.Collect(maps.Keys(objects)) {
		less := maps.Clone(objects)
		if delete(less, k); broken(t, less, writes) != "" {
			objects = less
		}
	}
	return objects, writes
}

func describe(objects map[key]*object, writes []write) string {
	var b strings.Builder
	for k, o := range objects {
		fmt.Fprintf(&b, "\nthere is %v: %s", k, o.raw())
	}
	for _, w := range writes {
		raw, _ := json.Marshal(w.object)
		fmt.Fprintf(&b, "\n%s writes %v: %s", w.by, w.key, raw)
	}
	return b.String()
}

// S77, without servers: random users write random roles, bindings, templates, groups and users, with hostile words, and no one gets a right that the writer
// did not hold at that scope, except by bind and escalate by name. The writers may write everything here: only the guard prevents more.
func TestNoWriteGivesWhatItsWriterDoesNotHold(t *testing.T) {
	made, refused := 0, 0
	for seed := range uint64(*histories) {
		c := &chance{Generator: hostile.New(seed)}
		objects := beginning(c)
		p := newPlatform(t, objects)
		before := p.rights()
		var writes []write
		for range 40 {
			w, was := c.next(p), maps.Clone(p.objects)
			if !p.try(&w) {
				refused++
				continue
			}
			made++
			writes = append(writes, w)
			wrong, after := p.gained(&w, before, was)
			if wrong != "" {
				objects, writes := shrunk(t, objects, writes)
				t.Fatalf("seed %d: %s%s", seed, broken(t, objects, writes), describe(objects, writes))
			}
			before = after
		}
	}
	if made < *histories || refused < *histories {
		t.Errorf("%d writes were made and %d refused: too few of one to say anything", made, refused)
	}
	t.Logf("%d writes were made, and %d refused", made, refused)
}

// histories is how many random histories there are: -histories=100000 tests more.
var histories = flag.Int("histories", 200, "random histories of the property of escalation")
