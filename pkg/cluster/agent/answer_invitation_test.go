package agent_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"kapis.dev/ks-apiserver/pkg/cluster/agent"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

// F9: a ConfigMap that names no Cluster is no invitation, whoever has made it: nothing is written for it, and nothing ends by it.
func TestWhatIsNoInvitationIsLeftAlone(t *testing.T) {
	client := fake.NewClientset()
	invitations, secrets := client.CoreV1().ConfigMaps("kubesphere-system"), client.CoreV1().Secrets("kubesphere-system")
	g := agent.NewGuest(agent.Options{Secrets: secrets, UID: "u-shop", Now: time.Now, Handler: http.NotFoundHandler(), Drain: t.Context()}, invitations)
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: join.Invitation}}
	if _, err := invitations.Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if in, err := g.Look(t.Context()); in || err != nil {
		t.Errorf("it is in a fleet: %v, %v", in, err)
	}
	if all, err := secrets.List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) > 0 {
		t.Errorf("it has written %v, %v", all, err)
	}
}

// F9, F31: a member that a hub invites makes its key itself, asks once, takes the certificate that is for it, and no other.
func TestAnInvitationIsAnsweredByAKeyThatStays(t *testing.T) {
	w := newWorld(t)
	w.cluster("m1", "u-1")
	client := fake.NewClientset()
	invitations, secrets := client.CoreV1().ConfigMaps("kubesphere-system"), client.CoreV1().Secrets("kubesphere-system")
	g := agent.NewGuest(agent.Options{Secrets: secrets, UID: "u-shop", KubernetesVersion: "v1", Version: "v2", Now: w.clock,
		Handler: http.NotFoundHandler(), Drain: t.Context()}, invitations)
	if in, err := g.Look(t.Context()); in || err != nil {
		t.Fatalf("nobody has invited it: %v, %v", in, err)
	}
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: join.Invitation},
		Data: map[string]string{join.InvitationHub: "u-hub", join.InvitationCluster: "m1", join.InvitationClusterUID: "u-1"}}
	if _, err := invitations.Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	look := func() (bool, map[string]string) {
		t.Helper()
		in, err := g.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now, err := invitations.Get(t.Context(), join.Invitation, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(now.Data[join.InvitationRequest], "PRIVATE") {
			t.Fatal("the key is in the invitation")
		}
		return in, now.Data
	}
	in, data := look()
	asked := data[join.InvitationRequest]
	if in || asked == "" {
		t.Fatalf("it asks for nothing: %v", data)
	}
	if _, again := look(); again[join.InvitationRequest] != asked {
		t.Error("it asks anew each time")
	}
	r := &join.Request{}
	if err := json.Unmarshal([]byte(asked), r); err != nil || r.UID != "u-shop" || r.Token != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	let := func(r *join.Request) string {
		t.Helper()
		a, err := w.hub.Invited(t.Context(), w.hub.Members.ByUID("u-1"), r)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	write := func(answer string) {
		t.Helper()
		now, err := invitations.Get(t.Context(), join.Invitation, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		now.Data[join.InvitationAnswer] = answer
		delete(now.Data, join.InvitationRequest)
		if _, err := invitations.Update(t.Context(), now, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	good := let(r)
	// A certificate for another key, of another Cluster, or nothing that can be read: it asks again.
	for _, wrong := range []string{"junk", strings.Replace(good, `"uid":"u-1"`, `"uid":"u-2"`, 1), strings.Replace(good, "BEGIN CERTIFICATE", "BEGIN X", 1)} {
		write(wrong)
		if in, data := look(); in || data[join.InvitationRequest] == "" {
			t.Errorf("it takes %.60s", wrong)
		}
	}
	write(good)
	look()
	if in, _ := look(); !in {
		t.Fatal("it does not take its certificate")
	}
	before, err := secrets.Get(t.Context(), "ks-fleet-member", metav1.GetOptions{})
	if err != nil || len(before.Data["tls.key"]) == 0 || before.Data["next.key"] != nil {
		t.Fatalf("%v, %v", before, err)
	}
	// It renews when a third of the time is left, by another key.
	w.mu.Lock()
	w.now = w.now.Add(21 * 24 * time.Hour)
	w.mu.Unlock()
	_, data = look()
	if data[join.InvitationRequest] == "" {
		t.Fatal("it does not renew")
	}
	if err := json.Unmarshal([]byte(data[join.InvitationRequest]), r); err != nil {
		t.Fatal(err)
	}
	write(let(r))
	look()
	if after, err := secrets.Get(t.Context(), "ks-fleet-member", metav1.GetOptions{}); err != nil || string(after.Data["tls.key"]) == string(before.Data["tls.key"]) {
		t.Errorf("it keeps its key: %v", err)
	}
	// The hub itself, and a cluster that is in the fleet by another name, are not let in.
	w.cluster("m2", "u-2")
	for _, uid := range []string{"u-hub", "u-shop"} {
		r.UID = uid
		if a, err := w.hub.Invited(t.Context(), w.hub.Members.ByUID("u-2"), r); err == nil {
			t.Errorf("%s is let in: %+v", uid, a)
		}
	}
}
