package direct_test

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/cluster/direct"
)

const whole = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://kube.example:6443"}}]
users: [{name: u, user: {token: canary}}]
`

func TestAKubeconfigSaysAllItself(t *testing.T) { // F11
	dialled := false
	c, err := direct.Parse([]byte(whole), func(*rest.Config) { dialled = true })
	if err != nil || c.Host != "https://kube.example:6443" || c.BearerToken != "canary" || !dialled {
		t.Fatalf("%v, %v, dialled as this server dials: %v", c, err, dialled)
	}
	for name, x := range map[string]struct{ old, with, want string }{
		"Nothing":          {whole, "", "no kubeconfig"},
		"NoYAML":           {whole, "token: [canary", "can't be read"},
		"TooLong":          {"token: canary", "token: " + strings.Repeat("a", 300<<10), "more than"},
		"NoContext":        {"current-context: c", "current-context: d", "no context"},
		"AnotherCluster":   {"cluster: c, user", "cluster: d, user", "does not have"},
		"AnotherUser":      {"user: u}", "user: v}", "does not have"},
		"PlainHTTP":        {"https://", "http://", "no https address"},
		"APassword":        {"https://", "https://a:b@", "no https address"},
		"AQuery":           {":6443", ":6443?a=b", "no https address"},
		"NoVerification":   {`:6443"`, `:6443", insecure-skip-tls-verify: true`, "does not verify"},
		"AProxy":           {`:6443"`, `:6443", proxy-url: "http://127.0.0.1"`, "names a proxy"},
		"AProgram":         {"token: canary", "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch}", "not run here"},
		"AnOlderProgram":   {"token: canary", "auth-provider: {name: gcp}", "not run here"},
		"AFileOfAToken":    {"token: canary", "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token", "names files"},
		"AFileOfAKey":      {"token: canary", "client-key: /etc/key", "names files"},
		"AFileOfACert":     {"token: canary", "client-certificate: /etc/cert", "names files"},
		"AFileOfAuthority": {`:6443"`, `:6443", certificate-authority: /etc/passwd`, "names files"},
		"SomebodyElse":     {"token: canary", "token: canary, as: system:admin", "impersonates"},
		"SomebodysGroup":   {"token: canary", "token: canary, as-groups: [system:masters]", "impersonates"},
		"NoCredential":     {"token: canary", "username: u", "no token"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := direct.Parse([]byte(strings.Replace(whole, x.old, x.with, 1)), func(*rest.Config) {})
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Fatalf("%v, %v, want %q", c, err, x.want)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error has the credential: %v", err)
			}
		})
	}
}
