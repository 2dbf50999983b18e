package lite

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

const (
	// lookEvery is how often the members are looked at.
	lookEvery = time.Second
	// boundEvery is how often it is looked whom a member's bindings name.
	boundEvery = 10 * time.Second
	// askTimeout bounds one request to a member's kube-apiserver.
	askTimeout = 5 * time.Second
)

var redial = link.Redial{Least: 500 * time.Millisecond, Most: 10 * time.Second}

// Terms are what a member is served by: its kube-apiserver and the account there, and the groups of the hub's users that count there.
type Terms struct {
	Name              string
	Config            *rest.Config
	Groups            []string
	KubernetesVersion string
}

// Served is one member as this server serves it.
type Served struct {
	// Handler answers what the hub sends over the link.
	Handler http.Handler
	// Bound returns whom the member's own bindings name, and whom those that hold in the whole cluster; Nodes returns its nodes.
	Bound func(ctx context.Context) (users, clusterUsers []string, err error)
	Nodes func(ctx context.Context) (*index.Snapshot, error)
}

// Keeper keeps the links of lite members.
type Keeper struct {
	Members *cluster.Members
	// Hub is the UID of the hub's kube-system, and Admit signs the certificate of a member.
	Hub   string
	Admit func(ctx context.Context, m *cluster.Member, r *join.Request) (*join.Answer, error)
	// Replace puts a kubeconfig in the place of one that the Cluster of a member has.
	Replace func(ctx context.Context, m *cluster.Member, old, next []byte) error
	// Transport sets how kube-apiservers of members are dialled.
	Transport func(*rest.Config)
	// Failed is told why a member is not linked.
	Failed func(ctx context.Context, m *cluster.Member, err error)
	// Serve makes what serves a member, until ctx ends.
	Serve func(ctx context.Context, t Terms) (*Served, error)
	// Version is that of this software.
	Version string
	Now     func() time.Time
}

// Run links members until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	k.Members.KeepEach(ctx, lookEvery, func(m *cluster.Member) bool { return m.Direct() && m.Lite }, k.keep)
}

// keep keeps the link of one member, and cleans up there when its Cluster has been deleted while this server ran.
func (k *Keeper) keep(ctx context.Context, m *cluster.Member) {
	var kubeconfig []byte // the one by which it was served last
	redial.Keep(ctx, func() error {
		if now := k.Members.ByUID(m.UID); now != nil {
			m = now
		}
		return k.link(ctx, m, &kubeconfig)
	}, func(err error, news bool) {
		if news {
			klog.ErrorS(err, "A lite member cluster is not linked; it is tried again", "cluster", m.Name)
		}
		k.Failed(ctx, m, err)
	})
	if now := k.Members.ByUID(m.UID); now == nil || now.Leaving {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		if err := k.leave(last, m, kubeconfig); err != nil {
			klog.ErrorS(err, "The account and the consent of a lite member that has left may be there still: its administrator deletes what they"+
				" applied", "cluster", m.Name)
		}
	}
}

// link serves a member, and returns when it may not go on.
func (k *Keeper) link(ctx context.Context, m *cluster.Member, last *[]byte) error {
	kubeconfig, terms, client, err := k.terms(ctx, m)
	if err != nil {
		return err
	}
	*last = kubeconfig
	life, end := context.WithCancel(ctx)
	defer end()
	identity, err := k.identity(ctx, m, client, terms)
	if err != nil {
		return err
	}
	served, err := k.Serve(life, *terms)
	if err != nil {
		return err
	}
	about := cluster.About{Version: k.Version, KubernetesVersion: terms.KubernetesVersion}
	m.SetAbout(about)
	m.SetSynced(true, nil) // nothing is kept there
	go k.describe(life, m, about, terms.Groups, served)
	h := &link.Handler{Identity: identity, Handler: served.Handler}
	return direct.ServeWithinProcess(life, k.Members, m, h, func(ctx context.Context) (bool, error) {
		return k.isOver(ctx, m, kubeconfig, client, terms.Groups)
	})
}

