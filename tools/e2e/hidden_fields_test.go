package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kapis.dev/ks-apiserver/pkg/redaction"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// credential is a kind with hidden fields, of which the tests make objects.
type credential struct {
	group, version, kind, plural string
	// spec is that of an object whose hidden fields hold the secret.
	spec func(secret string) obj
}

func (k *credential) root() string { return k.group + "/" + k.version + "/" + k.plural }

func (k *credential) object(name, secret string) obj {
	return obj{"apiVersion": k.group + "/" + k.version, "kind": k.kind, "metadata": obj{"name": name}, "spec": k.spec(secret)}
}

// credentials are the kinds with hidden fields that people write.
func credentials() map[string]*credential {
	return map[string]*credential{
		"Cluster": {"cluster.kubesphere.io", "v1alpha1", "Cluster", "clusters", func(s string) obj {
			return obj{"provider": "p", "connection": obj{"type": "direct", "kubernetesAPIEndpoint": "https://a.example.com", "kubeconfig": encoded(s), "token": s}}
		}},
		"Repository": {"kubesphere.io", "v1alpha1", "Repository", "repositories", func(s string) obj {
			return obj{"url": "https://a.example.com", "basicAuth": obj{"username": "u", "password": s}}
		}},
		"Repo": {"application.kubesphere.io", "v2", "Repo", "repos", func(s string) obj {
			return obj{"url": "https://a.example.com", "credential": obj{"username": "u", "password": s}}
		}},
	}
}

