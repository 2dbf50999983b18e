// Package kubeconfig builds the kubeconfig with which kubectl reaches this server and logs in to it. It has no credential: it names the
// plugin kubectl-ks, which gets one.
package kubeconfig

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// Plugin is the program that logs in: kubectl finds it as `kubectl ks`.
	Plugin = "kubectl-ks"
	// execVersion is that of the plugin's answers.
	execVersion = "client.authentication.k8s.io/v1"
	installHint = "kubectl-ks logs you in to this cluster. Build it from the sources of ks-apiserver with `make build`, and put bin/kubectl-ks into a folder of your PATH."
)

// The flags of `kubectl-ks token` in a kubeconfig.
const (
	FlagIssuer   = "issuer-url"
	FlagClient   = "client-id"
	FlagUser     = "username"
	FlagDevice   = "device"
	FlagInsecure = "insecure-skip-tls-verify"
	// FlagIDToken gives the ID token, for a kube-apiserver that trusts the issuer itself.
	FlagIDToken = "id-token"
	// FlagAuthorityData has the certificates of the issuer's CAs.
	FlagAuthorityData = "certificate-authority-data"
)

// Options are the content of a kubeconfig.
type Options struct {
	// Server is the https URL that kubectl calls. kubectl sends no credentials over plain http.
	Server string
	// Authority is the PEM certificates of the CAs of Server; nil for the CAs of the machine.
	Authority []byte
	// Context is the name of the context and the cluster; "" for the host of Server.
	Context string
	// Issuer is the URL of the OpenID provider, and Client the client_id there.
	Issuer, Client string
	// IssuerAuthority is the PEM certificates of the CAs of Issuer, where they are others than those of Server; nil for the same.
	IssuerAuthority []byte
	// IDToken sends the ID token to Server, and not the access token.
	IDToken bool
	// User is the user who has to log in; "" for any.
	User string
	// Device makes users log in by a device code.
	Device bool
	// Insecure disables the verification of Server's and Issuer's certificates.
	Insecure bool
}

// New returns a kubeconfig.
func New(o Options) (*clientcmdapi.Config, error) {
	u, err := url.Parse(o.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the server %q is not an https URL without user, query and fragment: kubectl sends no credentials over plain http",
			o.Server)
	}
	if o.Issuer == "" || o.Client == "" {
		return nil, errors.New("make a kubeconfig: it needs an issuer and an OAuth client to log in with")
	}
	if o.Context == "" {
		o.Context = u.Host
	}
	args := []string{"token", "--" + FlagIssuer + "=" + o.Issuer, "--" + FlagClient + "=" + o.Client}
	if o.User != "" {
		args = append(args, "--"+FlagUser+"="+o.User)
	}
	if o.IDToken {
		args = append(args, "--"+FlagIDToken)
	}
	if len(o.IssuerAuthority) > 0 {
		args = append(args, "--"+FlagAuthorityData+"="+base64.StdEncoding.EncodeToString(o.IssuerAuthority))
	}
	if o.Device {
		args = append(args, "--"+FlagDevice)
	}
	if o.Insecure {
		args = append(args, "--"+FlagInsecure)
	}
	who := o.User
	if who == "" {
		who = "login"
	}
	who += "@" + o.Context
	c := clientcmdapi.NewConfig()
	c.Clusters[o.Context] = &clientcmdapi.Cluster{Server: o.Server, CertificateAuthorityData: o.Authority, InsecureSkipTLSVerify: o.Insecure}
	c.Contexts[o.Context] = &clientcmdapi.Context{Cluster: o.Context, AuthInfo: who}
	c.CurrentContext = o.Context
	c.AuthInfos[who] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: execVersion, Command: Plugin, Args: args, InstallHint: installHint,
		InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode, ProvideClusterInfo: true,
	}}
	return c, nil
}

// YAML returns New as the text of a file.
func YAML(o Options) ([]byte, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	text, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	return text, nil
}