// terms returns by what a member is served: with a credential of the account that its administrator has made, which is put in the place of
// another one, and is renewed.
func (k *Keeper) terms(ctx context.Context, m *cluster.Member) (kubeconfig []byte, t *Terms, client *kubernetes.Clientset, err error) {
	kubeconfig = m.Kubeconfig()
	ask, cancel := context.WithTimeout(ctx, 4*askTimeout)
	defer cancel()
	if _, _, err := k.asked(ask, m, kubeconfig); err != nil { // nothing is made of a credential before there is a yes
		return nil, nil, nil, err
	}
	next, err := direct.ExchangeFor(ask, kubeconfig, join.LiteAccount, k.Transport, k.Now())
	if err != nil {
		return nil, nil, nil, err
	}
	if next != nil {
		if err := k.Replace(ask, m, kubeconfig, next); err != nil {
			return nil, nil, nil, err
		}
		kubeconfig = next
	}
	client, t, err = k.asked(ask, m, kubeconfig)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := CheckAccount(ask, client); err != nil {
		return nil, nil, nil, err
	}
	v, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, nil, nil, errors.New("the cluster's kube-apiserver does not say its version")
	}
	t.KubernetesVersion = v.GitVersion
	return kubeconfig, t, client, nil
}

// asked returns a client of a member, and the terms that its administrator has agreed to.
func (k *Keeper) asked(ctx context.Context, m *cluster.Member, kubeconfig []byte) (*kubernetes.Clientset, *Terms, error) {
	c, err := direct.Parse(kubeconfig, k.Transport)
	if err != nil {
		return nil, nil, err
	}
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, nil, errors.New("the certificate or the key in the kubeconfig can't be read")
	}
	groups, err := Consent(ctx, client, k.Hub, m.Name)
	if err != nil {
		return nil, nil, err
	}
	c = rest.CopyConfig(c)
	c.Timeout, c.WrapTransport = 0, nil // watches last, and the caches have a bound of their own
	return client, &Terms{Name: m.Name, Config: c, Groups: groups}, nil
}

// identity returns what proves, at the member's end of the link, that it is this member.
func (k *Keeper) identity(ctx context.Context, m *cluster.Member, client kubernetes.Interface, t *Terms) (link.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*askTimeout)
	defer cancel()
	system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return link.Identity{}, errors.New("the account may not get the namespace kube-system, whose UID is the cluster's identity")
	}
	return direct.Admit(k.Admit).WithinProcess(ctx, m, &join.Request{UID: string(system.UID), KubernetesVersion: t.KubernetesVersion,
		Version: k.Version})
}

// isOver reports whether a member may not be served on: its administrator no longer says yes, which is the error, or says something else,
// or it has another credential. An error alone is that its kube-apiserver does not answer.
func (k *Keeper) isOver(ctx context.Context, m *cluster.Member, kubeconfig []byte, client kubernetes.Interface, groups []string) (
	over bool, err error,
) {
	now := k.Members.ByUID(m.UID)
	if now == nil || !bytes.Equal(now.Kubeconfig(), kubeconfig) {
		return true, nil
	}
	next, err := direct.ExchangeFor(ctx, kubeconfig, join.LiteAccount, k.Transport, k.Now())
	if err != nil {
		klog.ErrorS(err, "The credential of a lite member cluster is not renewed; it is tried again", "cluster", m.Name)
	} else if next != nil {
		return true, k.Replace(ctx, m, kubeconfig, next)
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	said, err := Consent(ask, client, k.Hub, m.Name)
	if err != nil {
		return errors.Is(err, ErrRefused), err
	}
	return !slices.Equal(said, groups), nil
}

// describe keeps whom the member's bindings name, which groups count there, and which nodes it has.
func (k *Keeper) describe(ctx context.Context, m *cluster.Member, about cluster.About, groups []string, s *Served) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if users, clusterUsers, err := s.Bound(ctx); err == nil {
			m.SetBound(users)
			m.SetBoundNames(&cluster.BoundNames{ClusterUsers: clusterUsers, Groups: groups})
		} else if ctx.Err() == nil {
			klog.V(2).InfoS("Whom the bindings of a lite member name is not known", "cluster", m.Name, "reason", err.Error())
		}
		if nodes, err := s.Nodes(ctx); err == nil {
			about.SetNodes(nodes)
			m.SetAbout(about)
		}
	}, boundEvery)
}
