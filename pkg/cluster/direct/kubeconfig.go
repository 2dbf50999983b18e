// Package direct reaches members whose kube-apiserver this server reaches: by the kubeconfig of their Cluster it checks and invites them, and
// dials their links.
package direct

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// maxKubeconfig bounds a kubeconfig, in bytes.
	maxKubeconfig = 256 << 10
	// askTimeout bounds one request to a member's kube-apiserver.
	askTimeout = 10 * time.Second
)

// Parse returns what a kubeconfig says, if it says it itself: a server, its authority, and a token, a password or a certificate. Programs and
// files, which would be run and read on this machine, and a server's proxy are refused. Answers have a bound: who passes on answers to
// users, or follows objects, takes WrapTransport away.
func Parse(raw []byte, transport func(*rest.Config)) (*rest.Config, error) {
	if len(raw) == 0 {
		return nil, errors.New("there is no kubeconfig")
	}
	if len(raw) > maxKubeconfig {
		return nil, fmt.Errorf("the kubeconfig has more than %d bytes", maxKubeconfig)
	}
	all, err := clientcmd.Load(raw)
	if err != nil {
		return nil, errors.New("the kubeconfig can't be read: it is no YAML of a Config") // its text has secrets
	}
	context := all.Contexts[all.CurrentContext]
	if context == nil {
		return nil, fmt.Errorf("the kubeconfig has no context %.100q, which is its current one", all.CurrentContext)
	}
	c, who := all.Clusters[context.Cluster], all.AuthInfos[context.AuthInfo]
	if c == nil || who == nil {
		return nil, errors.New("the current context of the kubeconfig names a cluster or a user that it does not have")
	}
	if err := selfContained(c, who); err != nil {
		return nil, err
	}
	out := &rest.Config{Host: c.Server, BearerToken: who.Token, Username: who.Username, Password: who.Password, Timeout: askTimeout,
		TLSClientConfig: rest.TLSClientConfig{ServerName: c.TLSServerName, CAData: c.CertificateAuthorityData, CertData: who.ClientCertificateData,
			KeyData: who.ClientKeyData}}
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	transport(out)
	return out, nil
}

// selfContained returns an error unless a kubeconfig says all itself.
func selfContained(c *clientcmdapi.Cluster, who *clientcmdapi.AuthInfo) error {
	at, err := url.Parse(c.Server)
	switch {
	case err != nil || at.Scheme != "https" || at.Host == "" || at.User != nil || at.RawQuery != "":
		return errors.New("the server in the kubeconfig is no https address")
	case c.InsecureSkipTLSVerify:
		return errors.New("the kubeconfig does not verify its server (insecure-skip-tls-verify): give the authority of its certificate")
	case c.ProxyURL != "":
		return errors.New("the kubeconfig names a proxy: use a cluster of type proxy, which dials this server")
	case who.Exec != nil || who.AuthProvider != nil:
		return errors.New("the kubeconfig names a program that logs in, which is not run here: give a token or a certificate")
	case c.CertificateAuthority != "" || who.TokenFile != "" || who.ClientCertificate != "" || who.ClientKey != "":
		return errors.New("the kubeconfig names files, which are not here: `kubectl config view --raw --flatten --minify` writes one without")
	case who.Impersonate != "" || who.ImpersonateUID != "" || len(who.ImpersonateGroups) > 0:
		return errors.New("the kubeconfig impersonates: give the credential of a user of its own")
	case who.Token == "" && who.Password == "" && len(who.ClientCertificateData) == 0:
		return errors.New("the user in the kubeconfig has no token, no password and no certificate")
	}
	return nil
}

// decode reads JSON that a member wrote.
func decode(text string, into any) error {
	if len(text) > maxKubeconfig {
		return errors.New("what the member wrote is too long")
	}
	return json.Unmarshal([]byte(text), into)
}
