package direct

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/sharedsecret"
)

// maxVersion bounds what a member with a shared secret says of its version, in bytes.
const maxVersion = 64 << 10

// SharedSecret is how members are reached that know their callers by a secret alone.
type SharedSecret struct {
	Secrets sharedsecret.Secrets
	// Issuer is the issuer of the tokens.
	Issuer string
	// Serve returns what passes the hub's requests on to ks-apiserver of a member, at a URL and by a transport, with the tokens of users.
	Serve func(at *url.URL, by http.RoundTripper, token func(user string) (string, error)) http.Handler
}

// older is ks-apiserver of an older release in a member, as its kube-apiserver passes on to it.
type older struct {
	at     *url.URL
	by     http.RoundTripper
	tokens *sharedsecret.Tokens
}

// share serves a member that knows its callers by a secret alone, and returns when it may not go on. The link to it does not leave this
// process; what goes on from there has the credential in the kubeconfig, for its kube-apiserver, and a token of the user.
func (d *Dialing) share(ctx context.Context, c *rest.Config, client kubernetes.Interface, m *cluster.Member) error {
	if d.Shared == nil {
		return errors.New("this server has no secret that it shares with members")
	}
	secret, err := d.Shared.Secrets.Of(m.Name)
	if err != nil {
		return err
	}
	system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return explain("read the cluster's identity", err)
	}
	c = rest.CopyConfig(c)
	c.NextProtos = []string{"http/1.1"} // WebSockets
	c.Timeout, c.WrapTransport = 0, nil // answers to users are passed on as they come
	o := &older{tokens: &sharedsecret.Tokens{Secret: secret, Issuer: d.Shared.Issuer, Cluster: string(system.UID), Now: time.Now}}
	if o.by, err = rest.TransportFor(c); err != nil {
		return errors.New("the certificate or the key in the kubeconfig can't be read")
	}
	if o.at, err = url.Parse(strings.TrimSuffix(c.Host, "/") + servicePath); err != nil {
		return errors.New("the server in the kubeconfig is no address")
	}
	about, err := o.about(ctx)
	if err != nil {
		return err
	}
	identity, err := Admit(d.Admit).WithinProcess(ctx, m, &join.Request{UID: string(system.UID), Version: about.Version,
		KubernetesVersion: about.KubernetesVersion})
	if err != nil {
		return err
	}
	m.SetAbout(*about)
	m.SetSynced(true, nil) // nothing is kept there
	life, end := context.WithCancel(ctx)
	defer end()
	go d.exchange(life, m.UID)
	go d.untilMoved(life, m, end)
	h := &link.Handler{Identity: identity, Handler: d.Shared.Serve(o.at, o.by, o.tokens.For)}
	return ServeWithinProcess(life, d.Members, m, h, func(ctx context.Context) (bool, error) { return d.isOver(ctx, m, o) })
}

// isOver reports whether a member with a shared secret may not be served on: it takes no tokens, which is the error, or it has another
// secret or another credential. An error alone is that it does not answer.
func (d *Dialing) isOver(ctx context.Context, m *cluster.Member, o *older) (over bool, err error) {
	now := d.Members.ByUID(m.UID)
	if now == nil || !bytes.Equal(now.Kubeconfig(), m.Kubeconfig()) {
		return true, nil
	}
	secret, err := d.Shared.Secrets.Of(m.Name)
	if err != nil || !bytes.Equal(secret, o.tokens.Secret) {
		return true, err
	}
	about, err := o.about(ctx)
	if err != nil {
		return errors.Is(err, errToken), err
	}
	m.SetAbout(*about)
	return false, nil
}

// errToken says that a member does not take the hub's tokens.
var errToken = errors.New("the cluster takes no token of this server: is the secret in fleet.sharedSecretDirectory that of its" +
	" authentication.issuer.jwtSecret, and are the clocks alike?")

// about asks ks-apiserver of the member for its version, as nobody in particular: with a token, so that one that it does not take is known.
func (o *older) about(ctx context.Context) (*cluster.About, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	token, err := o.tokens.ForHub()
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.at.String()+"/kapis/version", http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-KubeSphere-Authorization", "Bearer "+token)
	resp, err := o.by.RoundTrip(r)
	if err != nil {
		return nil, explain("ask ks-apiserver of the cluster", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxVersion))
	switch {
	case err != nil:
		return nil, errors.New("ks-apiserver of the cluster answers only a part")
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, errToken
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("ask ks-apiserver of the cluster: it answers %d", resp.StatusCode)
	}
	var v struct {
		GitVersion string
		Kubernetes struct{ GitVersion string }
	}
	if json.Unmarshal(raw, &v) != nil || v.GitVersion == "" {
		return nil, errors.New("what answers in the place of the cluster's ks-apiserver does not say its version")
	}
	return &cluster.About{Version: v.GitVersion, KubernetesVersion: v.Kubernetes.GitVersion}, nil
}
