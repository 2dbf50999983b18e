package permission_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/tools/hostile"
)

func rule(verbs, groups, resources []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: resources, ResourceNames: names}
}

func words(w ...string) []string { return w }

func TestAStampIsOfWhatIsAskedFor(t *testing.T) { // X18
	base := func() permission.Request {
		return permission.Request{
			ClusterRules: []rbacv1.PolicyRule{rule(words("get", "list"), words(""), words("pods")), rule(words("create"), words("apps"), words("deployments"))},
			Rules:        []rbacv1.PolicyRule{rule(words("*"), words("shop.example.com"), words("orders"))},
			Namespace:    "extension-shop", HookImages: []string{"hook:1", "hook:2"},
		}
	}
	stamp := func(change func(*permission.Request)) string {
		r := base()
		change(&r)
		return r.Stamp()
	}
	same := stamp(func(*permission.Request) {})
	for name, change := range map[string]func(*permission.Request){
		"the order of rules":  func(r *permission.Request) { slices.Reverse(r.ClusterRules) },
		"the order of verbs":  func(r *permission.Request) { slices.Reverse(r.ClusterRules[0].Verbs) },
		"a rule twice":        func(r *permission.Request) { r.Rules = append(r.Rules, r.Rules[0]) },
		"the order of images": func(r *permission.Request) { slices.Reverse(r.HookImages) },
	} {
		if got := stamp(change); got != same {
			t.Errorf("%s changes the stamp", name)
		}
	}
	for name, change := range map[string]func(*permission.Request){
		"a verb more":            func(r *permission.Request) { r.ClusterRules[0].Verbs = append(r.ClusterRules[0].Verbs, "watch") },
		"a rule more":            func(r *permission.Request) { r.Rules = append(r.Rules, rule(words("get"), words(""), words("nodes"))) },
		"a name less":            func(r *permission.Request) { r.Rules[0].ResourceNames = []string{"one"} },
		"words that are joined":  func(r *permission.Request) { r.ClusterRules[0].Verbs = []string{"get,list"} },
		"a rule for the cluster": func(r *permission.Request) { r.ClusterRules, r.Rules = append(r.ClusterRules, r.Rules...), nil },
		"another namespace":      func(r *permission.Request) { r.Namespace = "kube-system" },
		"another chart":          func(r *permission.Request) { r.Chart = "digest" },
		"other values":           func(r *permission.Request) { r.Values = "digest" },
		"a host":                 func(r *permission.Request) { r.Upstreams = []string{"api.example.com"} },
		"another image":          func(r *permission.Request) { r.HookImages = []string{"hook:2"} },
		"a path in place of a group": func(r *permission.Request) {
			r.Rules[0].APIGroups, r.Rules[0].NonResourceURLs = nil, r.Rules[0].APIGroups
		},
	} {
		if got := stamp(change); got == same {
			t.Errorf("%s does not change the stamp", name)
		}
	}
}

// X6: a plan names hosts, and nothing else.
func TestX6UpstreamsAreHosts(t *testing.T) {
	of := func(list string) ([]string, error) {
		return permission.UpstreamsOf(&v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationUpstreams: list}}})
	}
	hosts, err := of(" B.example.com,a.example.com  b.example.com\n192.0.2.1,2001:db8::1")
	if err != nil || !slices.Equal(hosts, words("192.0.2.1", "2001:db8::1", "a.example.com", "b.example.com")) {
		t.Errorf("%q %v", hosts, err)
	}
	for _, bad := range []string{"*", "*.example.com", "https://example.com", "example.com:80", "example.com/x", "a..b", "x_y", "[::1]", ".", "a\x00b",
		strings.Repeat("a ", 1) + strings.Repeat("b", 300), "é.example.com"} {
		if hosts, err := of(bad); err == nil {
			t.Errorf("%q: %q", bad, hosts)
		}
	}
	var many []string
	for i := range 33 {
		many = append(many, fmt.Sprintf("a%d.example.com", i))
	}
	if _, err := of(strings.Join(many, ",")); err == nil {
		t.Error("any number of hosts")
	}
	if hosts, err := of(""); err != nil || len(hosts) > 0 {
		t.Errorf("%q %v", hosts, err)
	}
}

