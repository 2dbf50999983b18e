package hub

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/store"
)

// reached is a hub that programs reach at an address.
type reached struct {
	*Hub
	t       *testing.T
	now     time.Time
	address string
	ca      string
	err     error
}

func newReached(t *testing.T) *reached {
	t.Helper()
	w := &reached{t: t, now: time.Now(), address: "https://hub.example:9443/base", ca: "pem"}
	clock := func() time.Time { return w.now }
	authority, err := certificate.Open(t.Context(), AuthorityOptions(fake.NewClientset().CoreV1().Secrets("kubesphere-system"), clock))
	if err != nil {
		t.Fatal(err)
	}
	w.Hub = &Hub{Members: &cluster.Members{Host: "host", Now: clock}, Options: Options{Authority: authority, Now: clock,
		Reached: func() (string, []byte, error) { return w.address, []byte(w.ca), w.err }}}
	return w
}

// dials returns a Cluster that dials the hub.
func dials(name, uid string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)},
		Spec: clusterv1alpha1.ClusterSpec{Enable: true, Connection: clusterv1alpha1.Connection{Type: clusterv1alpha1.ConnectionProxy}}}
}

// stored has the hub see a Cluster as it is.
func (w *reached) stored(c *clusterv1alpha1.Cluster) *cluster.Member {
	w.t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Members.Set(&store.Object{Name: c.Name, Raw: raw})
	return w.Members.ByName(c.Name)
}

// gives has the hub give a Cluster its kubeconfig, and reports whether that changed it.
func (w *reached) gives(c *clusterv1alpha1.Cluster) bool {
	w.t.Helper()
	return w.setKubeconfig(c, w.stored(c))
}

// of returns what the kubeconfig of a Cluster says.
func (w *reached) of(c *clusterv1alpha1.Cluster) (to *clientcmdapi.Cluster, who *clientcmdapi.AuthInfo) {
	w.t.Helper()
	all, err := clientcmd.Load(c.Spec.Connection.KubeConfig)
	if err != nil || clientcmd.Validate(*all) != nil {
		w.t.Fatalf("%v: %s", err, c.Spec.Connection.KubeConfig)
	}
	current := all.Contexts[all.CurrentContext]
	return all.Clusters[current.Cluster], all.AuthInfos[current.AuthInfo]
}

// is returns the user that a token is of, nil where it does not count.
func (w *reached) is(token string) user.Info {
	w.t.Helper()
	resp, ok, err := w.AuthenticateToken(w.t.Context(), token)
	if ok != (err == nil) || ok != (resp != nil) {
		w.t.Fatalf("%v %v %v", resp, ok, err)
	}
	if !ok {
		if strings.Contains(err.Error(), token) {
			w.t.Errorf("the error has the token: %v", err)
		}
		return nil
	}
	return resp.User
}

