package resources_test

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/inventory"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/remote"

	"k8s.io/client-go/tools/clientcmd"
)

func TestKubeconfigOfAUser(t *testing.T) {
	dir := t.TempDir()
	ca, empty := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "empty.crt")
	for file, text := range map[string]string{ca: "authority", empty: ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := kubeconfig.Handler{Server: "https://ks.example.com", Authority: ca, Issuer: "https://login.example.com", Client: "kubectl",
		IsUser: func(name string) bool { return name == "alice" }}
	const path = resources.RootV1alpha2 + "/users/alice/kubeconfig"
	for name, c := range map[string]struct {
		change           func(*kubeconfig.Handler)
		method           string
		path, authorized string
		code             int
		has              string
		noAuthority      bool
		cluster          string // "" for that of the address
	}{
		"ItIsGiven":          {code: 200, has: "--username=alice"},
		"WithoutAnAuthority": {change: func(k *kubeconfig.Handler) { k.Authority = "" }, code: 200, has: "server: https://ks.example.com", noAuthority: true},
		"OfNobody":           {path: resources.RootV1alpha2 + "/users/bob/kubeconfig", code: 404, has: `users.iam.kubesphere.io \"bob\" not found`},
		"WithoutAnAddress": {change: func(k *kubeconfig.Handler) { k.Server = "" }, code: 200, has: "sets kubeconfig.server",
			cluster: "kubeconfig-server-is-not-configured.invalid"},
		"OfKubeAPIServer": {change: func(k *kubeconfig.Handler) {
			k.Kube = &kubeconfig.Kube{Server: "https://kube.example.com:6443", Authority: []byte("kube's"), IDToken: true}
		}, code: 200, has: "--certificate-authority-data=YXV0aG9yaXR5", cluster: "kube.example.com:6443"},
		"OfKubeAPIServerWithoutAnAddressOfOurs": {change: func(k *kubeconfig.Handler) {
			k.Server, k.Authority, k.Kube = "", "", &kubeconfig.Kube{Server: "https://kube.example.com:6443"}
		}, code: 200, has: "server: https://kube.example.com:6443", cluster: "kube.example.com:6443", noAuthority: true},
		"AnAuthorityThatIsGone":  {change: func(k *kubeconfig.Handler) { k.Authority = dir + "/none" }, code: 500, has: `"kind":"Status"`},
		"AnAuthorityThatIsEmpty": {change: func(k *kubeconfig.Handler) { k.Authority = empty }, code: 500, has: `"kind":"Status"`},
		"NotAsAnotherUser":       {authorized: resources.RootV1alpha2 + "/users/bob/kubeconfig", code: 404, has: "no resource at this path"},
		"NotWrittenTo":           {method: http.MethodPost, code: 405},
	} {
		t.Run(name, func(t *testing.T) {
			k := good
			if c.change != nil {
				c.change(&k)
			}
			asked, authorized, method := c.path, c.authorized, c.method
			if asked == "" {
				asked = path
			}
			if authorized == "" {
				authorized = asked
			}
			if method == "" {
				method = http.MethodGet
			}
			rec := serve(
				t,
				kapistest.Container((&resources.V1alpha2{Inventory: &inventory.Handler{}, Remotes: remote.New(remote.Options{}), Kubeconfigs: &k}).WebService()),
				method,
				asked,
				authorized,
				"",
			)
			if rec.Code != c.code || !strings.Contains(rec.Body.String(), c.has) {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			if strings.Contains(rec.Body.String(), dir) {
				t.Errorf("a path of the server shows: %s", rec.Body)
			}
			if c.code != http.StatusOK {
				return
			}
			if got := rec.Header().Get("Content-Type"); got != "application/yaml" {
				t.Errorf("it is %s", got)
			}
			made, err := clientcmd.Load(rec.Body.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			cluster := made.Clusters[cmp.Or(c.cluster, "ks.example.com")]
			if cluster == nil {
				t.Fatalf("the clusters are %v", made.Clusters)
			}
			if got := string(cluster.CertificateAuthorityData); (got == "") != c.noAuthority {
				t.Errorf("authority %q", got)
			}
		})
	}
}
