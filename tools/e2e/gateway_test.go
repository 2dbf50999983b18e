package e2e

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gatewayTemplates are those of an ingress controller, which simulated nodes run.
const gatewayTemplates = `
apiVersion: apps/v1
kind: Deployment
spec: {template: {spec: {containers: [{name: nginx-ingress-controller, image: example/controller, args: [--watch-namespace=default]}]}}}
---
apiVersion: v1
kind: Service
spec: {ports: [{name: http, port: 80, targetPort: 80}]}
`

// withGateways starts a server and a controller that make gateways by templates.
func withGateways(t *testing.T) (url string) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "all.yaml"), []byte(gatewayTemplates), 0o600); err != nil {
		t.Fatal(err)
	}
	return gatewaysBy(t, "templates", "templates: "+folder)
}

// gatewaysBy starts a server and a controller that make gateways by a backend, with the rights that its overlay adds.
func gatewaysBy(t *testing.T, backend, option string) (url string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "kubesphere.yaml")
	text, err := os.ReadFile(filepath.Join(product.Dir, "kubesphere.yaml"))
	if err := errors.Join(err, os.WriteFile(config, append(text, "gateway:\n  "+option+"\n"...), 0o600)); err != nil {
		t.Fatal(err)
	}
	rbac := filepath.Join("..", "..", "config", "gateway", backend, "rbac.yaml")
	mustKubectlAt(t, "", "apply", "-f", rbac)
	t.Cleanup(func() { _, _ = kubectlAt(context.Background(), "", "delete", "--ignore-not-found", "-f", rbac) })
	replica, err := product.LoggedReplica(t.Context(), os.Stderr, "--config", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Stop() })
	manager, err := product.Manager("--config", config, "--controllers", "gateway")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = manager.Stop() })
	return replica.URL
}

// A user with the right to Gateways in a project has a gateway there, which sees that project alone; nothing else is made by that right.
func TestAProjectHasAGatewayOfItsOwn(t *testing.T) { // O22, O23
	url := withGateways(t)
	a, b, user := newNamespace(t), newNamespace(t), unique("owner")
	ann := newUser(t, user)
	ann.base = url
	gateways := rule{[]string{"gateway.kubesphere.io"}, []string{"gateways", "availableingressclassscopes"}, []string{"*"}}
	role(t, a, user, gateways)
	bind(t, a, user, obj{"kind": "User", "name": user})
	router := func(ns string) string { return older + "/namespaces/" + ns + "/router" }
	eventually(t, "the right counts", ann.is(http.StatusNotFound, http.MethodGet, router(a)))
	name, native := "kubesphere-router-"+a, "/apis/gateway.kubesphere.io/v1alpha1/namespaces/"+a+"/gateways"
	own := strings.Replace(native, "/apis/", "/kapis/", 1)
	eventually(t, "the right counts at kube-apiserver", ann.is(http.StatusOK, http.MethodGet, native))

	ann.must(t, http.StatusForbidden, http.MethodPost, router(b), obj{"type": "NodePort"})
	ann.must(t, http.StatusBadRequest, http.MethodPost, own, obj{"spec": obj{"controller": obj{"config": obj{"Http-Snippet": "x"}}}})
	if made := ann.must(t, http.StatusOK, http.MethodPost, router(a), obj{"type": "NodePort"}); !strings.Contains(made.body, `"name":"`+name+`"`) {
		t.Errorf("the router is %s", made.body)
	}
	ann.must(t, http.StatusConflict, http.MethodPost, router(a), obj{"type": "NodePort"})
	eventually(t, "the gateway is ready", ann.has(own, `"type":"Ready","status":"True"`, `"nodePort":`))
	args := mustKubectlAt(t, "", "-n", a, "get", "deployment", name, "-o", "jsonpath={.spec.template.spec.containers[0].args}")
	if strings.Contains(args, "default") || !strings.Contains(args, "--watch-namespace="+a) {
		t.Errorf("the controller has the arguments %s", args)
	}

	account := []string{"--as", "system:serviceaccount:" + a + ":" + name, "get", "secrets,services,ingresses"}
	mustKubectlAt(t, "", append(account, "-n", a)...)
	for _, where := range [][]string{{"-n", b}, {"-A"}} {
		if out, err := kubectlAt(t.Context(), "", append(account, where...)...); err == nil || !strings.Contains(err.Error(), "orbidden") {
			t.Errorf("the gateway reads %v: %s %v", where, out, err)
		}
	}
	controller := []string{"--as", "system:serviceaccount:kubesphere-system:ks-controller-manager", "-n", b, "create"}
	for _, what := range [][]string{{"deployment", "evil", "--image=x"}, {"deployment", "kubesphere-router-" + b, "--image=x"}, {"serviceaccount", "evil"},
		{"service", "nodeport", "evil", "--tcp=80"}, {"configmap", "evil"}} {
		out, err := kubectlAt(t.Context(), "", append(controller, what...)...)
		if err == nil || !strings.Contains(err.Error(), "gateways.ks-controller-manager.kapis.dev") {
			t.Errorf("%v: %s %v", what, out, err)
		}
	}

	scope := "apiVersion: gateway.kubesphere.io/v1alpha2\nkind: IngressClassScope\nmetadata: {name: " + a +
		", annotations: {gateway.kubesphere.io/service-name: " + a + "/" + name + "}}\nspec: {ingressClass: {name: " + name + "}, scope: {namespaces: [" + a + "]}}\n"
	mustKubectlAt(t, scope, "apply", "-f", "-")
	t.Cleanup(func() { _, _ = kubectlAt(context.Background(), scope, "delete", "--ignore-not-found", "-f", "-") })
	scopes := "/kapis/gateway.kubesphere.io/v1alpha2/namespaces/" + a + "/availableingressclassscopes"
	eventually(t, "the project may use the class", ann.has(scopes, `"nodePort":`))

	ann.must(t, http.StatusOK, http.MethodDelete, router(a), nil)
	eventually(t, "nothing of it is left", func(ctx context.Context) error {
		out, err := kubectlAt(ctx, "", "-n", a, "get", "deployments,services,serviceaccounts,roles,rolebindings,configmaps,ingressclasses", "-o", "name")
		if err == nil && strings.Contains(out, name) {
			err = errors.New(out)
		}
		return err
	})
}