// F47: the Cluster of a member that dials has a kubeconfig, which leads through the hub, and whose token is somebody at that cluster alone, while the
// Cluster has it.
func TestAMemberThatDialsHasAKubeconfig(t *testing.T) {
	w, c := newReached(t), dials("edge", "u-edge")
	if !w.gives(c) {
		t.Fatal("it has none")
	}
	to, who := w.of(c)
	if to.Server != "https://hub.example:9443/base/clusters/edge" || string(to.CertificateAuthorityData) != "pem" || to.InsecureSkipTLSVerify ||
		!strings.HasPrefix(who.Token, "ksc_") || who.Username != "" || who.Exec != nil || len(who.ClientKeyData) > 0 {
		t.Errorf("%+v", to)
	}
	w.Members.Delete("", "edge")
	if w.is(who.Token) != nil {
		t.Error("the token counts without the Cluster")
	}
	w.stored(dials("edge", "u-edge"))
	if w.is(who.Token) != nil {
		t.Error("the token counts before the Cluster has it")
	}
	w.stored(c)
	u := w.is(who.Token)
	if u == nil || u.GetName() != "kubeconfig:edge" || u.GetUID() != "u-edge" || len(u.GetGroups()) != 0 || authz.ClusterOf(u) != "edge" {
		t.Errorf("it is %+v", u)
	}
	w.now = w.now.Add(kubeconfigLife - time.Minute)
	if w.gives(c) {
		t.Error("a settled one is written again")
	}
	w.now = w.now.Add(time.Minute)
	if !w.gives(c) {
		t.Error("an old token stays")
	}
	_, next := w.of(c)
	if w.stored(c); w.is(who.Token) != nil || w.is(next.Token) == nil {
		t.Error("the token before it counts, or the one that the Cluster has does not")
	}
	c.Spec.Connection.KubeConfig = nil
	w.now = w.now.Add(time.Second)
	if w.stored(c); w.is(next.Token) != nil {
		t.Error("it counts after it was taken out of the Cluster")
	}
	if !w.gives(c) {
		t.Error("an empty one is not written again")
	}
	_, last := w.of(c)
	if w.stored(c); w.is(next.Token) != nil || w.is(last.Token) == nil {
		t.Error("what was taken out counts again")
	}
	for what, change := range map[string]func(){"address": func() { w.address = "https://other.example" }, "authority": func() { w.ca = "other" }} {
		if change(); !w.gives(c) || w.gives(c) {
			t.Errorf("another %s of the hub is not written, or again and again", what)
		}
	}
}

