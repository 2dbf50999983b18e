package direct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/egress"
)

const (
	// lookEvery is how often the members are looked at, and inviteEvery how often the invitation of one that is linked: it may renew.
	lookEvery, inviteEvery = time.Second, 10 * time.Minute
	// exchangeEvery is how often the credential of one that is linked is looked at, which asks nobody while it is fresh.
	exchangeEvery = 5 * time.Second
)

var redial = link.Redial{Least: 500 * time.Millisecond, Most: 10 * time.Second}

// Dialing keeps a link to each direct member.
type Dialing struct {
	Members *cluster.Members
	// Hub is the UID of the hub's kube-system, and Admit signs the certificate of a member.
	Hub   string
	Admit func(ctx context.Context, m *cluster.Member, r *join.Request) (*join.Answer, error)
	// Replace puts a kubeconfig in the place of one that the Cluster of a member has.
	Replace func(ctx context.Context, m *cluster.Member, old, next []byte) error
	// Software returns what a member runs, in YAML, and Installed is told that it has been applied; nil where nothing is installed.
	Software  func() ([]byte, error)
	Installed func(ctx context.Context, m *cluster.Member) error
	// Host is the name of the hub's cluster.
	Host string
	// Shared is how members are reached that know their callers by a secret alone; nil where there are none.
	Shared *SharedSecret
	// Transport sets how kube-apiservers of members are dialled.
	Transport func(*rest.Config)
	// Endpoint is how members are dialled whose Cluster has an address for that.
	Endpoint *http.Transport
	// Failed is told why a member is not linked.
	Failed func(ctx context.Context, m *cluster.Member, err error)
}

// installTimeout bounds an installation.
const installTimeout = 3 * time.Minute

// Run links members until ctx ends.
func (d *Dialing) Run(ctx context.Context) {
	d.Members.KeepEach(ctx, lookEvery, func(m *cluster.Member) bool { return m.Direct() && !m.Lite },
		func(ctx context.Context, m *cluster.Member) { d.keep(ctx, m.UID) })
}

// keep keeps the link of one member.
func (d *Dialing) keep(ctx context.Context, uid string) {
	var m *cluster.Member
	redial.Keep(ctx, func() error {
		if m = d.Members.ByUID(uid); m == nil {
			return nil // ctx ends soon
		}
		return d.link(ctx, m)
	}, func(err error, news bool) {
		if news {
			klog.ErrorS(err, "A direct member cluster is not linked; it is tried again", "cluster", m.Name)
		}
		m.SetForeign(errors.Is(err, link.ErrIdentity))
		d.Failed(ctx, m, err)
	})
}

// link invites a member, dials it, and returns when the link has ended.
func (d *Dialing) link(ctx context.Context, m *cluster.Member) error {
	c, err := Parse(m.Kubeconfig(), d.Transport)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return errors.New("the certificate or the key in the kubeconfig can't be read")
	}
	if err := d.act(ctx, c, m); err != nil {
		return err
	}
	if m.SharedSecret {
		return d.share(ctx, c, client, m)
	}
	if err := d.invite(ctx, client, m); err != nil {
		return err
	}
	over := &link.Addresses{}
	conn, err := d.dial(over.Record(ctx), c, m)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	life, end := context.WithCancel(ctx)
	defer end()
	go d.exchange(life, m.UID)
	go d.untilMoved(life, m, end)
	go func() {
		tick := time.NewTicker(inviteEvery)
		defer tick.Stop()
		for {
			select {
			case <-life.Done():
				return
			case <-tick.C:
				if err := d.invite(life, client, m); err != nil && life.Err() == nil {
					klog.ErrorS(err, "The invitation of a direct member cluster was not looked at; it is tried again", "cluster", m.Name)
				}
			}
		}
	}()
	return d.Members.Serve(life, over.Of(websocket.NetConn(context.WithoutCancel(ctx), conn, websocket.MessageBinary)), m.UID, func() {})
}

// act installs our programs in a member where its Cluster says so. It is done before the member is linked: its link ends where there is
// something to do.
func (d *Dialing) act(ctx context.Context, c *rest.Config, m *cluster.Member) error {
	switch {
	case m.Action == "" || d.Software == nil:
		return nil
	case m.Action != clusterv1alpha1.ActionInstall && m.Action != clusterv1alpha1.ActionUpgrade && m.Action != clusterv1alpha1.ActionReinstall:
		return fmt.Errorf("the annotation %s is %.64q, and not install, upgrade or reinstall", clusterv1alpha1.AnnotationCoreAction, m.Action)
	}
	text, err := d.Software()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	if err := Install(ctx, c, m.Action, text, d.Host); err != nil {
		return err
	}
	return d.Installed(ctx, m)
}

// untilMoved calls end when the Cluster of a member has another address than it was dialled at, or says that something is to be done there.
func (d *Dialing) untilMoved(ctx context.Context, m *cluster.Member, end func()) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := d.Members.ByUID(m.UID); now != nil && (now.Endpoint() != m.Endpoint() || now.Action != "") {
			end()
			return
		}
	}
}

