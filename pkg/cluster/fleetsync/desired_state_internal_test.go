package fleetsync

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/store"
)

// set feeds an object.
func set(t *testing.T, s *Source, plural, name, raw string) {
	t.Helper()
	for gvr, sink := range s.Sinks() {
		if gvr.Resource == plural {
			sink.Set(&store.Object{Name: name, Raw: []byte(raw)})
			return
		}
	}
	t.Fatalf("%s are not fed", plural)
}

func drop(s *Source, plural, name string) {
	for gvr, sink := range s.Sinks() {
		if gvr.Resource == plural {
			sink.Delete("", name)
		}
	}
}

const meta = `{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"X","metadata":{"name":%q,"uid":"u-%s"%s}%s}`

func binding(name, user, labels string) string {
	return fmt.Sprintf(meta, name, name, labels, `,"roleRef":{"kind":"GlobalRole","name":"r"},"subjects":[{"kind":"User","name":"`+user+`"},{"kind":"Group","name":"g"}]`)
}

func template(name, placement, more string) string {
	return `{"metadata":{"name":"` + name + `","uid":"u"` + more + `},"spec":{"placement":` + placement + `,"template":{"spec":{"manager":"boss"}}}}`
}

func names(of map[string]map[string]string) (out []string) {
	for _, r := range refsOf(of) {
		out = append(out, r.Kind+"/"+r.Name)
	}
	return out
}

// ended returns what a source saw the end of.
func ended(s *Source) (out []Change) {
	for r, end := range s.withdrawn.gone.All() {
		out = append(out, Change{Ref: r, Propagation: end})
	}
	return out
}

// gone returns what a member is told to delete however much it is, in order.
func gone(s *Source, t *Target) (out []string) {
	of, _, _ := s.all(t)
	for _, c := range of.Gone {
		out = append(out, c.Kind+"/"+c.Name)
	}
	slices.Sort(out)
	return out
}

func newFed(t *testing.T) *Source {
	t.Helper()
	s := NewSource(nil)
	for _, name := range []string{"ann", "bob", "boss", "own", "idle"} {
		set(t, s, "users", name, fmt.Sprintf(meta, name, name, "", `,"spec":{"email":"e","password":"canary"}`))
	}
	set(t, s, "globalroles", "custom", fmt.Sprintf(meta, "custom", "custom", "", `,"rules":[]`))
	set(t, s, "globalroles", "platform-regular", fmt.Sprintf(meta, "platform-regular", "r", "", `,"rules":[]`))
	set(t, s, "globalrolebindings", "ann", binding("ann", "ann", ""))
	set(t, s, "workspacetemplates", "here", template("here", `{"clusters":[{"name":"m1"}]}`, ""))
	set(t, s, "workspacetemplates", "there", template("there", `{"clusterSelector":{"matchLabels":{"zone":"b"}}}`, ""))
	set(t, s, "workspacetemplates", "system-workspace", template("system-workspace", `{"clusterSelector":{}}`, ""))
	for _, w := range []string{"here", "there"} {
		set(t, s, "workspaceroles", w+"-extra", fmt.Sprintf(meta, w, w, `,"labels":{"kubesphere.io/workspace":"`+w+`"}`, `,"rules":[]`))
		set(t, s, "workspacerolebindings", w+"-bob", binding(w+"-bob", "bob", `,"labels":{"kubesphere.io/workspace":"`+w+`"}`))
	}
	set(t, s, "workspacerolebindings", "nobodys", binding("nobodys", "idle", ""))
	return s
}