func TestLevels(t *testing.T) {
	for _, tt := range []struct {
		r    permission.Request
		want permission.Level
	}{
		{permission.Request{Rules: []rbacv1.PolicyRule{rule(words("*"), words("*"), words("*"))}}, permission.LevelNamespace},
		{permission.Request{ClusterRules: []rbacv1.PolicyRule{rule(words("get"), words(""), words("nodes"))}}, permission.LevelCluster},
		{permission.Request{ClusterRules: []rbacv1.PolicyRule{rule(words("*"), words("*"), words("*"))}}, permission.LevelEverything},
		{permission.Request{ClusterRules: []rbacv1.PolicyRule{rule(words("get"), words("*"), words("secrets"))}}, permission.LevelEverything},
		{permission.Request{ClusterRules: []rbacv1.PolicyRule{rule(words("*"), words(rbacv1.GroupName), words("*"))}}, permission.LevelEverything},
	} {
		if got := tt.r.Level(); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.r, got, tt.want)
		}
	}
}

// covered reports whether rights have a rule.
func covered(rights permission.Rights, namespace string, r rbacv1.PolicyRule) bool {
	ok, _ := validation.Covers(append(slices.Clone(rights[""]), rights[namespace]...), []rbacv1.PolicyRule{r})
	return ok
}