// superuser runs kubectl past the product, as somebody whom kube-apiserver refuses nothing.
func superuser(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), product.Program("kubectl"), append([]string{"--kubeconfig", filepath.Join(product.Dir, "kubeconfig")}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// What nobody may read is in no answer about an object that kubectl apply made: not in what that remembers of the object, not in
// managedFields, which name the elements of lists by their values, and not for any parameter, route or media type.
func TestWhatIsHiddenIsInNoAnswer(t *testing.T) {
	proves(t, "S64")
	a, name := admin(t), unique("unseen")
	secret := unique("Canary")
	hash := strings.Repeat("ca", 28) + "deadbeef" // SHA-256, as recovery codes are kept
	secrets := []string{secret, encoded(secret), hash, "$2a$", "$2b$"}
	routes := map[string][]string{} // of the lists, by the root of the kind
	for _, k := range credentials() {
		kubectlOutput(t, encode(t, k.object(name, secret)), "apply", "-f", "-")
		t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, "/apis/"+k.root()+"/"+name, nil) })
		if text := stored(t, "/apis/"+k.root()+"/"+name); strings.Count(text, secret)+strings.Count(text, encoded(secret)) < 2 {
			t.Fatalf("%s: there is nothing to hide: %s", k.kind, text)
		}
		routes[k.root()] = []string{"/kapis/" + k.root(), kapis + "/" + k.plural, "/apis/" + k.root()}
	}
	routes["cluster.kubesphere.io/v1alpha1/clusters"] = append(routes["cluster.kubesphere.io/v1alpha1/clusters"], "/kapis/tenant.kubesphere.io/v1beta1/clusters")
	users := "iam.kubesphere.io/v1beta1/users"
	kubectlOutput(
		t,
		encode(t, iamObject("User", name, obj{"spec": obj{"email": name + "@example.com", "password": "Canary-" + unique("P4")}})),
		"apply",
		"-f",
		"-",
	)
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, "/apis/"+users+"/"+name, nil) })
	routes[users] = []string{"/kapis/" + users, kapis + "/users", "/apis/" + users, "/apis/iam.kubesphere.io/v1alpha2/users"}
	factors := "session.kapis.dev/v1alpha1/factors"
	factor := obj{
		"apiVersion": "session.kapis.dev/v1alpha1",
		"kind":       "Factor",
		"metadata":   obj{"name": name},
		"spec":       obj{"user": name, "recovery": []string{hash}},
	}
	for _, flag := range []string{"--server-side=false", "--server-side"} {
		if out, err := superuser(t, encode(t, factor), "apply", flag, "--force-conflicts="+fmt.Sprint(flag == "--server-side"), "-f", "-"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	t.Cleanup(func() { _, _ = superuser(t, "", "delete", "factors.session.kapis.dev", name) })
	if text := stored(t, "/apis/"+factors+"/"+name); !strings.Contains(text, `"v:\"`+hash) {
		t.Fatalf("managedFields name no value: %s", text)
	}
	routes[factors] = []string{"/kapis/" + factors, kapis + "/factors", "/apis/" + factors}

	look := func(path string, headers ...string) {
		t.Helper()
		ask := func() (reply, error) { return a.do(t.Context(), http.MethodGet, path, nil, headers...) }
		if strings.Contains(path, "?watch=") {
			ask = func() (reply, error) { return a.watched(t.Context(), path, name) }
		}
		r, err := ask()
		if err != nil || r.code != http.StatusOK || !strings.Contains(r.body, name) {
			t.Errorf("%s %q: %d %s %v", path, headers, r.code, clip(r.body), err)
		}
		for _, s := range secrets {
			if strings.Contains(r.body, s) || strings.Contains(fmt.Sprint(r.header), s) {
				t.Errorf("%s %q has %s: %s", path, headers, s, r.body)
			}
		}
	}
	var watches sync.WaitGroup // beside the rest: each takes a second to end
	t.Cleanup(watches.Wait)
	for kind, all := range routes {
		for _, route := range all {
			eventually(t, route, a.has(route, `"name":"`+name+`"`))
			look(route)
			if strings.HasPrefix(route, "/kapis/tenant") {
				look(route + "?limit=5&managedFields=true&name=" + name)
				continue
			}
			look(route + "/" + name)
			watch := route + "?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3D" + name
			if strings.HasPrefix(route, "/apis/") {
				watch += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
				for _, accept := range acceptsOfKube {
					look(route, "Accept: "+accept)
					look(route+"/"+name, "Accept: "+strings.Replace(accept, "MetadataList", "Metadata", 1))
				}
				look(route+"?includeObject=Object", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io")
				watches.Go(func() { look(watch) })
				continue
			}
			if !strings.HasPrefix(route, "/kapis/application.kubesphere.io/") { // lists of the application store are pages
				watches.Go(func() { look(watch) })
			}
			for _, query := range []string{
				"managedFields=true&limit=5&name=" + name, "managedFields=true&limit=5&fields=.metadata,.spec&name=" + name,
				"managedFields=true&limit=5&facets=.spec.url&sortBy=.metadata.managedFields&name=" + name, "fields=.metadata,.spec,.refresh&name=" + name,
				"q=" + name, "facets=" + hiddenFacets(kind) + "&limit=5&name=" + name, "sortBy=" + hiddenFacets(kind) + "&limit=5&name=" + name,
			} {
				look(route + "?" + query)
			}
			for _, query := range []string{
				"annotation=kubectl.kubernetes.io/last-applied-configuration", "labelSelector=x%3D" + secret,
				"cel=" + url.QueryEscape(`has(object.metadata.managedFields) || has(object.metadata.annotations) && "kubectl.kubernetes.io/last-applied-configuration" in object.metadata.annotations`),
			} {
				if r, err := a.do(t.Context(), http.MethodGet, route+"?"+query, nil); err != nil || r.code == http.StatusOK &&
					strings.Contains(r.body, `"name":"`+name+`"`) {
					t.Errorf("%s?%s tells of what is hidden: %d %s %v", route, query, r.code, clip(r.body), err)
				}
			}
			lines, _ := a.lines(t, route+"?view=live&limit=5&name="+name)
			until(t, "the live page", lines, func(l string) bool {
				for _, s := range secrets {
					if strings.Contains(l, s) {
						t.Errorf("the live page of %s has %s", route, s)
					}
				}
				return strings.Contains(l, name)
			})
		}
	}
	watches.Wait()
	dataOfSecretsIsNotInTheClustersList(t)
}

// acceptsOfKube are the media types that kube-apiserver knows.
var acceptsOfKube = []string{
	"application/yaml", "application/vnd.kubernetes.protobuf", "application/cbor", "application/json;as=Table;v=v1;g=meta.k8s.io",
	"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
	"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "*/*",
}

// hiddenFacets are the paths of the hidden fields of a kind, as parameters name them.
func hiddenFacets(root string) string {
	part := strings.Split(root, "/")
	var out []string
	for _, path := range redaction.Hidden(schema.GroupResource{Group: part[0], Resource: part[2]}) {
		out = append(out, "."+strings.Join(path, "."))
	}
	return strings.Join(out, ",")
}

// dataOfSecretsIsNotInTheClustersList: kubectl apply remembers the data of a Secret, also what it was given as text.
func dataOfSecretsIsNotInTheClustersList(t *testing.T) {
	t.Helper()
	a, ns, secret := admin(t), newNamespace(t), unique("Canary")
	kubectlOutput(
		t,
		encode(t, obj{"apiVersion": "v1", "kind": "Secret", "metadata": obj{"name": ns}, "data": obj{"a": encoded(secret)}, "stringData": obj{"b": secret}}),
		"apply",
		"-n",
		ns,
		"-f",
		"-",
	)
	for _, route := range []string{"/kapi/v1/secrets", kapis + "/secrets"} {
		eventually(t, route, a.has(route+"?name="+ns, ns))
		r := a.must(t, http.StatusOK, http.MethodGet, route+"?managedFields=true&limit=5&name="+ns, nil)
		if !strings.Contains(r.body, "managedFields") || strings.Contains(r.body, secret) || strings.Contains(r.body, encoded(secret)) {
			t.Errorf("%s: %s", route, r.body)
		}
	}
}
