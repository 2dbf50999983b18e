package main

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"kapis.dev/ks-apiserver/pkg/kubeconfig"
)

const (
	flagIssuer = kubeconfig.FlagIssuer
	// defaultClient is the OAuth client of an installation for kubectl.
	defaultClient = "kubectl"
	defaultListen = "127.0.0.1:0"
	// maxAuthority bounds a file of certificates, in bytes.
	maxAuthority = 1 << 20
)

func defaultScopes() []string {
	return []string{"openid", "profile", "email", "groups", "offline_access", "api"}
}

// target is the login that a command is about.
type target struct {
	issuer, client, user, listen string
	scopes                       []string
	device, insecure             bool
	// authority is a file of certificates, or authorityData the certificates; with either, no other authorities are trusted. clusterCA are
	// those of the kubeconfig's cluster, which are trusted in addition to the machine's: the holder of that authority's key can get the
	// tokens anyway, since kubectl sends them to the cluster.
	authority     string
	authorityData []byte
	clusterCA     []byte

	kubeconfig, context string
}

// flags adds the flags of a login.
func (t *target) flags(f *pflag.FlagSet) {
	f.StringVar(&t.issuer, flagIssuer, "", "`URL` of the issuer, exactly as the server names itself")
	f.StringVar(&t.client, kubeconfig.FlagClient, defaultClient, "`id` of the OAuth client")
	f.StringVar(&t.user, kubeconfig.FlagUser, "", "`name` of the user who has to log in (default anybody)")
	f.StringSliceVar(&t.scopes, "scopes", defaultScopes(), "scopes to ask for")
	f.StringVar(&t.listen, "listen", defaultListen, "loopback `address` that the browser comes back to")
	f.BoolVar(&t.device, kubeconfig.FlagDevice, false, "log in with a code, by a browser on any machine")
	f.StringVar(&t.authority, "certificate-authority", "", "PEM `file` of who vouches for the issuer's certificate")
	f.BytesBase64Var(&t.authorityData, kubeconfig.FlagAuthorityData, nil, "the same, as the base64 of its `text`; for kubeconfigs")
	f.BoolVar(&t.insecure, kubeconfig.FlagInsecure, false, "trust any certificate; for an issuer on this machine only")
}

func (t *target) kubeconfigFlags(f *pflag.FlagSet) {
	f.StringVar(&t.kubeconfig, "kubeconfig", "", "kubeconfig `file` (default $KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&t.context, "context", "", "`name` of the context in it (default the current one)")
}

// fromKubeconfig takes the login from the kubeconfig if no flag names an issuer.
func (t *target) fromKubeconfig() error {
	if t.issuer != "" {
		return nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = t.kubeconfig
	c, err := rules.Load()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	name := t.context
	if name == "" {
		name = c.CurrentContext
	}
	ctx := c.Contexts[name]
	if ctx == nil {
		return fmt.Errorf("the kubeconfig has no context %q: see --context, --kubeconfig and --%s", name, flagIssuer)
	}
	who := c.AuthInfos[ctx.AuthInfo]
	if who == nil || who.Exec == nil || strings.TrimSuffix(filepath.Base(who.Exec.Command), ".exe") != kubeconfig.Plugin ||
		len(who.Exec.Args) == 0 || who.Exec.Args[0] != "token" {
		return fmt.Errorf("the context %q does not log in with %s: see `kubectl ks kubeconfig --help`, or --%s", name, kubeconfig.Plugin,
			flagIssuer)
	}
	var said target
	f := pflag.NewFlagSet("token", pflag.ContinueOnError)
	f.Usage = func() {}
	said.flags(f)
	f.Bool(kubeconfig.FlagIDToken, false, "")
	if err := f.Parse(who.Exec.Args[1:]); err != nil {
		return fmt.Errorf("read the arguments of %s in the context %q: %w", kubeconfig.Plugin, name, err)
	}
	// The login is that of the context; this call's flags say how the user is asked.
	t.issuer, t.client, t.user, t.scopes, t.insecure = said.issuer, said.client, said.user, said.scopes, said.insecure
	t.authority = cmp.Or(t.authority, said.authority)
	if len(t.authorityData) == 0 {
		t.authorityData = said.authorityData
	}
	t.device = t.device || said.device
	if t.listen == defaultListen {
		t.listen = said.listen
	}
	if cluster := c.Clusters[ctx.Cluster]; cluster != nil {
		t.clusterCA = cluster.CertificateAuthorityData
		if len(t.clusterCA) == 0 && cluster.CertificateAuthority != "" {
			if t.clusterCA, err = readAuthority(cluster.CertificateAuthority); err != nil {
				return err
			}
		}
	}
	return nil
}

// roots returns the authorities that are trusted for the issuer; nil for the machine's only.
func (t *target) roots() (*x509.CertPool, error) {
	if t.authority != "" {
		text, err := readAuthority(t.authority)
		if err != nil {
			return nil, err
		}
		return pool(x509.NewCertPool(), text, t.authority)
	}
	if len(t.authorityData) > 0 {
		return pool(x509.NewCertPool(), t.authorityData, "--"+kubeconfig.FlagAuthorityData)
	}
	if len(t.clusterCA) == 0 {
		return nil, nil
	}
	system, err := x509.SystemCertPool()
	if err != nil {
		system = x509.NewCertPool()
	}
	return pool(system, t.clusterCA, "the cluster's certificate-authority-data")
}

func pool(p *x509.CertPool, text []byte, where string) (*x509.CertPool, error) {
	if !p.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no PEM certificate", where)
	}
	return p, nil
}

func readAuthority(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAuthority+1))
	if err == nil && len(text) > maxAuthority {
		err = errors.New("it is too large")
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority %s: %w", file, err)
	}
	return text, nil
}
