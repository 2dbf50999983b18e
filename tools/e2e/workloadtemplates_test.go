package e2e

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	templatesAPI  = "/kapis/workloadtemplate.kubesphere.io/v1alpha1"
	templateLabel = "workloadtemplate.kubesphere.io"
	templateType  = "workloadtemplate.kubesphere.io/workloadtemplate"
)

func templateSecret(name, typ string, labels obj, value string) obj {
	return obj{"apiVersion": "v1", "kind": "Secret", "metadata": obj{"name": name, "labels": labels}, "type": typ, "stringData": obj{"k": value}}
}

// X38: the right to workload templates in a namespace makes, shows, changes and deletes templates there, and opens no other Secret, whatever that says of
// itself; and at kube-apiserver it is none.
func TestWorkloadTemplatesOpenNoOtherSecret(t *testing.T) {
	a, ns, other := admin(t), newNamespace(t), newNamespace(t)
	name := unique("templater")
	u, nobody := newUser(t, name), newUser(t, unique("nobody"))
	path, secretsOf := templatesAPI+"/namespaces/"+ns+"/workloadtemplates", "/api/v1/namespaces/"+ns+"/secrets"
	marked, canary := obj{templateLabel: "true"}, "canary-"+name
	a.create(t, secretsOf, templateSecret("labelled", "Opaque", marked, canary))
	a.create(t, secretsOf, templateSecret("unlabelled", templateType, obj{}, canary))
	a.create(t, secretsOf, templateSecret("denied", templateType, obj{templateLabel: "false"}, canary))
	a.create(t, "/api/v1/namespaces/"+other+"/secrets", templateSecret("elsewhere", templateType, marked, canary))

	role(t, ns, "templater", rule{[]string{templateLabel}, []string{"workloadtemplates"}, []string{"*"}})
	bind(t, ns, "templater", obj{"kind": "User", "name": name})
	eventually(t, "the right counts", u.is(http.StatusOK, http.MethodGet, path))
	made := u.must(t, http.StatusOK, http.MethodPost, path, obj{"metadata": obj{"name": "web"}, "stringData": obj{"k": "one"}}).body
	one := base64.StdEncoding.EncodeToString([]byte("one"))
	if !strings.Contains(made, templateType) || !strings.Contains(made, `"`+templateLabel+`":"true"`) || !strings.Contains(made, one) || strings.Contains(made, "managedFields") {
		t.Errorf("the new template is %s", made)
	}
	u.must(t, http.StatusConflict, http.MethodPost, path, obj{"metadata": obj{"name": "web"}})
	u.must(t, http.StatusConflict, http.MethodPost, path, obj{"metadata": obj{"name": "labelled"}})
	eventually(t, "it is shown with its data", u.has(path+"/web", one))

	step(t, "nothing else is shown", func(t *testing.T) {
		for _, list := range []string{
			path, path + "?labelSelector=!" + templateLabel, path + "?names=labelled,unlabelled,denied,web", path + "?type=Opaque", path + "?cel=true",
			path + "?facets=.data.k,.metadata.name", path + "?sortBy=.data.k", path + "?q=" + canary, path + "?view=live&limit=10&timeoutSeconds=1",
			path + "?watch=true&timeoutSeconds=1", templatesAPI + "/workloadtemplates", templatesAPI + "/workloadtemplates?facets=.data.k,.type",
		} {
			body := u.must(t, http.StatusOK, http.MethodGet, list, nil).body
			for _, hidden := range []string{"labelled", "denied", "elsewhere", base64.StdEncoding.EncodeToString([]byte(canary)), canary} {
				if strings.Contains(body, hidden) {
					t.Errorf("%s shows %s: %s", list, hidden, clip(body))
				}
			}
		}
		if l := u.list(t, templatesAPI+"/workloadtemplates"); len(l.Items) != 1 || l.Items[0].Metadata.Name != "web" {
			t.Errorf("of all templates %v are shown", l.names())
		}
		for _, n := range []string{"labelled", "unlabelled", "denied", "none"} {
			u.must(t, http.StatusNotFound, http.MethodGet, path+"/"+n, nil)
			u.must(t, http.StatusNotFound, http.MethodPut, path+"/"+n, obj{"stringData": obj{"k": "taken"}})
			u.must(t, http.StatusNotFound, http.MethodDelete, path+"/"+n, nil)
		}
		u.must(t, http.StatusForbidden, http.MethodGet, path+"?managedFields=true&limit=10", nil)
		u.must(t, http.StatusForbidden, http.MethodGet, templatesAPI+"/namespaces/"+other+"/workloadtemplates", nil)
		u.must(t, http.StatusForbidden, http.MethodGet, templatesAPI+"/namespaces/"+other+"/workloadtemplates/elsewhere", nil)
		for _, at := range []string{path, path + "/web", templatesAPI + "/workloadtemplates"} {
			nobody.must(t, http.StatusForbidden, http.MethodGet, at, nil)
		}
	})

	step(t, "the right is none to Secrets", func(t *testing.T) {
		for _, at := range []string{secretsOf, secretsOf + "/web", "/kapi/v1/namespaces/" + ns + "/secrets", kapis + "/namespaces/" + ns + "/secrets"} {
			u.must(t, http.StatusForbidden, http.MethodGet, at, nil)
		}
		u.must(t, http.StatusForbidden, http.MethodPost, secretsOf, templateSecret("x", templateType, marked, "x"))
		u.must(t, http.StatusBadRequest, http.MethodPost, path, templateSecret("x", "kubernetes.io/service-account-token", marked, "x"))
		u.must(t, http.StatusBadRequest, http.MethodPost, path, templateSecret("x", templateType, obj{"config.kubesphere.io/type": "oauthclient"}, "x"))
	})

	step(t, "kube-apiserver lets what writes templates write no other Secret", func(t *testing.T) {
		config, err := product.RESTConfig()
		if err != nil {
			t.Fatal(err)
		}
		config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"kapis:platform:workloadtemplates"}}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		writes := client.CoreV1().Secrets(ns)
		secret := func(n string, typ corev1.SecretType, labels map[string]string) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: labels}, Type: typ}
		}
		create := metav1.CreateOptions{}
		yes := map[string]string{templateLabel: "true"}
		and := func(key, value string) map[string]string { return map[string]string{templateLabel: "true", key: value} }
		for what, err := range map[string]error{
			"another type":                 errorOf(writes.Create(t.Context(), secret("x", "Opaque", yes), create)),
			"no label":                     errorOf(writes.Create(t.Context(), secret("x", templateType, nil), create)),
			"an OAuth client":              errorOf(writes.Create(t.Context(), secret("x", templateType, and("config.kubesphere.io/type", "oauthclient")), create)),
			"a release of Helm":            errorOf(writes.Create(t.Context(), secret("x", templateType, and("owner", "helm")), create)),
			"the platform's namespace":     errorOf(client.CoreV1().Secrets("kubesphere-system").Create(t.Context(), secret("x", templateType, yes), create)),
			"an update of another one":     errorOf(writes.Update(t.Context(), secret("unlabelled", templateType, yes), metav1.UpdateOptions{})),
			"an update that takes a label": errorOf(writes.Update(t.Context(), secret("web", templateType, nil), metav1.UpdateOptions{})),
			"a deletion of another one":    writes.Delete(t.Context(), "labelled", metav1.DeleteOptions{}),
			"a read":                       errorOf(writes.Get(t.Context(), "web", metav1.GetOptions{})),
		} {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})

	step(t, "it is changed and deleted", func(t *testing.T) {
		got := u.must(t, http.StatusOK, http.MethodPut, path+"/web", obj{"metadata": obj{"name": "web", "labels": obj{"tier": "front"}}, "stringData": obj{"j": "two"}}).body
		if strings.Contains(got, one) || !strings.Contains(got, base64.StdEncoding.EncodeToString([]byte("two"))) || !strings.Contains(got, `"tier":"front"`) {
			t.Errorf("it became %s", got)
		}
		u.must(t, http.StatusConflict, http.MethodPut, path+"/web", obj{"metadata": obj{"resourceVersion": "1"}})
		eventually(t, "a list finds it by its label", u.has(path+"?labelSelector=tier%3Dfront", `"totalItems":1`))
		u.must(t, http.StatusOK, http.MethodDelete, path+"/web?dryRun=All", nil)
		u.must(t, http.StatusOK, http.MethodDelete, path+"/web", nil)
		u.must(t, http.StatusNotFound, http.MethodDelete, path+"/web", nil)
		eventually(t, "it is gone", u.is(http.StatusNotFound, http.MethodGet, path+"/web"))
	})
}

func errorOf(_ *corev1.Secret, err error) error { return err }
