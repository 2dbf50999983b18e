package hub

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/token"
)

var _ authenticator.Token = (*Hub)(nil)

// setKubeconfig gives the Cluster of a member that dials a kubeconfig, by which programs reach it that read this field. One that somebody
// has written is left there. An empty line is none: the schema takes no empty text, and a field that is left out keeps its value.
func (h *Hub) setKubeconfig(c *clusterv1alpha1.Cluster, m *cluster.Member) bool {
	if !m.Dials() || h.Reached == nil {
		return false
	}
	server, authority, err := h.Reached()
	if err != nil {
		klog.ErrorS(err, "A Cluster gets no kubeconfig; this is tried again", "cluster", c.Name)
		return false
	}
	at, err := url.Parse(server)
	if err != nil || at.Scheme != "https" || at.Host == "" { // no token is sent over plain http
		return false
	}
	want := &clientcmdapi.Cluster{Server: at.JoinPath("clusters", c.Name).String(), CertificateAuthorityData: authority}
	if has := bytes.TrimSpace(c.Spec.Connection.KubeConfig); len(has) > 0 && !h.isToReplace(has, want, string(c.UID)) {
		return false
	}
	text, err := h.kubeconfig(c, want)
	if err != nil {
		klog.ErrorS(err, "A Cluster gets no kubeconfig; this is tried again", "cluster", c.Name)
		return false
	}
	c.Spec.Connection.KubeConfig = text
	return true
}

// isToReplace reports whether a kubeconfig is one of this hub's that leads elsewhere, or whose token is old, or does not count.
func (h *Hub) isToReplace(kubeconfig []byte, want *clientcmdapi.Cluster, uid string) bool {
	all, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return false
	}
	current := all.Contexts[all.CurrentContext]
	if current == nil || all.AuthInfos[current.AuthInfo] == nil || all.Clusters[current.Cluster] == nil {
		return false
	}
	who, to := all.AuthInfos[current.AuthInfo], all.Clusters[current.Cluster]
	if !strings.HasPrefix(who.Token, token.ClusterPrefix) {
		return false
	}
	of, made, err := h.verifyKubeconfigToken(who.Token)
	return err != nil || of != uid || h.Now().Sub(made) >= kubeconfigLife || to.Server != want.Server ||
		!bytes.Equal(to.CertificateAuthorityData, want.CertificateAuthorityData)
}

func (h *Hub) kubeconfig(c *clusterv1alpha1.Cluster, to *clientcmdapi.Cluster) ([]byte, error) {
	secret, err := h.kubeconfigToken(string(c.UID))
	if err != nil {
		return nil, err
	}
	out, who := clientcmdapi.NewConfig(), KubeconfigUser+c.Name
	out.Clusters[c.Name], out.AuthInfos[who] = to, &clientcmdapi.AuthInfo{Token: secret}
	out.Contexts[c.Name], out.CurrentContext = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: who}, c.Name
	text, err := clientcmd.Write(*out)
	if err != nil {
		return nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	return text, nil
}
