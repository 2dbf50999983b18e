package kubeconfig_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"kapis.dev/ks-apiserver/pkg/kubeconfig"
)

func TestAKubeconfigLogsInByThePluginAlone(t *testing.T) {
	text, err := kubeconfig.YAML(
		kubeconfig.Options{Server: "https://ks.example.com:9443", Authority: []byte("pem"), Issuer: "https://login.example.com", Client: "kubectl", User: "alice"},
	)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientcmd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.Validate(*c); err != nil {
		t.Errorf("clients refuse it: %v", err)
	}
	ctx := c.Contexts[c.CurrentContext]
	if ctx == nil || c.CurrentContext != "ks.example.com:9443" {
		t.Fatalf("the current context is %q", c.CurrentContext)
	}
	if cl := c.Clusters[ctx.Cluster]; cl.Server != "https://ks.example.com:9443" || string(cl.CertificateAuthorityData) != "pem" || cl.InsecureSkipTLSVerify {
		t.Errorf("cluster %+v", cl)
	}
	who := c.AuthInfos[ctx.AuthInfo]
	if ctx.AuthInfo != "alice@ks.example.com:9443" || who.Token != "" || who.Password != "" || len(who.ClientKeyData) > 0 || who.AuthProvider != nil ||
		who.Exec == nil {
		t.Fatalf("user %s: %+v", ctx.AuthInfo, who)
	}
	want := []string{"token", "--issuer-url=https://login.example.com", "--client-id=kubectl", "--username=alice"}
	if e := who.Exec; e.Command != "kubectl-ks" || !slices.Equal(e.Args, want) || e.APIVersion != "client.authentication.k8s.io/v1" ||
		e.InteractiveMode != "IfAvailable" || !e.ProvideClusterInfo || e.InstallHint == "" {
		t.Errorf("exec %+v", e)
	}
}

func TestOptionsShowInTheArguments(t *testing.T) {
	c, err := kubeconfig.New(kubeconfig.Options{Server: "https://127.0.0.1:1", Issuer: "https://127.0.0.1:1", Client: "c",
		Context: "dev", Device: true, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	args := c.AuthInfos["login@dev"].Exec.Args
	if !slices.Contains(args, "--device") || !slices.Contains(args, "--insecure-skip-tls-verify") || !c.Clusters["dev"].InsecureSkipTLSVerify ||
		c.CurrentContext != "dev" {
		t.Errorf("%v", args)
	}
}

func TestWhatKubectlCouldNotUseIsRefused(t *testing.T) {
	for name, o := range map[string]kubeconfig.Options{
		"PlainHTTP": {Server: "http://ks.example.com", Issuer: "https://i", Client: "c"},
		"NoServer":  {Issuer: "https://i", Client: "c"},
		"AUser":     {Server: "https://a:b@ks.example.com", Issuer: "https://i", Client: "c"},
		"AQuery":    {Server: "https://ks.example.com?a", Issuer: "https://i", Client: "c"},
		"NoIssuer":  {Server: "https://ks.example.com", Client: "c"},
		"NoClient":  {Server: "https://ks.example.com", Issuer: "https://i"},
	} {
		t.Run(name, func(t *testing.T) {
			if text, err := kubeconfig.YAML(o); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %v", text, err)
			}
		})
	}
}

// For a kube-apiserver that trusts the issuer, the authorities of the two are kept apart.
func TestAKubeconfigOfAnotherServerHasItsIssuersAuthority(t *testing.T) {
	c, err := kubeconfig.New(kubeconfig.Options{Server: "https://kube:6443", Authority: []byte("kube's"), Issuer: "https://ks.example.com", Client: "kubectl",
		IssuerAuthority: []byte("issuer's"), IDToken: true})
	if err != nil {
		t.Fatal(err)
	}
	args := c.AuthInfos["login@kube:6443"].Exec.Args
	if !slices.Contains(args, "--id-token") || !slices.Contains(args, "--certificate-authority-data=aXNzdWVyJ3M=") {
		t.Errorf("the plugin is called with %q", args)
	}
	if got := string(c.Clusters["kube:6443"].CertificateAuthorityData); got != "kube's" {
		t.Errorf("the cluster trusts %q", got)
	}
}
