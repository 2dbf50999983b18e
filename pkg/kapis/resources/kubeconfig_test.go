package resources_test

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/inventory"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/remote"
	"kapis.dev/ks-apiserver/pkg/request"

	"k8s.io/apiserver/pkg/authentication/user"
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

// F46: who may enter a member gets a kubeconfig for it from the hub, which leads through the hub, whatever those of the hub's own cluster are. Anything else
// is the member's to answer.
func TestKubeconfigOfAMember(t *testing.T) {
	k := &kubeconfig.Handler{Server: "https://ks.example.com/", Issuer: "https://login.example.com", Client: "kubectl",
		Kube: &kubeconfig.Kube{Server: "https://kube.example.com:6443", Tokens: 1}, Certificates: &kubeconfig.Certificates{},
		IsUser: func(name string) bool { return name == "alice" || name == "bob" }}
	const of = resources.RootV1alpha2 + "/users/"
	for name, c := range map[string]struct {
		method, path, user string
		passed             bool
	}{
		"Own":           {path: "/clusters/shop" + of + "alice/kubeconfig", user: "alice"},
		"OlderForm":     {path: "/kapis/clusters/shop/resources.kubesphere.io/v1alpha2/users/alice/kubeconfig", user: "alice"},
		"OfAnother":     {path: "/clusters/shop" + of + "bob/kubeconfig", user: "alice", passed: true},
		"OfNoUser":      {path: "/clusters/shop" + of + "carl/kubeconfig", user: "carl", passed: true},
		"AnotherRoute":  {path: "/clusters/shop" + of + "alice", user: "alice", passed: true},
		"AnotherKind":   {path: "/clusters/shop" + resources.RootV1alpha2 + "/groups/alice/kubeconfig", user: "alice", passed: true},
		"InANamespace":  {path: "/clusters/shop" + resources.RootV1alpha2 + "/namespaces/a/users/alice/kubeconfig", user: "alice", passed: true},
		"Written":       {method: http.MethodPost, path: "/clusters/shop" + of + "alice/kubeconfig", user: "alice", passed: true},
		"OfThisCluster": {path: of + "alice/kubeconfig", user: "alice", passed: true},
	} {
		t.Run(name, func(t *testing.T) {
			passed := false
			h := k.OfMembers(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true }))
			r := httptest.NewRequestWithContext(t.Context(), cmp.Or(c.method, http.MethodGet), c.path, nil)
			info, err := request.Parse(r)
			if err != nil {
				t.Fatal(err)
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r.WithContext(request.WithUser(request.WithInfo(r.Context(), info), &user.DefaultInfo{Name: c.user})))
			if passed != c.passed {
				t.Fatalf("it is the member's to answer: %v, %d %s", passed, rec.Code, rec.Body)
			}
			if passed {
				return
			}
			got, err := clientcmd.Load(rec.Body.Bytes())
			if err != nil || rec.Code != http.StatusOK {
				t.Fatalf("%d %s, %v", rec.Code, rec.Body, err)
			}
			context := got.Contexts[got.CurrentContext]
			if got.CurrentContext != "shop" || got.Clusters[context.Cluster].Server != "https://ks.example.com/clusters/shop" {
				t.Errorf("%s", rec.Body)
			}
			if who := got.AuthInfos[context.AuthInfo]; who.Exec == nil || who.Token != "" || len(who.ClientCertificateData) > 0 ||
				!slices.Contains(who.Exec.Args, "--username=alice") {
				t.Errorf("the user is %+v", who)
			}
		})
	}
}
