package e2e

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/redaction"
)

// contentWorld is two workspaces and the people around them, and a secret in every place that has secrets.
type contentWorld struct {
	*neighbours
	*sweep
	*canaries
	hidden []kind          // the kinds with fields that nobody is shown
	sold   map[string]sold // by whose it is: a or b
}

func newContentWorld(t *testing.T) *contentWorld {
	t.Helper()
	w := &contentWorld{newNeighbours(t, unique("content")), &sweep{routes: map[string][]string{}, names: map[string]string{}}, newCanaries(), nil, nil}
	w.plantObjects(t)
	w.plantData(t, "a", w.a.namespace)
	w.plantData(t, "b", w.b.namespace)
	w.plantData(t, "system", systemNamespace)
	w.plantConfigurations(t)
	w.plantExtension(t)
	w.sold = map[string]sold{"a": w.plantStore(t, "a", w.a), "b": w.plantStore(t, "b", w.b)}
	w.readRoutes(t)
	w.discover(t)
	w.logIn(t)
	w.harvest(t)
	return w
}

// logIn has everything that a login gives be known, and be used where it is taken.
func (w *contentWorld) logIn(t *testing.T) {
	t.Helper()
	for _, p := range w.everybody {
		if p.token != "" {
			w.known("login.token", p.token[strings.LastIndexByte(p.token, '.')+1:]) // the signature, or all of a key
		}
	}
	first := tokens(t, product.URL, w.a.user, password)
	second := decode[tokenReply](t, refresh(t, product.URL, first.Refresh).body)
	for _, token := range []string{first.Refresh, second.Refresh, second.Access} {
		w.known("login.token", token[strings.LastIndexByte(token, '.')+1:])
	}
	const form = "Content-Type: application/x-www-form-urlencoded"
	device := decode[struct {
		Code string `json:"device_code"`
	}](t, anonymous().must(t, http.StatusOK, http.MethodPost, "/oauth/device_authorization", "client_id=kubectl&scope=openid", form).body)
	w.known("login.code", device.Code)
	poll := "client_id=kubectl&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code=" + url.QueryEscape(device.Code)
	anonymous().must(t, http.StatusBadRequest, http.MethodPost, "/oauth/token", poll, form) // nobody has allowed it yet
	// What people send to their workloads is their own.
	path := "/api/v1/namespaces/" + w.a.namespace + "/services/none/proxy/x?key=" + w.plant("sent.query")
	if r, err := admin(t).do(t.Context(), http.MethodGet, path, nil, "X-Api-Key: "+w.plant("sent.header"),
		"Cookie: key="+w.plant("sent.cookie")); err != nil || r.code == http.StatusForbidden {
		t.Errorf("kube-apiserver was not asked: %d %s %v", r.code, clip(r.body), err)
	}
	w.a.must(t, http.StatusUnauthorized, http.MethodGet, "/oauth/userinfo", nil, "Authorization: Bearer "+second.Access+"x")
}

