package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kapis.dev/ks-apiserver/pkg/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/login"
)

// kubeconfigOptions are the flags of `kubectl ks kubeconfig`.
type kubeconfigOptions struct {
	kubeconfig.Options
	authority, file string
	print           bool
}

func (p *program) kubeconfigCommand() *cobra.Command {
	var o kubeconfigOptions
	cmd := &cobra.Command{
		Use: "kubeconfig", Short: "Add a ks-apiserver to the kubeconfig, and make it the current context", Args: cobra.NoArgs,
		Example: "  kubectl ks kubeconfig --server https://ks.example.com\n  kubectl get namespaces",
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.makeKubeconfig(cmd, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Server, "server", "", "https `URL` of the ks-apiserver")
	f.StringVar(&o.Issuer, flagIssuer, "", "`URL` of the issuer (default what the server says)")
	f.StringVar(&o.Client, kubeconfig.FlagClient, defaultClient, "`id` of the OAuth client")
	f.StringVar(&o.User, kubeconfig.FlagUser, "", "`name` of the user who has to log in (default anybody)")
	f.StringVar(&o.Context, "context", "", "`name` of the context (default the server's host)")
	f.StringVar(&o.authority, "certificate-authority", "", "PEM `file` of who vouches for the server's certificate; it is copied")
	f.BoolVar(&o.Insecure, kubeconfig.FlagInsecure, false, "trust any certificate; for a server on this machine only")
	f.BoolVar(&o.Device, kubeconfig.FlagDevice, false, "always log in with a code, by a browser on any machine")
	f.StringVar(&o.file, "kubeconfig", "", "`file` to add it to (default $KUBECONFIG, else ~/.kube/config)")
	f.BoolVar(&o.print, "print", false, "print it, and change no file")
	_ = cmd.MarkFlagRequired("server") // the flag exists
	return cmd
}

func (p *program) makeKubeconfig(cmd *cobra.Command, o kubeconfigOptions) error {
	o.Server = strings.TrimSuffix(o.Server, "/")
	if u, err := url.Parse(o.Server); o.Insecure && (err != nil || !login.IsLoopback(u.Hostname())) {
		return fmt.Errorf("the certificate of %s has to be verified: see --certificate-authority", o.Server)
	}
	t := target{authority: o.authority}
	roots, err := t.roots()
	if err != nil {
		return err
	}
	if o.authority != "" {
		if o.Authority, err = readAuthority(o.authority); err != nil {
			return err
		}
	}
	if o.Issuer == "" {
		if _, err := kubeconfig.New(kubeconfig.Options{Server: o.Server, Issuer: o.Server, Client: o.Client}); err != nil {
			return err // before the user is asked anything
		}
		if o.Issuer, err = login.Discover(cmd.Context(), o.Server, roots, o.Insecure); err != nil {
			return err
		}
	}
	made, err := kubeconfig.New(o.Options)
	if err != nil {
		return err
	}
	if o.print {
		text, err := clientcmd.Write(*made)
		if err != nil {
			return fmt.Errorf("write the kubeconfig: %w", err)
		}
		_, err = p.out.Write(text)
		return err
	}
	file, err := merge(made, o.file)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.tell, "Context %q is the current one in %s. It logs in at %s.\n", made.CurrentContext, file, o.Issuer)
	return nil
}

// merge adds a kubeconfig to a file, and keeps its other entries.
func merge(made *clientcmdapi.Config, file string) (string, error) {
	options := clientcmd.NewDefaultPathOptions()
	options.LoadingRules.ExplicitPath = file
	c, err := options.GetStartingConfig()
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	for name, v := range made.Clusters {
		c.Clusters[name] = v
	}
	for name, v := range made.AuthInfos {
		c.AuthInfos[name] = v
	}
	for name, v := range made.Contexts {
		if before := c.Contexts[name]; before != nil {
			v.Namespace = before.Namespace
		}
		c.Contexts[name] = v
	}
	c.CurrentContext = made.CurrentContext
	if err := clientcmd.ModifyConfig(options, *c, false); err != nil {
		return "", fmt.Errorf("write the kubeconfig: %w", err)
	}
	return options.GetDefaultFilename(), nil
}