// exchange puts a credential of listed rights in the place of the one that a Cluster has, unless its administrator wants to keep that,
// until ctx ends. One that can't be replaced is tried again after a while, and a new one soon.
func (d *Dialing) exchange(ctx context.Context, uid string) {
	var tried []byte
	var at time.Time
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		m := d.Members.ByUID(uid)
		if m != nil && !m.KeepKubeconfig && d.Replace != nil && (!bytes.Equal(tried, m.Kubeconfig()) || time.Since(at) > inviteEvery) {
			tried, at = m.Kubeconfig(), time.Now()
			next, err := Exchange(ctx, tried, d.Transport, at)
			if err == nil && next != nil {
				err = d.Replace(ctx, m, tried, next)
			}
			if err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "The credential of a direct member cluster is kept: it was not replaced by one of listed rights", "cluster", m.Name)
			}
		}
	}, exchangeEvery)
}

// explain returns the error of a request to a member's kube-apiserver, without what it says of addresses and credentials.
func explain(what string, err error) error {
	klog.V(2).InfoS("A request to a member's kube-apiserver failed", "what", what, "reason", err.Error())
	f := reached(err)
	if s := apierrors.ReasonForError(err); s != metav1.StatusReasonUnknown && !apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%s: %.300w", what, err)
	}
	return fmt.Errorf("%s: %s: %s", what, f.Check, f.Found)
}

// dial dials a member: at the address of its Cluster, or else through its kube-apiserver.
func (d *Dialing) dial(ctx context.Context, c *rest.Config, m *cluster.Member) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	o := &websocket.DialOptions{}
	var at string
	if endpoint := m.Endpoint(); endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, errors.New("kubesphereAPIEndpoint is no http or https address")
		}
		// Who answers there proves itself within the link, so the certificate of the outer connection says nothing more.
		o.HTTPClient = &http.Client{Transport: d.Endpoint}
		at = strings.TrimSuffix(u.String(), "/") + join.PathDirect
	} else {
		c = rest.CopyConfig(c)
		c.NextProtos = []string{"http/1.1"} // WebSockets
		c.Timeout = 0
		t, err := rest.TransportFor(c)
		if err != nil {
			return nil, errors.New("the certificate or the key in the kubeconfig can't be read")
		}
		o.HTTPClient = &http.Client{Transport: t}
		at = strings.TrimSuffix(c.Host, "/") + servicePath + join.PathDirect
	}
	o.HTTPClient.CheckRedirect = func(*http.Request, []*http.Request) error { return errors.New("a member redirects, which it does not") }
	conn, resp, err := websocket.Dial(ctx, at, o) //nolint:bodyclose // Dial has read it
	if err != nil {
		return nil, undialled(ctx, err, resp, m.Endpoint() != "")
	}
	return conn, nil
}

// undialled returns why ks-apiserver of a member was not dialled, at the address of its Cluster or through its kube-apiserver, and what
// to look at. The errors of the network are not said: they name addresses.
func undialled(ctx context.Context, err error, resp *http.Response, byEndpoint bool) error {
	way, code := "through its kube-apiserver (services/proxy)", 0
	if resp != nil {
		code = resp.StatusCode
	}
	if byEndpoint {
		way = "at kubesphereAPIEndpoint"
	}
	var why string
	const notMember = "ks-apiserver has not taken up its certificate yet, or has another multicluster.clusterRole than member"
	switch {
	case errors.Is(err, egress.ErrRefused):
		why = "this server dials no loopback, link-local or metadata address: give another one"
	case code == 0 && ctx.Err() != nil:
		why = "nothing answers in 10 s: is the address right, and does the network let this server through?"
	case code == 0:
		why = "it is not reached: is the address right, and does ks-apiserver run there?"
	case byEndpoint && code == http.StatusNotFound:
		why = notMember
	case byEndpoint:
		why = fmt.Sprintf("what answers there is no ks-apiserver, or something in between takes WebSockets away (%d)", code)
	case code == http.StatusUnauthorized:
		why = "the credential in the kubeconfig has expired, or is not known there: give a new one (PUT clusters/{cluster}/kubeconfig)"
	case code == http.StatusForbidden:
		why = "the credential in the kubeconfig may not get services/proxy of " + service + " in " + namespace
	case code == http.StatusNotFound:
		why = "there is no Service ks-apiserver in " + namespace + "; or " + notMember
	case code == http.StatusServiceUnavailable:
		why = "no pod of the Service ks-apiserver in " + namespace + " is ready, or reached from there, or the Service has no port 80"
	default:
		why = fmt.Sprintf("its kube-apiserver, or what lies between, takes WebSockets away (%d): give kubesphereAPIEndpoint", code)
	}
	return fmt.Errorf("dial ks-apiserver of the cluster %s: %s", way, why)
}