// F47: no Cluster gets one that a hub could not stand for: in the clear, of another kind, or in the place of what somebody has written.
func TestWhichClustersGetNoKubeconfig(t *testing.T) {
	w := newReached(t)
	for name, change := range map[string]func(c *clusterv1alpha1.Cluster){
		"Direct":   func(c *clusterv1alpha1.Cluster) { c.Spec.Connection.Type = clusterv1alpha1.ConnectionDirect },
		"NoType":   func(c *clusterv1alpha1.Cluster) { c.Spec.Connection.Type = "" },
		"Leaving":  func(c *clusterv1alpha1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: w.now} },
		"Plain":    func(*clusterv1alpha1.Cluster) { w.address = "http://hub.example" },
		"NoHost":   func(*clusterv1alpha1.Cluster) { w.address = "https:///x" },
		"NoURL":    func(*clusterv1alpha1.Cluster) { w.address = "https://%zz" },
		"Unread":   func(*clusterv1alpha1.Cluster) { w.address, w.err = "https://hub.example", errors.New("no") },
		"Nonsense": func(c *clusterv1alpha1.Cluster) { w.err = nil; c.Spec.Connection.KubeConfig = []byte("\x00 ksc_") },
		"NoUser": func(c *clusterv1alpha1.Cluster) {
			c.Spec.Connection.KubeConfig = []byte(`{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`)
		},
		"Anothers": func(c *clusterv1alpha1.Cluster) {
			c.Spec.Connection.KubeConfig = []byte(`{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}],` +
				`"clusters":[{"name":"c","cluster":{"server":"https://192.0.2.1"}}],"users":[{"name":"c","user":{"token":"x"}}]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.address, w.err = "https://hub.example", nil
			c := dials("edge", "u-edge")
			change(c)
			before := string(c.Spec.Connection.KubeConfig)
			if w.gives(c) || string(c.Spec.Connection.KubeConfig) != before {
				t.Errorf("it has %s", c.Spec.Connection.KubeConfig)
			}
		})
	}
	w.Reached = nil
	if w.gives(dials("edge", "u-edge")) {
		t.Error("one of a hub whose address nobody knows")
	}
}

// F47, F12: nothing but the token that a Cluster has is somebody at it: none of another hub, of another Cluster or of another kind, none that was put into
// a Cluster by somebody else, and no other text.
func TestWhatIsNoTokenOfACluster(t *testing.T) {
	w, other := newReached(t), newReached(t)
	edge, far := dials("edge", "u-edge"), dials("far", "u-far")
	foreign := dials("edge", "u-edge")
	for _, given := range []bool{w.gives(edge), w.gives(far), other.gives(foreign)} {
		if !given {
			t.Fatal("a Cluster has no kubeconfig")
		}
	}
	w.stored(edge)
	w.stored(far)
	_, good := w.of(edge)
	_, of := other.of(foreign)
	joins, _, err := New(w.Options).Token(edge)
	if err != nil {
		t.Fatal(err)
	}
	if u := w.is(good.Token); u == nil || u.GetName() != "kubeconfig:edge" {
		t.Fatalf("the token of edge is %+v", u)
	}
	said, mac, _ := strings.Cut(strings.TrimPrefix(good.Token, "ksc_"), ".")
	_, farMAC, _ := strings.Cut(func() string { _, who := w.of(far); return who.Token }(), ".")
	for name, text := range map[string]string{
		"AnotherHubs": of.Token, "AJoinToken": "ksc_" + strings.TrimPrefix(joins, "ksj_"), "Nothing": "ksc_", "NoMAC": "ksc_" + said, "EmptyMAC": "ksc_" + said + ".",
		"AnotherMAC": "ksc_" + said + "." + farMAC, "More": good.Token + "A", "MoreParts": good.Token + ".A", "Less": good.Token[:len(good.Token)-1],
		"Padded": good.Token + "=", "OfNobody": "ksc_." + mac, "Twice": good.Token + good.Token,
	} {
		// What somebody who may update a Cluster can do: they have it name the text.
		edge := edge.DeepCopy()
		edge.Spec.Connection.KubeConfig = append(edge.Spec.Connection.KubeConfig, "# "+text+"\n"...)
		w.stored(edge)
		if u := w.is(text); u != nil {
			t.Errorf("%s is %+v", name, u)
		}
	}
	w.stored(edge)
	far.Spec.Connection.KubeConfig = edge.Spec.Connection.KubeConfig
	w.stored(far)
	if u := w.is(good.Token); u.GetName() != "kubeconfig:edge" {
		t.Errorf("a copy in another Cluster makes it %+v", u)
	}
	if w.stored(edge); !w.gives(far) {
		t.Error("the token of another Cluster stays")
	}
	again := edge.DeepCopy()
	again.UID = "u-again"
	if w.stored(again); w.is(good.Token) != nil {
		t.Error("a Cluster that was made again under the name has the token of the one before it")
	}
	for _, text := range []string{"", "x", "ksj_x", "kssa_x", "KSC_x", " " + good.Token} {
		if resp, ok, err := w.AuthenticateToken(t.Context(), text); resp != nil || ok || err != nil {
			t.Errorf("%q is taken for such a token: %v", text, err)
		}
	}
}

// O49: where Clusters are not known as they are, it can't be told of a token of this hub whether its Cluster has it. A forged one is refused.
func TestO49ATokenIsUnknownOnlyWhereAllClustersAreKnown(t *testing.T) {
	w, c := newReached(t), dials("edge", "u-edge")
	if !w.gives(c) {
		t.Fatal("it has none")
	}
	_, who := w.of(c)
	w.Members.Delete("", "edge")
	unknown := errors.New("list clusters: not complete yet")
	w.Complete = func() error { return unknown }
	for _, tc := range []struct {
		token       string
		unavailable bool
	}{{who.Token, true}, {who.Token + "x", false}, {who.Token[:len(who.Token)-4], false}} {
		if _, ok, err := w.AuthenticateToken(t.Context(), tc.token); ok || err == nil || apierrors.IsServiceUnavailable(err) != tc.unavailable {
			t.Errorf("%v, %v: want that it can't be told: %v", ok, err, tc.unavailable)
		}
	}
	w.stored(dials("edge", "u-edge")) // as it was before it had the token
	if _, _, err := w.AuthenticateToken(t.Context(), who.Token); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("of a Cluster as it was: %v", err)
	}
	if unknown = nil; w.is(who.Token) != nil {
		t.Error("it counts")
	}
	if _, _, err := w.AuthenticateToken(t.Context(), who.Token); apierrors.IsServiceUnavailable(err) {
		t.Errorf("all is known: %v", err)
	}
	unknown = errors.New("the watch is broken")
	if w.stored(c); w.is(who.Token) == nil {
		t.Error("what is known is refused")
	}
}