// plantObjects makes one object of each kind with hidden fields, as kubectl apply does: so all of them stand in an annotation once more.
func (w *contentWorld) plantObjects(t *testing.T) {
	t.Helper()
	a := admin(t)
	digits := func(class string, n int) string { // what the schemas of lockouts and factors take
		h := hex.EncodeToString([]byte(rand.Text() + rand.Text()))[:n]
		w.known(class, h)
		return h
	}
	now := time.Now().UTC().Format(time.RFC3339)
	for _, o := range []struct {
		api, kind, plural string
		spec              obj
	}{
		{"iam.kubesphere.io/v1beta1", "User", "users", obj{"email": w.one + "@example.com", "password": w.plant("hidden.users")}},
		{"cluster.kubesphere.io/v1alpha1", "Cluster", "clusters", obj{"connection": obj{"type": "direct", "kubernetesAPIEndpoint": "https://192.0.2.1:6443",
			"kubeconfig": encoded("token: " + w.plant("hidden.clusters")), "token": w.plant("hidden.clusters")}}},
		{"kubesphere.io/v1alpha1", "Repository", "repositories", obj{"url": "https://charts.example.com", "basicAuth": obj{"username": "x",
			"password": w.plant("hidden.repositories")}}},
		{"application.kubesphere.io/v2", "Repo", "repos", obj{"url": "https://charts.example.com", "credential": obj{"username": w.plant("hidden.repos"),
			"password": w.plant("hidden.repos"), "certFile": w.plant("hidden.repos"), "keyFile": w.plant("hidden.repos"), "caFile": w.plant("hidden.repos")}}},
		{"session.kapis.dev/v1alpha1", "Factor", "factors", obj{"user": w.one, "recovery": []string{digits("hidden.factors", 64)},
			"totp": obj{"secret": w.plant("hidden.factors"), "sealedAt": now, "confirmedAt": now}}},
		{"session.kapis.dev/v1alpha1", "Lockout", "lockouts", obj{"user": w.one, "failures": []obj{{"key": digits("hidden.lockouts", 16), "count": 1,
			"since": now}}, "known": []obj{{"place": digits("hidden.lockouts", 16), "at": now}}}},
	} {
		applied(t, obj{"apiVersion": o.api, "kind": o.kind, "metadata": obj{"name": w.one}, "spec": o.spec})
		path := "/apis/" + o.api + "/" + o.plural + "/" + w.one
		t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, path, nil) })
	}
	eventually(t, "the planted user may log in", func(ctx context.Context) error {
		for _, typed := range []string{w.valueOf("hidden.users"), w.plant("login.wrong")} {
			if r, err := passwordGrant(ctx, product.URL, w.one, typed); err != nil || typed == w.valueOf("hidden.users") && r.code != http.StatusOK {
				return fmt.Errorf("%d %s %w", r.code, clip(r.body), err)
			}
		}
		return nil
	})
}

// valueOf returns the one value of a class.
func (c *canaries) valueOf(class string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for value, of := range c.values {
		if of == class {
			return value
		}
	}
	return ""
}

// plantData puts a Secret of each type and a ConfigMap into a namespace.
func (w *contentWorld) plantData(t *testing.T, whose, namespace string) {
	t.Helper()
	a, secret := admin(t), func() string { return w.plant("secrets." + whose) }
	core := "/api/v1/namespaces/" + namespace
	registry := func() string {
		return `{"registry.example.com":{"username":"x","password":"` + secret() + `","auth":"` + encoded("x:"+secret()) + `"}}`
	}
	for kind, data := range map[string]obj{
		"Opaque": {"key": secret(), "kubeconfig": "client-key-data: " + encoded(secret())}, "kubernetes.io/basic-auth": {"username": "x", "password": secret()},
		"kubernetes.io/ssh-auth": {"ssh-privatekey": secret()}, "kubernetes.io/tls": {"tls.crt": "x", "tls.key": secret()},
		"kubernetes.io/dockercfg": {".dockercfg": registry()}, "kubernetes.io/dockerconfigjson": {".dockerconfigjson": `{"auths":` + registry() + `}`},
		"bootstrap.kubernetes.io/token": {"token-secret": secret()}, "example.com/any": {"token": secret()},
	} {
		name := w.one
		if kind != "Opaque" {
			name = w.one + "-" + strings.ToLower(kind[strings.IndexByte(kind, '/')+1:])
		}
		a.create(t, core+"/secrets", obj{"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": obj{"name": name, "annotations": obj{
			"kubectl.kubernetes.io/last-applied-configuration": `{"stringData":{"key":"` + secret() + `"}}`,
		}}, "stringData": data})
	}
	text := func() string { return w.plant("configmaps." + whose) }
	a.create(t, core+"/configmaps", obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": w.one, "annotations": obj{
		"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"key":"` + text() + `"}}`,
	}}, "data": obj{"key": text()}, "binaryData": obj{"raw": encoded(text())}})
}

