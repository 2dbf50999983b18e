package fleetsync_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/store"
)

var (
	bindings = schema.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1beta1", Resource: "clusterrolebindings"}
	people   = schema.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1beta1", Resource: "users"}
)

// creator says who made the Cluster of a member, and returns why they have no role there, "" where they have.
func (m *member) creator(name string) string {
	m.t.Helper()
	out := &fleetsync.Outcome{}
	if code := m.ask(http.MethodPost, fleetsync.PathCreator, &fleetsync.Creator{Hub: hub, User: name}, out); code != http.StatusOK {
		m.t.Fatalf("the member answers %d", code)
	}
	if len(out.Pending) > 0 {
		return out.Pending[0].Reason
	}
	return ""
}

// F45: who made a Cluster has the role cluster-admin there, and nobody else by the same binding; nothing is written twice, and it goes with its reason.
func TestTheCreatorOfAClusterAdministersIt(t *testing.T) {
	m := newMember(t)
	subject := func() string {
		b := m.get(bindings, "fleet-creator")
		if b == nil {
			return ""
		}
		role, _, _ := unstructured.NestedString(b.Object, "roleRef", "name")
		subjects, _, _ := unstructured.NestedSlice(b.Object, "subjects")
		if len(subjects) != 1 || b.GetLabels()["kapis.dev/fleet"] != hub {
			t.Fatalf("the binding is %v", b.Object)
		}
		return role + " " + subjects[0].(map[string]any)["name"].(string)
	}
	if why := m.creator("ann"); why != "" || subject() != "cluster-admin ann" {
		t.Errorf("%s, %s", subject(), why)
	}
	m.objects.ClearActions()
	m.creator("ann")
	for _, a := range m.objects.Actions() {
		if a.GetVerb() != "get" {
			t.Errorf("what is there is written again: %s", a.GetVerb())
		}
	}
	if why := m.creator("bob"); why != "" || subject() != "cluster-admin bob" {
		t.Errorf("%s, %s", subject(), why)
	}
	m.creator("")
	m.creator("")
	if subject() != "" {
		t.Errorf("nobody made it, and there is %s", subject())
	}

	// A user of the cluster's own is not the one of the fleet who has the same name.
	m.own(people, object("User", "carl", nil))
	if why := m.creator("carl"); !strings.Contains(why, "rename or delete") || subject() != "" {
		t.Errorf("%q, %s", why, subject())
	}
	// A binding of the cluster's own stays.
	m.own(bindings, object("ClusterRoleBinding", "fleet-creator", map[string]any{"subjects": []any{map[string]any{"kind": "User", "name": "own"}}}))
	if why := m.creator("ann"); !strings.Contains(why, "of its own") {
		t.Errorf("%q", why)
	}
	m.creator("")
	if m.get(bindings, "fleet-creator") == nil {
		t.Error("a binding of the cluster's own is gone")
	}
	for _, name := range []string{"system:masters", "kapis:hub", "*", "a b", "Ann", strings.Repeat("a", 300)} {
		if code := m.ask(http.MethodPost, fleetsync.PathCreator, &fleetsync.Creator{Hub: hub, User: name}, nil); code != http.StatusBadRequest {
			t.Errorf("%.20q: %d", name, code)
		}
	}
	if code := m.ask(http.MethodPost, fleetsync.PathCreator, &fleetsync.Creator{User: "ann"}, nil); code != http.StatusBadRequest {
		t.Errorf("of no hub: %d", code)
	}
}

// F33, F45: a member of an older release, which knows of no creators, is told everything else.
func TestAMemberThatKnowsNoCreators(t *testing.T) {
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	by := linktest.NewAuthority(t)
	told := make(chan struct{}, 8)
	members := &cluster.Members{Identity: by.Hub(t), Host: "host", Now: time.Now, Told: func(m *cluster.Member) {
		if synced, pending := m.Synced(); synced && len(pending) == 0 {
			told <- struct{}{}
		}
	}}
	members.Follow = (&fleetsync.Syncer{Source: fleetsync.NewSource(noCaches{}), Hub: hub, Current: members.ByUID, Known: func() error { return nil }}).Follow
	members.Set(&store.Object{Name: "m1", Raw: []byte(`{"metadata":{"name":"m1","uid":"` + uid + `"},"spec":{"enable":true}}`)})
	by.Link(t, members, uid, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == fleetsync.PathCreator {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	<-told
}
