package plane

import (
	"fmt"
	"time"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
	"kapis.dev/ks-apiserver/tools/dev/internal/realnode"
)

const (
	// clusterCA signs the certificates of kube-apiserver and of its clients.
	clusterCA = "ca"
	// frontProxyCA signs certificates of proxies that may name a user in request headers; it is separate, so that no other client can.
	frontProxyCA = "front-proxy-ca"
	// etcdCA signs certificates of clients that may read and write the store; it is separate, so that no user of the cluster can.
	etcdCA = "etcd-ca"

	serviceAccountKey = "service-account.key"
	mastersGroup      = "system:masters"
	// kubeletClient is the name of kube-apiserver at kubelets.
	kubeletClient = "kube-apiserver-kubelet-client"
)

// localNames are the names of every server of the control plane.
var localNames = []string{"127.0.0.1", "localhost"}

type certificate struct {
	authority, file string
	request         pki.Request
}

// certificates lists the certificates of the control plane itself, and of its real node, if any.
func certificates(real *realnode.Config) []certificate {
	apiserverNames := append([]string{
		"10.96.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}, localNames...)
	var ofNode []certificate
	if real != nil {
		apiserverNames = append(apiserverNames, real.HostIP())
		ofNode = realNodeCertificates(*real)
	}
	return append(ofNode, []certificate{
		{clusterCA, "kube-apiserver", pki.Request{CommonName: "kube-apiserver", Names: apiserverNames}},
		{clusterCA, "kubelet-client", pki.Request{CommonName: kubeletClient}},
		{clusterCA, "kubelet", pki.Request{CommonName: "system:node:dev", Names: localNames}},
		{clusterCA, "kube-controller-manager", pki.Request{CommonName: "system:kube-controller-manager", Names: localNames}},
		{clusterCA, "kube-scheduler", pki.Request{CommonName: "system:kube-scheduler", Names: localNames}},
		{clusterCA, "kwok", pki.Request{CommonName: "kwok", Groups: []string{mastersGroup}, Names: localNames}},
		{clusterCA, "admin", pki.Request{CommonName: "kubernetes-admin", Groups: []string{mastersGroup}}},
		{frontProxyCA, "front-proxy-client", pki.Request{CommonName: "front-proxy-client"}},
		{etcdCA, "etcd", pki.Request{CommonName: "etcd", Names: localNames}},
		{etcdCA, "etcd-client", pki.Request{CommonName: "etcd-client"}},
	}...)
}

// ensureCertificates makes what is missing of the certificates and keys, and renews what is near its end.
func ensureCertificates(l layout, now time.Time, real *realnode.Config) error {
	authorities := map[string]*pki.Authority{}
	for _, name := range []string{clusterCA, frontProxyCA, etcdCA} {
		authority, err := pki.EnsureAuthority(l.path("pki"), name, now)
		if err != nil {
			return err
		}
		authorities[name] = authority
	}
	for _, c := range certificates(real) {
		if _, err := authorities[c.authority].Ensure(l.path("pki"), c.file, c.request, now); err != nil {
			return err
		}
	}
	return pki.EnsureKey(l.pki(serviceAccountKey))
}

// issue signs a certificate that is not the control plane's own.
func issue(l layout, r pki.Request, now time.Time) (*pki.Authority, pki.Pair, error) {
	authority, err := pki.LoadAuthority(l.path("pki"), clusterCA)
	if err != nil {
		return nil, pki.Pair{}, fmt.Errorf("%w (has `dev up --dir %s` ever run?)", err, l.dir)
	}
	pair, err := authority.Issue(r, now)
	return authority, pair, err
}