// F24: each member gets what is of all, what is of the workspaces that are placed there, and the users whom that names.
func TestWhatIsInAMember(t *testing.T) {
	s := newFed(t)
	for name, x := range map[string]struct {
		target Target
		want   string
	}{
		"ByName":        {Target{Name: "m1"}, "workspaces/here users/ann users/bob users/boss globalroles/custom workspaceroles/here-extra globalrolebindings/ann workspacerolebindings/here-bob"},
		"BySelector":    {Target{Name: "m2", Labels: map[string]string{"zone": "b"}}, "workspaces/there users/ann users/bob users/boss globalroles/custom workspaceroles/there-extra globalrolebindings/ann workspacerolebindings/there-bob"},
		"Nowhere":       {Target{Name: "m3"}, "users/ann globalroles/custom globalrolebindings/ann"},
		"BoundThere":    {Target{Name: "m3", Bound: []string{"own", "unknown"}}, "users/ann users/own globalroles/custom globalrolebindings/ann"},
		"AnotherOfThem": {Target{Name: "here"}, "users/ann globalroles/custom globalrolebindings/ann"},
	} {
		t.Run(name, func(t *testing.T) {
			of, _, _ := s.all(&x.target)
			if got := strings.Join(names(of.Objects), " "); got != x.want {
				t.Errorf("it is\n%s, want\n%s", got, x.want)
			}
		})
	}
}

// F17, F24: which roles every installation has is known by their names: a label says nothing, since whoever may write a role may write that.
func TestARoleWithALabelIsSent(t *testing.T) {
	labels := `,"labels":{"app.kubernetes.io/part-of":"ks-apiserver","app.kubernetes.io/managed-by":"ks-controller-manager"}`
	for name, sent := range map[string]bool{"ops": true, "platform-admin": false, "authenticated": false, "a-platform-admin": true} {
		c, err := contentOf(kinds[2], []byte(fmt.Sprintf(meta, name, name, labels, `,"rules":[]`)))
		if err != nil || (c != nil) != sent {
			t.Errorf("%s is sent: %v, %v", name, c != nil, err)
		}
	}
	for _, role := range []string{"shop-admin", "shop-self-provisioner", "shop-regular", "shop-viewer"} {
		if !shipped().has("shop", role) || shipped().has("sho", role) || shipped().has("", role) {
			t.Errorf("%s is no role of every workspace", role)
		}
	}
}

// F24: what has changed since is told, each once, and where it is not to be any more.
func TestChangesAreToldOnce(t *testing.T) {
	s := newFed(t)
	m1, m2 := &Target{Name: "m1"}, &Target{Name: "m2", Labels: map[string]string{"zone": "b"}}
	_, _, at := s.all(m1)
	tell := func(to *Target) (out []string) {
		t.Helper()
		refs, there, _, known := s.since(at, to)
		if !known {
			t.Fatal("it is not known any more")
		}
		for _, r := range refs {
			out = append(out, fmt.Sprintf("%s/%s %v", r.Kind, r.Name, there[r]))
		}
		slices.Sort(out)
		return out
	}
	if got := tell(m1); got != nil {
		t.Errorf("nothing has changed: %v", got)
	}
	set(t, s, "globalrolebindings", "ann", binding("ann", "ann", "")) // as it was
	set(t, s, "users", "idle", fmt.Sprintf(meta, "idle", "idle", "", `,"spec":{"email":"new"}`))
	if got := tell(m1); got != nil {
		t.Errorf("nothing has changed there: %v", got)
	}
	set(t, s, "globalrolebindings", "new", binding("new", "idle", ""))
	drop(s, "globalroles", "custom")
	drop(s, "globalroles", "custom")
	if got := strings.Join(tell(m1), ", "); got != "globalrolebindings/new true, globalroles/custom false, users/idle true" {
		t.Error(got)
	}
	_, _, at = s.all(m1)
	set(t, s, "workspacetemplates", "here", template("here", `{"clusters":[{"name":"m2"}]}`, ""))
	if got := strings.Join(tell(m1), ", "); got != "users/bob false, workspacerolebindings/here-bob false, workspaceroles/here-extra false, workspaces/here false" &&
		got != "workspacerolebindings/here-bob false, workspaceroles/here-extra false, workspaces/here false" {
		t.Error(got)
	}
	if got := strings.Join(tell(m2), ", "); !strings.Contains(got, "workspaces/here true") || !strings.Contains(got, "users/bob true") {
		t.Error(got)
	}
	for i := range remembered {
		set(t, s, "globalroles", "r", fmt.Sprintf(meta, "r", "r", "", fmt.Sprintf(`,"rules":[{"verbs":["v%d"]}]`, i)))
	}
	if _, _, _, known := s.since(at, m1); known {
		t.Error("all of it is known, although it is more than is remembered")
	}
}

