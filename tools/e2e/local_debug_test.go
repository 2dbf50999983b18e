package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/tools/loopback"
)

// debuggedServices are those of an installation in aggregated mode, with pods that a simulated node runs.
const debuggedServices = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: ks-apiserver}
spec:
  replicas: 2
  selector: {matchLabels: {app: ks-apiserver, tier: backend}}
  template:
    metadata: {labels: {app: ks-apiserver, tier: backend}}
    spec: {containers: [{name: ks-apiserver, image: none, ports: [{name: http, containerPort: 9090}, {name: https, containerPort: 9443}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: ks-apiserver}
spec: {selector: {app: ks-apiserver, tier: backend}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: ks-apiserver-aggregated}
spec: {selector: {app: ks-apiserver, tier: backend}, ports: [{name: https, port: 9443, targetPort: https}]}
`

// O42. What comes to both Services is sent to this machine, on the port of each, and to the pods again; nothing is changed where it can't work.
func TestTrafficIsExchangedWithThisMachine(t *testing.T) {
	address, ns := loopback.Alias(t), newNamespace(t)
	mustKubectlAt(t, debuggedServices, "-n", ns, "apply", "-f", "-")
	script := func(ctx context.Context, args ...string) (string, error) {
		return shell(ctx, `hack/local-debug.sh "$@"`, append(args, "--namespace", ns)...)
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := script(t.Context(), args...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	// endpoints returns the addresses and ports behind a Service.
	endpoints := func(ctx context.Context, service string) (string, error) {
		return kubectlAt(ctx, "", "-n", ns, "get", "endpointslices", "-l", "kubernetes.io/service-name="+service, "-o",
			`go-template={{range .items}}{{$ports := .ports}}{{range .endpoints}}{{if .conditions.ready}}{{index .addresses 0}}{{range $ports}} {{.name}}:{{.port}}{{end}};{{end}}{{end}}{{end}}`)
	}
	pods := func(ctx context.Context) error {
		for service, port := range map[string]string{"ks-apiserver": "http:9090;", "ks-apiserver-aggregated": "https:9443;"} {
			got, err := endpoints(ctx, service)
			if err == nil && (strings.Count(got, port) != 2 || strings.Contains(got, address)) {
				err = fmt.Errorf("Service %s leads to %q", service, got)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	eventually(t, "the pods are endpoints", pods)
	before := selectors(t, ns)

	here := map[string]string{}
	for _, name := range []string{"http", "https"} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, "0")) //nolint:noctx // it does not wait
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		_, here[name], _ = net.SplitHostPort(l.Addr().String())
	}
	for want, args := range map[string][]string{
		"nothing listens on":            {"exchange", "--address", address, "--port", reservedPort(t), "--tls-port", here["https"]},
		"nothing listens on " + address: {"exchange", "--address", address, "--port", here["http"], "--tls-port", reservedPort(t)},
		"do not reach this machine":     {"exchange", "--address", "127.0.0.1", "--port", here["http"], "--tls-port", here["https"]},
		"is not a port":                 {"exchange", "--address", address, "--port", "99999"},
		"unknown argument":              {"exchange", "--addr", address},
	} {
		if out, err := script(t.Context(), args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v, %s; want %q", args, err, out, want)
		}
	}
	if out := must("recover"); !strings.Contains(out, "nothing in "+ns+" is exchanged") {
		t.Errorf("recover, before anything is exchanged: %s", out)
	}
	if now := selectors(t, ns); now != before {
		t.Errorf("refused commands made the Services %s, want %s", now, before)
	}

	exchange := []string{"exchange", "--address", address, "--port", here["http"], "--tls-port", here["https"]}
	must(exchange...)
	eventually(t, "this machine is the only endpoint", func(ctx context.Context) error {
		for service, name := range map[string]string{"ks-apiserver": "http", "ks-apiserver-aggregated": "https"} {
			got, err := endpoints(ctx, service)
			if want := fmt.Sprintf("%s %s:%s;", address, name, here[name]); err == nil && got != want {
				err = fmt.Errorf("Service %s leads to %q, want %q", service, got, want)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if out, err := script(t.Context(), exchange...); err == nil || !strings.Contains(out, "is exchanged already") {
		t.Errorf("a second exchange: %v, %s", err, out)
	}
	refused := `kubectl() { [[ " $* " != *" patch "* ]] && command kubectl "$@"; }; export -f kubectl; hack/local-debug.sh recover --namespace "$1"`
	if out, err := shell(t.Context(), refused, ns); err == nil || !strings.Contains(out, "can't be written: try again") {
		t.Errorf("recover, where the selector can't be written: %v, %s", err, out)
	}
	must("recover")
	if now := selectors(t, ns); now != before {
		t.Errorf("recover made the Services %s, want %s", now, before)
	}
	eventually(t, "the pods are the endpoints again", pods)
}

// selectors returns what an exchange changes in the Services of a namespace.
func selectors(t *testing.T, ns string) string {
	t.Helper()
	return mustKubectlAt(t, "", "-n", ns, "get", "services", "-o", `jsonpath={range .items[*]}{.metadata.name} {.spec.selector} {.metadata.annotations}{"\n"}{end}`)
}
