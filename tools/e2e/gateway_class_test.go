package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gatewayAPI applies the definitions of the Gateway API, as its module of the version in testdata/gatewayapi/go.mod has them.
func gatewayAPI(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "sigs.k8s.io/gateway-api")
	cmd.Dir, cmd.Env = filepath.Join("testdata", "gatewayapi"), append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var module struct{ Dir string }
	if err := errors.Join(err, json.Unmarshal(out, &module)); err != nil || module.Dir == "" {
		t.Fatalf("find the module of the Gateway API: %v: %s%s", err, out, stderr.String())
	}
	for _, plural := range []string{"gatewayclasses", "gateways", "httproutes"} {
		file := filepath.Join(module.Dir, "config", "crd", "standard", "gateway.networking.k8s.io_"+plural+".yaml")
		mustKubectlAt(t, "", "apply", "--server-side", "-f", file)
		t.Cleanup(func() { _, _ = kubectlAt(context.Background(), "", "delete", "--ignore-not-found", "-f", file) })
		eventually(t, plural+" are served", func(ctx context.Context) error {
			_, err := kubectlAt(ctx, "", "get", plural+".gateway.networking.k8s.io", "-A")
			return err
		})
	}
}

// A project has a gateway of a GatewayClass: the Gateway is one that the definitions of the Gateway API accept, its listeners take routes of the
// project alone, and what a controller of the class says in its status is what clients of KubeSphere see. The test is that controller.
func TestAProjectHasAGatewayOfAClass(t *testing.T) { // O22, O23
	gatewayAPI(t)
	const class = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: e2e}\nspec: {controllerName: kapis.dev/e2e}\n"
	mustKubectlAt(t, class, "apply", "-f", "-")
	url := gatewaysBy(t, "class", "className: e2e")
	a, b, user := newNamespace(t), newNamespace(t), unique("owner")
	ann := newUser(t, user)
	ann.base = url
	for _, ns := range []string{a, b} {
		role(t, ns, user, rule{[]string{"gateway.kubesphere.io"}, []string{"gateways"}, []string{"*"}})
		bind(t, ns, user, obj{"kind": "User", "name": user})
	}
	name, route := "kubesphere-router-"+a, "/kapis/gateway.kubesphere.io/v1alpha1/namespaces/"+a+"/gateways"
	eventually(t, "the right counts at kube-apiserver", ann.is(http.StatusOK, http.MethodGet, "/apis"+strings.TrimPrefix(route, "/kapis")))
	ann.must(t, http.StatusOK, http.MethodPost, route, obj{"spec": obj{"service": obj{"type": "LoadBalancer"}}})
	eventually(t, "no controller has said that it works", ann.has(route, `"reason":"NotProgrammed"`, `"type":"Ready","status":"False"`))
	get := func(field string) string {
		return mustKubectlAt(t, "", "-n", a, "get", "gateways.gateway.networking.k8s.io", name, "-o", "jsonpath={"+field+"}")
	}
	if got := get(".spec.gatewayClassName") + " " + get(".spec.listeners[*].allowedRoutes.namespaces.from"); got != "e2e Same Same" {
		t.Errorf("the Gateway has %s", got)
	}
	listener := func(name string) string {
		return `{"name":"` + name + `","attachedRoutes":0,"supportedKinds":[],"conditions":[]}`
	}
	says := func(generation string) {
		mustKubectlAt(t, "", "-n", a, "patch", "gateways.gateway.networking.k8s.io", name, "--subresource=status", "--type=merge", "-p",
			`{"status":{"addresses":[{"type":"IPAddress","value":"192.0.2.7"}],"listeners":[`+listener("http")+`,`+listener("https")+`],"conditions":[`+
				`{"type":"Programmed","status":"True","reason":"Programmed","message":"","observedGeneration":`+generation+
				`,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	}
	says(get(".metadata.generation"))
	eventually(t, "clients see its address", ann.has(route, `"loadBalancer":{"ingress":[{"ip":"192.0.2.7"`, `"type":"Ready","status":"True"`))
	eventually(t, "clients of KubeSphere 3.0 too", ann.has(older+"/namespaces/"+a+"/router", `"ip":"192.0.2.7"`))

	mustKubectlAt(t, "", "-n", a, "patch", "gateways.gateway.networking.k8s.io", name, "--type=json", "-p",
		`[{"op":"replace","path":"/spec/listeners/0/allowedRoutes/namespaces/from","value":"All"}]`)
	eventually(t, "what opens it to other projects is taken back", func(context.Context) error {
		if from := get(".spec.listeners[*].allowedRoutes.namespaces.from"); from != "Same Same" {
			return errors.New(from)
		}
		return nil
	})
	ann.must(t, http.StatusOK, http.MethodDelete, route, nil)
	eventually(t, "nothing of it is left", func(ctx context.Context) error {
		out, err := kubectlAt(ctx, "", "-n", a, "get", "gateways.gateway.networking.k8s.io", "-o", "name")
		if err == nil && out != "" {
			err = errors.New(out)
		}
		return err
	})

	taken := "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: kubesphere-router-" + b + ", namespace: " + b + "}\n" +
		"spec: {gatewayClassName: e2e, listeners: [{name: theirs, port: 8080, protocol: HTTP}]}\n"
	mustKubectlAt(t, taken, "create", "-f", "-")
	theirs := strings.ReplaceAll(route, a, b)
	ann.must(t, http.StatusOK, http.MethodPost, theirs, obj{"spec": obj{}})
	eventually(t, "a Gateway that is there is not taken", ann.has(theirs, `"reason":"Taken"`))
	if got := mustKubectlAt(t, "", "-n", b, "get", "gateways.gateway.networking.k8s.io", "-o", "jsonpath={.items[*].spec.listeners[*].name}"); got != "theirs" {
		t.Errorf("its listeners are %s", got)
	}
}