func TestAnOperationGetsWhatItsObjectsNeed(t *testing.T) { // X21
	gives := []rbacv1.PolicyRule{rule(words("get"), words(""), words("pods"))}
	b := (&permission.Request{Namespace: "shop", ClusterRules: append([]rbacv1.PolicyRule{
		rule(words("create", "get", "update", "patch", "delete"), words(rbacv1.GroupName), words("clusterroles", "clusterrolebindings")),
		rule(words("bind"), words(rbacv1.GroupName), words("clusterroles"), "view"),
	}, gives...)}).Bound()
	rights, missing := b.ForInstallation([]permission.Object{
		{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"},
		{Group: rbacv1.GroupName, Resource: "clusterroles", Name: "shop", Gives: gives},
		{Group: rbacv1.GroupName, Resource: "clusterrolebindings", Name: "shop", Binds: &rbacv1.RoleRef{Kind: "ClusterRole", Name: "shop"}},
		{Group: rbacv1.GroupName, Resource: "clusterrolebindings", Name: "view", Binds: &rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}},
		{Group: rbacv1.GroupName, Resource: "clusterrolebindings", Name: "root", Binds: &rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"}},
		{Group: rbacv1.GroupName, Resource: "clusterroles", Name: "root", Gives: []rbacv1.PolicyRule{rule(words("*"), words("*"), words("*"))}},
		{Group: "", Resource: "configmaps", Namespace: "kube-system", Name: "stolen"},
	})
	for _, need := range []struct {
		namespace string
		rule      rbacv1.PolicyRule
		want      bool
	}{
		{"shop", rule(words("create"), words("apps"), words("deployments")), true},
		{"shop", rule(words("delete", "get", "patch", "update"), words("apps"), words("deployments"), "web"), true},
		{"shop", rule(words("delete"), words("apps"), words("deployments"), "other"), false},
		{"shop", rule(words("get"), words(""), words("secrets")), false},
		{"", gives[0], true},
		{"", rule(words("bind"), words(rbacv1.GroupName), words("clusterroles"), "view"), true},
		{"", rule(words("bind"), words(rbacv1.GroupName), words("clusterroles"), "cluster-admin"), false},
		{"", rule(words("escalate"), words(rbacv1.GroupName), words("clusterroles")), false},
		{"kube-system", rule(words("create"), words(""), words("configmaps")), false},
	} {
		if got := covered(rights, need.namespace, need.rule); got != need.want {
			t.Errorf("%v in %q: got %v, want %v", need.rule, need.namespace, got, need.want)
		}
	}
	for _, want := range []permission.Need{
		{Verb: "bind", Group: rbacv1.GroupName, Resource: "clusterroles", Name: "cluster-admin"},
		{Verb: "escalate", Group: rbacv1.GroupName, Resource: "clusterroles"},
		{Namespace: "kube-system", Verb: "create", Resource: "configmaps"},
	} {
		if !slices.Contains(missing, want) {
			t.Errorf("%v is not said to be missing: %v", want, missing)
		}
	}
}

func TestAnExtensionGivesUsersWhatWasApproved(t *testing.T) { // X21
	const iam = "iam.kubesphere.io"
	b := (&permission.Request{Namespace: "shop", ClusterRules: []rbacv1.PolicyRule{
		rule(words("create", "delete", "get", "patch", "update"), words(iam, "extensions.kubesphere.io"), words("*")), rule(words("get"), words(""), words("nodes")),
		rule(words("*"), words("shop.example.com"), words("*")),
	}}).Bound()
	template := func(name string, gives ...rbacv1.PolicyRule) permission.Object {
		return permission.Object{Group: iam, Resource: "roletemplates", Name: name, Gives: gives}
	}
	rights, missing := b.ForInstallation([]permission.Object{
		template("own", rule(words("get"), words("shop.example.com"), words("orders"))),
		template("within", rule(words("get"), words(""), words("nodes"))),
		template("beyond", rule(words("get"), words("shop.example.com", ""), words("secrets"))),
		template("paths", rbacv1.PolicyRule{Verbs: words("get"), NonResourceURLs: words("/proxy/*")}),
		{Group: iam, Resource: "globalroles", Name: "all", Aggregates: true},
		{Group: iam, Resource: "globalrolebindings", Name: "root", Binds: &rbacv1.RoleRef{APIGroup: iam, Kind: "GlobalRole", Name: "platform-admin"}},
	})
	for name, want := range map[string]bool{"own": true, "within": true, "beyond": false, "paths": false} {
		if got := covered(rights, "", rule(words("escalate"), words(iam), words("roletemplates"), name)); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		if lacks := slices.Contains(missing, permission.Need{Verb: "escalate", Group: iam, Resource: "roletemplates", Name: name}); lacks == want {
			t.Errorf("%s is missing: %v", name, lacks)
		}
	}
	for _, want := range []permission.Need{
		{Verb: "escalate", Group: iam, Resource: "globalroles", Name: "all"}, {Verb: "bind", Group: iam, Resource: "globalroles", Name: "platform-admin"},
	} {
		if !slices.Contains(missing, want) {
			t.Errorf("%v is not missing: %v", want, missing)
		}
	}
}

// X21: an installer writes an object whose backend gets access tokens only where the chart asks for what that is worth, which is everything.
func TestX21AccessTokensForABackendAreAskedFor(t *testing.T) {
	const group = "extensions.kubesphere.io"
	writes, impersonates := rule(words("*"), words(group), words("*")), rule(words("impersonate"), words(""), words("users"))
	service := permission.Object{Group: group, Resource: "apiservices", Name: "shop", Forwards: true}
	need := permission.Need{Verb: "impersonate", Resource: "users"}
	for name, c := range map[string]struct {
		asked  rbacv1.PolicyRule
		missed bool
	}{
		"NotAskedFor":      {rule(words("get"), words(""), words("users")), true},
		"SomeUsers":        {rule(words("impersonate"), words(""), words("users"), "ann"), true},
		"OfThePlatform":    {rule(words("impersonate"), words("iam.kubesphere.io"), words("users")), true},
		"AskedFor":         {impersonates, false},
		"AmongOthers":      {rule(words("*"), words("*"), words("*")), false},
		"InItsNamespace":   {rule(words("*"), words(group), words("*")), true},
		"ConstrainedUsers": {rule(words("impersonate:user-info"), words("authentication.k8s.io"), words("users")), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := permission.Request{Namespace: "shop", ClusterRules: []rbacv1.PolicyRule{writes, c.asked},
				Rules: []rbacv1.PolicyRule{impersonates}}
			b := r.Bound()
			rights, missing := b.ForInstallation([]permission.Object{service})
			if slices.Contains(missing, need) != c.missed || covered(rights, "", impersonates) == c.missed {
				t.Errorf("missing %v, rights %v", missing, rights)
			}
			if !c.missed && r.Level() != permission.LevelEverything {
				t.Errorf("the level is %s", r.Level())
			}
			plain := service
			plain.Forwards = false
			if rights, missing := b.ForInstallation([]permission.Object{plain}); len(missing) > 0 || covered(rights, "", impersonates) {
				t.Errorf("without tokens: missing %v, rights %v", missing, rights)
			}
		})
	}
}