// F28: what a deletion says of namespaces is told, also when the template is gone.
func TestADeletionIsRememberedWithWhatItSays(t *testing.T) {
	s := newFed(t)
	set(t, s, "workspacetemplates", "here", template("here", `{"clusters":[{"name":"m1"}]}`,
		`,"deletionTimestamp":"2026-01-01T00:00:00Z","annotations":{"kubesphere.io/deletion-propagation":"Foreground"}`))
	drop(s, "workspacetemplates", "here")
	want := Change{Ref: Ref{"workspaces", "here"}, Propagation: "Foreground"}
	if got := ended(s); len(got) != 1 || got[0].Ref != want.Ref || got[0].Propagation != want.Propagation {
		t.Errorf("%v", got)
	}
	set(t, s, "workspacetemplates", "here", template("here", `{"clusters":[{"name":"m1"}]}`, ""))
	if got := ended(s); len(got) != 0 {
		t.Errorf("it is there again: %v", got)
	}
}

// F27: nothing that a user logs in with is sent, and nothing that this cluster alone keeps in an object.
func TestNoSecretOfAUserIsSent(t *testing.T) {
	users := schema.GroupVersionResource{Resource: "users"}
	c, err := contentOf(users, []byte(`{"metadata":{"name":"ann","uid":"u-ann","annotations":{"iam.kubesphere.io/identity":"canary"},"labels":{"l":"canary"}},
		"spec":{"email":"e","password":"canary","groups":["g"]},"status":{"lastLoginTime":"2026-01-01T00:00:00Z"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(c.object); strings.Contains(text, "canary") || strings.Contains(text, "lastLogin") || !strings.Contains(text, `"kapis.dev/fleet-uid":"u-ann"`) ||
		!strings.Contains(text, `"groups":["g"]`) {
		t.Error(text)
	}
	roles := schema.GroupVersionResource{Resource: "globalroles"}
	c, err = contentOf(roles, []byte(`{"metadata":{"name":"r","uid":"canary","resourceVersion":"canary","finalizers":["canary"],"ownerReferences":[{"name":"canary"}],
		"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"canary","a":"b"}},"rules":[],"status":{"x":"canary"}}`))
	if err != nil || strings.Contains(string(c.object), "canary") || !strings.Contains(string(c.object), `"a":"b"`) {
		t.Errorf("%s, %v", c.object, err)
	}
	for _, broken := range []string{"", "[]", `{"metadata":7}`} {
		if c, err := contentOf(roles, []byte(broken)); err == nil {
			t.Errorf("%s is %v", broken, c)
		}
	}
}

// F26: what the hub saw the end of stays known as that for as long as of anything else, also where it had ended before and come again.
func TestTheLastEndIsKnown(t *testing.T) {
	s := newFed(t)
	ends := func(name string) {
		set(t, s, "globalroles", name, fmt.Sprintf(meta, name, name, "", `,"rules":[]`))
		drop(s, "globalroles", name)
	}
	ends("again")
	ends("again")
	for i := range remembered - 1 {
		ends(fmt.Sprintf("other-%d", i))
	}
	all := ended(s)
	if !slices.ContainsFunc(all, func(c Change) bool { return c.Ref == Ref{"globalroles", "again"} }) || len(all) < remembered {
		t.Errorf("of %d ends its last one is not known", len(all))
	}
	for i := range remembered + 1 {
		ends(fmt.Sprintf("later-%d", i))
	}
	if all = ended(s); slices.ContainsFunc(all, func(c Change) bool { return c.Ref == Ref{"globalroles", "again"} }) || len(all) > 2*remembered {
		t.Errorf("of %d ends the oldest one is known", len(all))
	}
}
