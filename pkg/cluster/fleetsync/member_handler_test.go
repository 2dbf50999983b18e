package fleetsync_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
)

const hub = "u-hub"

var (
	roles      = schema.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1beta1", Resource: "globalroles"}
	workspaces = schema.GroupVersionResource{Group: "tenant.kubesphere.io", Version: "v1beta1", Resource: "workspaces"}
)

// member is a member whose objects are in memory.
type member struct {
	t *testing.T
	*fleetsync.Member
	objects *dynamicfake.FakeDynamicClient
	// hubs are the roles that the hub has, which it sends with what gives them.
	hubs fleetsync.Roles
}

func newMember(t *testing.T) *member {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{roles: "GlobalRoleList", workspaces: "WorkspaceList"}
	for _, plural := range []string{"users", "workspaceroles", "globalrolebindings", "workspacerolebindings", "clusterrolebindings"} {
		lists[schema.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1beta1", Resource: plural}] = "List"
	}
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	return &member{t, &fleetsync.Member{Objects: objects, Bound: func(context.Context) (*fleetsync.Bound, error) {
		return &fleetsync.Bound{Version: "1", Users: []string{"ann"}}, nil
	}}, objects, fleetsync.Roles{"globalroles": {}, "workspaceroles": {}}}
}

// ask sends what a hub sends, and reads the answer.
func (m *member) ask(method, path string, body, into any) int {
	m.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		m.t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	m.ServeHTTP(rec, httptest.NewRequestWithContext(m.t.Context(), method, path, bytes.NewReader(raw)))
	if rec.Code == http.StatusOK && into != nil {
		if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil {
			m.t.Fatal(err)
		}
	}
	return rec.Code
}

func object(kind, name string, more map[string]any) map[string]any {
	group := "iam.kubesphere.io/v1beta1"
	if kind == "Workspace" {
		group = "tenant.kubesphere.io/v1beta1"
	}
	o := map[string]any{"apiVersion": group, "kind": kind, "metadata": map[string]any{"name": name}}
	for k, v := range more {
		o[k] = v
	}
	return o
}

func raw(t *testing.T, o map[string]any) json.RawMessage {
	t.Helper()
	out, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// put sends one object, and returns what is pending.
func (m *member) put(plural, hash string, o map[string]any) []string {
	m.t.Helper()
	out := &fleetsync.Outcome{}
	name := o["metadata"].(map[string]any)["name"].(string)
	if of, is := m.hubs[plural]; is {
		of[name] = raw(m.t, o)
	}
	code := m.ask(http.MethodPost, fleetsync.PathObjects, &fleetsync.Changes{Hub: hub, Roles: m.hubs, Changes: []fleetsync.Change{
		{Ref: fleetsync.Ref{Kind: plural, Name: name}, Hash: hash, Object: raw(m.t, o)}}}, out)
	if code != http.StatusOK {
		m.t.Fatalf("the member answers %d", code)
	}
	var reasons []string
	for _, p := range out.Pending {
		reasons = append(reasons, p.Kind+"/"+p.Name+": "+p.Reason)
	}
	return reasons
}

func (m *member) get(k schema.GroupVersionResource, name string) *unstructured.Unstructured {
	m.t.Helper()
	o, err := m.objects.Resource(k).Get(m.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return o
}

func (m *member) own(k schema.GroupVersionResource, o map[string]any) {
	m.t.Helper()
	if _, err := m.objects.Resource(k).Create(m.t.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

var rules = map[string]any{"rules": []any{map[string]any{"verbs": []any{"get"}}}}

func TestAnObjectIsKeptAsTheHubHasIt(t *testing.T) { // F24
	m := newMember(t)
	if p := m.put("globalroles", "h1", object("GlobalRole", "viewer", rules)); p != nil {
		t.Fatal(p)
	}
	o := m.get(roles, "viewer")
	if o == nil || o.GetLabels()[fleetsync.LabelFleet] != hub || o.GetAnnotations()["kapis.dev/fleet-hash"] != "h1" {
		t.Fatalf("it is %v", o)
	}
	// What the member's own controllers write stays.
	o.SetFinalizers([]string{"own"})
	o.Object["status"] = map[string]any{"state": "own"}
	if _, err := m.objects.Resource(roles).Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if p := m.put("globalroles", "h2", object("GlobalRole", "viewer", map[string]any{"rules": []any{}})); p != nil {
		t.Fatal(p)
	}
	o = m.get(roles, "viewer")
	if got, _, _ := unstructured.NestedSlice(o.Object, "rules"); len(got) != 0 || !slices.Equal(o.GetFinalizers(), []string{"own"}) ||
		o.Object["status"] == nil || o.GetAnnotations()["kapis.dev/fleet-hash"] != "h2" {
		t.Errorf("it is %v", o)
	}
}

// F24: a user or a workspace that was deleted on the hub and made anew before the member was told is another one: the former goes first, with
// what its finalizers stand for, and a workspace's namespaces stay.
func TestWhatWasMadeAnewIsNotTheFormer(t *testing.T) {
	users := schema.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1beta1", Resource: "users"}
	for kind, k := range map[string]schema.GroupVersionResource{"User": users, "Workspace": workspaces} {
		m := newMember(t)
		of := func(uid string) map[string]any {
			o := object(kind, "ann", nil)
			o["metadata"].(map[string]any)["annotations"] = map[string]any{"kapis.dev/fleet-uid": uid}
			return o
		}
		if p := m.put(k.Resource, "h1", of("u-1")); p != nil {
			t.Fatal(p)
		}
		former := m.get(k, "ann")
		former.SetFinalizers([]string{"own"})
		if _, err := m.objects.Resource(k).Update(t.Context(), former, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if p := m.put(k.Resource, "h2", of("u-1")); p != nil || !slices.Equal(m.get(k, "ann").GetFinalizers(), []string{"own"}) {
			t.Errorf("%s: of the same UID it is %v, pending %v", kind, m.get(k, "ann"), p)
		}
		m.objects.PrependReactor("delete", k.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			o, err := m.objects.Tracker().Get(k, "", "ann") // what kube-apiserver does with finalizers
			if err != nil {
				return true, nil, err
			}
			o.(*unstructured.Unstructured).SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
			return true, nil, m.objects.Tracker().Update(k, o, "")
		})
		for range 2 {
			if p := m.put(k.Resource, "h3", of("u-2")); len(p) != 1 || !strings.Contains(p[0], "the former is deleted here first") {
				t.Errorf("%s: pending is %v", kind, p)
			}
		}
		o := m.get(k, "ann")
		if o.GetDeletionTimestamp() == nil || o.GetAnnotations()["kapis.dev/fleet-uid"] != "u-1" ||
			kind == "Workspace" && o.GetAnnotations()["kubesphere.io/deletion-propagation"] != "Orphan" {
			t.Errorf("%s: the former is %v", kind, o)
		}
		if err := m.objects.Tracker().Delete(k, "", "ann"); err != nil {
			t.Fatal(err)
		}
		if p := m.put(k.Resource, "h3", of("u-2")); p != nil || m.get(k, "ann").GetAnnotations()["kapis.dev/fleet-uid"] != "u-2" {
			t.Errorf("%s: pending is %v, it is %v", kind, p, m.get(k, "ann"))
		}
	}
}

// F17, F24: what a cluster has of its own is never changed or deleted, and is named; one that gives the same is as good.
func TestWhatAClusterHasOfItsOwnStays(t *testing.T) {
	m := newMember(t)
	m.own(roles, object("GlobalRole", "own", map[string]any{"rules": []any{}}))
	m.own(roles, object("GlobalRole", "same", rules))
	other := object("GlobalRole", "other", rules)
	other["metadata"].(map[string]any)["labels"] = map[string]any{fleetsync.LabelFleet: "u-other"}
	m.own(roles, other)
	for name, want := range map[string]string{"own": "of its own", "same": "", "other": "another hub"} {
		changed := object("GlobalRole", name, rules)
		if name == "other" {
			changed = object("GlobalRole", name, map[string]any{"rules": []any{}})
		}
		p := strings.Join(m.put("globalroles", "h", changed), " ")
		if want == "" && p != "" || !strings.Contains(p, want) {
			t.Errorf("%s: %q, want %q", name, p, want)
		}
	}
	out := &fleetsync.Outcome{}
	m.ask(http.MethodPost, fleetsync.PathObjects, &fleetsync.Changes{Hub: hub, Changes: []fleetsync.Change{
		{Ref: fleetsync.Ref{Kind: "globalroles", Name: "own"}}, {Ref: fleetsync.Ref{Kind: "globalroles", Name: "other"}},
		{Ref: fleetsync.Ref{Kind: "globalroles", Name: "nowhere"}}, {Ref: fleetsync.Ref{Kind: "secrets", Name: "x"}}}}, out)
	if m.get(roles, "own") == nil || m.get(roles, "other") == nil {
		t.Error("what is not the hub's was deleted")
	}
	if len(out.Pending) != 1 || out.Pending[0].Kind != "secrets" {
		t.Errorf("pending is %v", out.Pending)
	}
	if p := m.put("globalroles", "h", object("GlobalRole", "a", nil)); p != nil {
		t.Error(p)
	}
	// An object of another name than it says.
	m.ask(http.MethodPost, fleetsync.PathObjects, &fleetsync.Changes{Hub: hub, Changes: []fleetsync.Change{
		{Ref: fleetsync.Ref{Kind: "globalroles", Name: "b"}, Object: raw(t, object("GlobalRole", "c", nil))}}}, out)
	if m.get(roles, "b") != nil || m.get(roles, "c") != nil {
		t.Error("an object of another name was written")
	}
}

// F17, F24: a binding of the hub gives a role of the hub, or one that every installation has, in a workspace of the hub: never what the cluster has of
// its own under these names, whatever labels that has. It is said, and counts as soon as nothing is in its way.
func TestABindingOfTheHubGivesNoRoleOfTheClustersOwn(t *testing.T) {
	plural := func(name string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1beta1", Resource: name}
	}
	in := func(workspace string, o map[string]any, more map[string]any) map[string]any {
		labels := map[string]any{"kubesphere.io/workspace": workspace}
		for k, v := range more {
			labels[k] = v
		}
		o["metadata"].(map[string]any)["labels"] = labels
		return o
	}
	gives := func(role string) map[string]any {
		return map[string]any{"roleRef": map[string]any{"name": role}, "subjects": []any{map[string]any{"kind": "User", "name": "eve"}}}
	}
	m := newMember(t)
	everything := map[string]any{"rules": []any{map[string]any{"verbs": []any{"*"}}}}
	conditional := object("GlobalRole", "conditional", rules)
	conditional["metadata"].(map[string]any)["annotations"] = map[string]any{"iam.kubesphere.io/cel-condition": "false"}
	m.own(workspaces, object("Workspace", "local", nil))
	m.own(roles, object("GlobalRole", "own", everything))
	m.own(roles, in("", object("GlobalRole", "labelled", everything), map[string]any{"app.kubernetes.io/part-of": "ks-apiserver",
		"app.kubernetes.io/managed-by": "ks-controller-manager"}))
	m.own(roles, object("GlobalRole", "conditional", rules))
	m.own(roles, object("GlobalRole", "same", rules))
	m.own(plural("workspaceroles"), in("shop", object("WorkspaceRole", "shop-own", everything), nil))
	m.own(plural("workspaceroles"), in("shop", object("WorkspaceRole", "shop-admin", everything), nil)) // made here, maybe of another release
	m.put("workspaces", "h", object("Workspace", "shop", nil))
	for _, name := range []string{"own", "labelled", "same", "hubs"} {
		m.put("globalroles", "h", object("GlobalRole", name, rules))
	}
	m.put("globalroles", "h", conditional)
	m.put("workspaceroles", "h", in("shop", object("WorkspaceRole", "shop-hubs", rules), nil))
	for name, c := range map[string]struct{ role, workspace, want string }{
		"Own":            {"own", "", "of its own"},
		"Labelled":       {"labelled", "", "of its own"},
		"Unconditional":  {"conditional", "", "of its own"},
		"Missing":        {"nowhere", "", "not here"},
		"Unnamed":        {"", "", "not here"},
		"Hubs":           {"hubs", "", ""},
		"Same":           {"same", "", ""},
		"Shipped":        {"platform-regular", "", ""},
		"OfWorkspace":    {"shop-hubs", "shop", ""},
		"BuiltIn":        {"shop-admin", "shop", ""},
		"BuiltInLater":   {"shop-viewer", "shop", ""},
		"OwnOfIt":        {"shop-own", "shop", "of its own"},
		"OwnWorkspace":   {"local-admin", "local", "no workspace of that name is the hub's"},
		"NoWorkspace":    {"gone-admin", "gone", "no workspace of that name is the hub's"},
		"NoLabel":        {"shop-hubs", "-", "no workspace of that name is the hub's"},
		"OthersPattern":  {"local-admin", "shop", "not here"},
		"ShippedInOther": {"platform-regular", "shop", "not here"},
	} {
		kind, k := "GlobalRoleBinding", plural("globalrolebindings")
		if c.workspace != "" {
			kind, k = "WorkspaceRoleBinding", plural("workspacerolebindings")
		}
		o := object(kind, strings.ToLower(name), gives(c.role))
		if c.workspace != "" && c.workspace != "-" {
			o = in(c.workspace, o, nil)
		}
		p := strings.Join(m.put(k.Resource, "h", o), " ")
		if is := m.get(k, strings.ToLower(name)) != nil; is != (c.want == "") || (p == "") != is || !strings.Contains(p, c.want) {
			t.Errorf("%s: it is there: %v, pending is %q", name, is, p)
		}
	}
	p := m.put("workspaceroles", "h", in("local", object("WorkspaceRole", "local-x", rules), nil))
	if len(p) != 1 || m.get(plural("workspaceroles"), "local-x") != nil {
		t.Errorf("a role is in a workspace of the cluster's own, pending is %v", p)
	}
	// What the cluster has is as the hub's no longer.
	m.put("globalroles", "h2", object("GlobalRole", "same", map[string]any{"rules": []any{}}))
	if p := m.put("globalrolebindings", "h", object("GlobalRoleBinding", "later", gives("same"))); len(p) != 1 {
		t.Errorf("of a role that is not the same any more pending is %v", p)
	}
	if err := m.objects.Resource(roles).Delete(t.Context(), "own", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.put("globalroles", "h", object("GlobalRole", "own", rules))
	if p := m.put("globalrolebindings", "h", object("GlobalRoleBinding", "own", gives("own"))); p != nil {
		t.Errorf("the role is the hub's, and pending is %v", p)
	}
}

// F17, F26: a binding that an earlier version wrote is compared once more, and goes where its role is the cluster's own.
func TestABindingOfAnEarlierVersionIsLookedAtAgain(t *testing.T) {
	bindings := schema.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1beta1", Resource: "globalrolebindings"}
	m := newMember(t)
	m.own(roles, object("GlobalRole", "own", rules))
	m.hubs["globalroles"]["own"] = raw(t, object("GlobalRole", "own", map[string]any{"rules": []any{}}))
	d := digest()
	for name, role := range map[string]string{"bad": "own", "good": "platform-regular"} {
		o := object("GlobalRoleBinding", name, map[string]any{"roleRef": map[string]any{"name": role}})
		was := object("GlobalRoleBinding", name, map[string]any{"roleRef": map[string]any{"name": role}})
		was["metadata"] = map[string]any{"name": name, "labels": map[string]any{fleetsync.LabelFleet: hub},
			"annotations": map[string]any{"kapis.dev/fleet-hash": "h"}}
		m.own(bindings, was)
		d.Objects["globalrolebindings"][name] = "h"
		out := &fleetsync.Difference{}
		if m.ask(http.MethodPost, fleetsync.PathDigest, d, out); len(out.Want) != 1 {
			t.Errorf("%s: it wants %v", name, out.Want)
		}
		if p := m.put("globalrolebindings", "h", o); (p == nil) != (name == "good") || (m.get(bindings, name) != nil) != (name == "good") {
			t.Errorf("%s: pending is %v, and it is %v", name, p, m.get(bindings, name))
		}
		delete(d.Objects["globalrolebindings"], "bad") // it is pending
		out = &fleetsync.Difference{}
		if m.ask(http.MethodPost, fleetsync.PathDigest, d, out); len(out.Want) != 0 {
			t.Errorf("%s: it is wanted again: %v", name, out.Want)
		}
	}
}

// F17, F24: where the hub does not say what its role grants, which an earlier version does not, a binding that is there gives it to nobody
// else, and no longer to whom the hub took it from.
func TestABindingWhoseRoleIsNotSaidGivesNoMore(t *testing.T) {
	bindings := schema.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1beta1", Resource: "globalrolebindings"}
	for name, c := range map[string]struct {
		role  string
		users []string
		want  string
	}{
		"same":    {"own", []string{"ann", "eve"}, "ann eve"},
		"more":    {"own", []string{"ann", "bob", "eve"}, "ann eve"},
		"less":    {"own", []string{"eve"}, "eve"},
		"others":  {"own", []string{"bob", "ann"}, "ann"},
		"nobody":  {"own", nil, ""},
		"another": {"owned", []string{"ann", "eve"}, "gone"},
	} {
		m := newMember(t)
		gives := func(role string, users ...string) map[string]any {
			subjects := []any{}
			for _, u := range users {
				subjects = append(subjects, map[string]any{"kind": "User", "name": u})
			}
			return object("GlobalRoleBinding", "b", map[string]any{"roleRef": map[string]any{"name": role}, "subjects": subjects})
		}
		m.own(roles, object("GlobalRole", "own", rules))
		m.own(roles, object("GlobalRole", "owned", rules))
		m.hubs["globalroles"]["own"] = raw(t, object("GlobalRole", "own", rules))
		if p := m.put("globalrolebindings", "h", gives("own", "ann", "eve")); p != nil {
			t.Fatal(p)
		}
		m.hubs = nil
		for range 2 {
			p := m.put("globalrolebindings", "h2", gives(c.role, c.users...))
			if c.want == "gone" {
				if m.get(bindings, "b") != nil {
					t.Errorf("%s: it is %v", name, m.get(bindings, "b"))
				}
				continue
			}
			var users []string
			o := m.get(bindings, "b")
			subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
			for _, s := range subjects {
				users = append(users, s.(map[string]any)["name"].(string))
			}
			hash := o.GetAnnotations()["kapis.dev/fleet-hash"]
			if strings.Join(users, " ") != c.want || len(p) != 1 || !strings.Contains(p[0], "the hub does not say") ||
				(hash == "h.2") != (c.want == "ann eve") || hash == "h2.2" {
				t.Errorf("%s: it names %v with the hash %q, and pending is %v", name, users, hash, p)
			}
		}
	}
}

// S67, F26: a binding that this cluster had in a workspace that the hub keeps here is the hub's as soon as the hub has the same one, and goes with it.
func TestABindingInAWorkspaceOfTheHubGoesWithTheHubs(t *testing.T) {
	bindings := schema.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1beta1", Resource: "workspacerolebindings"}
	m := newMember(t)
	in := func(name, workspace, fleet string) map[string]any {
		o := object("WorkspaceRoleBinding", name, map[string]any{"subjects": []any{map[string]any{"kind": "User", "name": "eve"}},
			"roleRef": map[string]any{"kind": "WorkspaceRole", "name": "shop-viewer"}})
		o["metadata"].(map[string]any)["labels"] = map[string]any{"kubesphere.io/workspace": workspace}
		if fleet != "" {
			o["metadata"].(map[string]any)["labels"].(map[string]any)[fleetsync.LabelFleet] = fleet
		}
		return o
	}
	m.put("workspaces", "h", object("Workspace", "shop", nil))
	m.own(workspaces, object("Workspace", "local", nil))
	for name, c := range map[string]struct {
		own, hubs, fleet string
		goes             bool
	}{
		"here":      {own: "shop", hubs: "shop", goes: true},
		"another":   {own: "local", hubs: "shop"},
		"of-its":    {own: "local", hubs: "local"},
		"unknown":   {own: "none", hubs: "none"},
		"of-others": {own: "shop", hubs: "shop", fleet: "u-other"},
	} {
		m.own(bindings, in(name, c.own, c.fleet))
		if p := m.put("workspacerolebindings", "h", in(name, c.hubs, "")); p != nil {
			t.Errorf("%s: pending is %v", name, p)
		}
		m.ask(http.MethodPost, fleetsync.PathObjects, &fleetsync.Changes{Hub: hub, Changes: []fleetsync.Change{
			{Ref: fleetsync.Ref{Kind: "workspacerolebindings", Name: name}}}}, nil)
		if gone := m.get(bindings, name) == nil; gone != c.goes {
			t.Errorf("%s went: %v", name, gone)
		}
	}
}

func digest(names ...string) *fleetsync.Digest {
	d := &fleetsync.Digest{Hub: hub, Objects: map[string]map[string]string{"globalroles": {}, "workspaces": {}, "users": {}, "workspaceroles": {},
		"globalrolebindings": {}, "workspacerolebindings": {}}}
	for _, name := range names {
		d.Objects["globalroles"][name] = "h"
	}
	return d
}

// F26: a comparison writes nothing that is as it is to be, and deletes what is not to be there, unless that is suspiciously much.
func TestAComparisonWritesDifferencesOnly(t *testing.T) {
	m := newMember(t)
	for _, name := range []string{"a", "b", "c"} {
		m.put("globalroles", "h", object("GlobalRole", name, rules))
	}
	m.own(roles, object("GlobalRole", "own", rules))
	d := digest("a", "b", "d")
	d.Objects["globalroles"]["b"] = "new"
	m.objects.ClearActions()
	out := &fleetsync.Difference{}
	if code := m.ask(http.MethodPost, fleetsync.PathDigest, d, out); code != http.StatusOK {
		t.Fatal(code)
	}
	if want := []fleetsync.Ref{{Kind: "globalroles", Name: "b"}, {Kind: "globalroles", Name: "d"}}; !slices.Equal(out.Want, want) || out.Pending != nil {
		t.Errorf("it wants %v, pending %v", out.Want, out.Pending)
	}
	var writes []string
	for _, a := range m.objects.Actions() {
		if v := a.GetVerb(); v != "list" && v != "get" {
			writes = append(writes, v)
		}
	}
	if !slices.Equal(writes, []string{"delete"}) || m.get(roles, "c") != nil || m.get(roles, "own") == nil {
		t.Errorf("it wrote %v", writes)
	}
	for i := range 40 {
		m.put("globalroles", "h", object("GlobalRole", fmt.Sprintf("many-%d", i), rules))
	}
	d = digest("a", "b")
	d.Gone = []fleetsync.Change{{Ref: fleetsync.Ref{Kind: "globalroles", Name: "many-0"}}}
	out = &fleetsync.Difference{}
	m.ask(http.MethodPost, fleetsync.PathDigest, d, out)
	if len(out.Pending) != 39 || !strings.Contains(out.Pending[0].Reason, "SyncPaused") || m.get(roles, "many-1") == nil {
		t.Errorf("%d are pending: a hub that lost its data empties a member", len(out.Pending))
	}
	if m.get(roles, "many-0") != nil {
		t.Error("what the hub saw the end of is still there")
	}
	delete(d.Objects, "users")
	if code := m.ask(http.MethodPost, fleetsync.PathDigest, d, nil); code != http.StatusBadRequest {
		t.Errorf("a digest without a kind is %d", code)
	}
}

// F28: the namespaces of a workspace stay, unless its deletion said otherwise.
func TestNamespacesStayUnlessADeletionSaysOtherwise(t *testing.T) {
	for propagation, want := range map[string]string{"": "Orphan", "Foreground": "Foreground"} {
		m := newMember(t)
		m.put("workspaces", "h", object("Workspace", "w", nil))
		m.objects.ClearActions()
		m.ask(http.MethodPost, fleetsync.PathObjects, &fleetsync.Changes{Hub: hub, Changes: []fleetsync.Change{
			{Ref: fleetsync.Ref{Kind: "workspaces", Name: "w"}, Propagation: propagation}}}, nil)
		said := ""
		for _, a := range m.objects.Actions() {
			if u, ok := a.(interface{ GetObject() runtime.Object }); ok && a.GetVerb() == "update" {
				said = u.GetObject().(*unstructured.Unstructured).GetAnnotations()["kubesphere.io/deletion-propagation"]
			}
		}
		if said != want || m.get(workspaces, "w") != nil {
			t.Errorf("it says %q before it goes, want %q", said, want)
		}
	}
}

func TestOnlyAHubsQuestionsAreAnswered(t *testing.T) {
	m := newMember(t)
	got := &fleetsync.Bound{}
	if code := m.ask(http.MethodGet, fleetsync.PathBound, nil, got); code != http.StatusOK || !slices.Equal(got.Users, []string{"ann"}) {
		t.Errorf("%d %v", code, got)
	}
	for path, method := range map[string]string{fleetsync.PathDigest: http.MethodGet, fleetsync.PathObjects: http.MethodPut, fleetsync.PathBound: http.MethodPost} {
		if code := m.ask(method, path, nil, nil); code < 400 {
			t.Errorf("%s %s is %d", method, path, code)
		}
	}
	if code := m.ask(http.MethodPost, fleetsync.PathObjects, "junk", nil); code != http.StatusBadRequest {
		t.Error(code)
	}
	if code := m.ask(http.MethodPost, fleetsync.PathObjects, &fleetsync.Changes{}, nil); code != http.StatusBadRequest {
		t.Error(code)
	}
}