func TestARemovalNeedsNoApproval(t *testing.T) { // X21, X27
	rights := permission.ForRemoval([]permission.Object{{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}})
	if !covered(rights, "shop", rule(words("get", "delete"), words("apps"), words("deployments"), "web")) {
		t.Errorf("%v", rights)
	}
	for _, r := range []rbacv1.PolicyRule{rule(words("create"), words("apps"), words("deployments")), rule(words("delete"), words("apps"), words("deployments"))} {
		if covered(rights, "shop", r) {
			t.Errorf("%v has more: %v", rights, r)
		}
	}
}

func TestNoOperationGoesBeyondItsBound(t *testing.T) { // X21
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	one := func(of ...string) string { return of[rnd.IntN(len(of))] }
	word := func(of ...string) []string {
		if rnd.IntN(8) == 0 {
			of = hostile.Words()
		}
		return []string{one(of...), one(of...)}
	}
	verbs := []string{"get", "create", "update", "patch", "delete", "bind", "escalate", "*"}
	groups := []string{"", "apps", rbacv1.GroupName, "*"}
	resources := []string{"pods", "deployments", "roles", "clusterroles", "rolebindings", "clusterrolebindings", "*"}
	rules := func() []rbacv1.PolicyRule {
		out := []rbacv1.PolicyRule{}
		for range rnd.IntN(4) {
			r := rule(word(verbs...), word(groups...), word(resources...))
			if rnd.IntN(3) == 0 {
				r.ResourceNames = word("a", "b", "cluster-admin")
			}
			out = append(out, r)
		}
		return out
	}
	for n := range 20_000 {
		b := (&permission.Request{ClusterRules: rules(), Rules: rules(), Namespace: "shop"}).Bound()
		var objects []permission.Object
		for range rnd.IntN(5) {
			o := permission.Object{Group: one(groups[:3]...), Resource: one(resources[:6]...), Namespace: one("", "shop", "other"), Name: one("a", "b")}
			if o.Group == rbacv1.GroupName {
				switch o.Resource {
				case "roles", "clusterroles":
					o.Gives, o.Aggregates = rules(), rnd.IntN(6) == 0
				case "rolebindings", "clusterrolebindings":
					o.Binds = &rbacv1.RoleRef{Kind: one("Role", "ClusterRole"), Name: one("a", "b", "cluster-admin")}
				}
			}
			objects = append(objects, o)
		}
		rights, missing := b.ForInstallation(objects)
		for namespace, got := range rights {
			have := b.Cluster
			if namespace == b.Namespace {
				have = append(slices.Clone(have), b.Rules...)
			}
			if ok, beyond := validation.Covers(have, got); !ok {
				t.Fatalf("seed %d, %d: in %q beyond the bound %v: %v", seed, n, namespace, have, beyond)
			}
		}
		for i := range objects {
			o := &objects[i]
			need := permission.Need{Namespace: o.Namespace, Verb: "update", Group: o.Group, Resource: o.Resource, Name: o.Name}
			if slices.Contains(missing, need) == covered(rights, o.Namespace, rule(words("update"), words(o.Group), words(o.Resource), o.Name)) {
				t.Fatalf("seed %d, %d: %s is neither given nor said to be missing", seed, n, fmt.Sprint(need))
			}
		}
	}
}

func TestX21ReadingIsARightOnTheObject(t *testing.T) { // X21
	b := permission.Bound{Namespace: "shop", Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"*"}}}}
	rights, missing := b.ForReading([]permission.Object{{Resource: "secrets", Namespace: "shop", Name: "mine"}, {Resource: "pods", Namespace: "shop"},
		{Resource: "secrets", Namespace: "other", Name: "theirs"}, {Resource: "secrets"}})
	for _, c := range []struct {
		rule rbacv1.PolicyRule
		want bool
	}{
		{rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"mine"}}, true},
		{rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"other"}}, false},
		{rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"secrets"}}, false},
		{rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}, true},
	} {
		if got := covered(rights, "shop", c.rule); got != c.want {
			t.Errorf("%v: got %v", c.rule, got)
		}
	}
	if len(missing) != 2 || missing[0].String() != `get secrets "theirs" in "other"` || missing[1].String() != "list secrets" || len(rights[""]) > 0 {
		t.Errorf("missing %v, in the cluster %v", missing, rights[""])
	}
}