// plantConfigurations makes what people configure while the platform runs.
func (w *contentWorld) plantConfigurations(t *testing.T) {
	t.Helper()
	a := admin(t)
	secret := func() string { return w.plant("secrets.system") }
	labelled := func(kind, text string) obj {
		return obj{"apiVersion": "v1", "kind": "Secret", "type": "config.kubesphere.io/" + kind, "metadata": obj{"name": w.one + "-" + kind,
			"labels": obj{"config.kubesphere.io/type": kind}},
			"stringData": obj{"configuration.yaml": text}}
	}
	a.create(t, secretsPath, labelled("oauthclient", "name: "+w.one+"\nsecret: "+secret()+"-0123456789abcdef\ngrantMethod: auto\n"))
	a.create(t, secretsPath, labelled("identityprovider",
		"name: "+w.one+"\ntype: GitHubIdentityProvider\nmappingMethod: auto\nprovider:\n  clientID: x\n  clientSecret: "+secret()+
			"\n  redirectURL: https://localhost/oauth/callback/"+w.one+"\n"))
	a.create(t, secretsPath, labelled("cluster-connection-config", "kubeconfig: "+secret()+"\n"))
	a.must(t, http.StatusOK, http.MethodPost, "/kapis/config.kubesphere.io/v1alpha2/platformconfigs", obj{"kind": "GenericPlatformConfiguration",
		"apiVersion": "config.kubesphere.io/v1alpha2", "metadata": obj{"name": w.one}, "data": obj{"public": w.plant("platformconfigs")}})
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, "/kapis/config.kubesphere.io/v1alpha2/platformconfigs/"+w.one, nil)
	})
}

// harvest reads, at kube-apiserver itself, what the platform made of all this: hashes, sealed values, its own keys.
func (w *contentWorld) harvest(t *testing.T) {
	t.Helper()
	for _, k := range w.kinds {
		paths := redaction.Hidden(k.GroupResource())
		if paths == nil || !k.listed {
			continue
		}
		w.hidden = append(w.hidden, k)
		l, err := w.client.Resource(k.GroupVersionResource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for i := range l.Items {
			o := l.Items[i].Object
			if !strings.Contains(encode(t, o), w.one) { // other tests' may be many
				continue
			}
			if k.Resource == "sessions" || k.Resource == "apikeys" {
				w.names[k.Resource] = l.Items[i].GetName()
			} else {
				w.names[k.Resource] = w.one
			}
			for _, path := range paths {
				v, _, _ := unstructured.NestedFieldNoCopy(o, path...)
				for _, text := range leaves(v) {
					if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
						continue // many things have one time
					}
					w.known("hidden."+k.Resource, text)
					found++
				}
			}
		}
		if found == 0 {
			t.Errorf("no %s has anything hidden: the sweep would find nothing", k.Resource)
		}
	}
	if len(w.hidden) < 8 {
		t.Errorf("%d kinds have hidden fields", len(w.hidden))
	}
	l, err := w.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(systemNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range l.Items { // one Secret of each type of the platform's own
		kind, _, _ := unstructured.NestedString(l.Items[i].Object, "type")
		if strings.Contains(l.Items[i].GetName(), w.one) || seen[kind] || strings.Contains(kind, "platform-config") {
			continue
		}
		seen[kind] = true
		data, _, _ := unstructured.NestedStringMap(l.Items[i].Object, "data")
		for key, text := range data {
			if !strings.HasSuffix(key, ".crt") { // a certificate is no secret
				w.known("secrets.system", text[:min(len(text), 48)])
			}
		}
	}
}

// leaves returns the texts in a value.
func leaves(v any) []string {
	var out []string
	switch v := v.(type) {
	case string:
		out = []string{v}
	case []any:
		for _, x := range v {
			out = append(out, leaves(x)...)
		}
	case map[string]any:
		for _, x := range v {
			out = append(out, leaves(x)...)
		}
	}
	slices.Sort(out)
	return out
}
