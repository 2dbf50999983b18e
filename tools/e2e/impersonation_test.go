package e2e

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// X21, X33: ks-controller-manager may be a person, to read and write objects, and neither a service account, nor a node, nor anybody in
// system:masters, nor anybody with a UID or an extra.
func TestTheControllerManagerActsForPeopleAlone(t *testing.T) {
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), product.Program("kubectl"),
			append([]string{"--kubeconfig", filepath.Join(product.Dir, "ks-controller-manager.kubeconfig")}, args...)...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		return out.String(), err
	}
	whoami := []string{"auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}"}
	for _, as := range [][]string{{"--as=kapis:installer:shop", "--as-group=kapis:extension:shop"}, {"--as=ann", "--as-group=developers"}, {"--as=ann"}} {
		out, err := run(append(whoami, as...)...)
		if err != nil || !strings.HasPrefix(out, strings.TrimPrefix(as[0], "--as=")+" ") {
			t.Errorf("%q: %s, %v", as, out, err)
		}
		if out, err := run(append([]string{"get", "--raw", "/version"}, as...)...); err != nil {
			t.Errorf("%q: %s, %v", as, out, err)
		}
	}
	for _, as := range [][]string{{"--as=ann", "--as-group=system:masters"}, {"--as=ann", "--as-group=developers", "--as-group=system:masters"},
		{"--as=system:serviceaccount:kube-system:generic-garbage-collector"},
		{"--as=system:serviceaccount:kube-system:default", "--as-group=system:masters"},
		{"--as=system:node:node-0"}, {"--as=system:node:node-0", "--as-group=system:nodes"}, {"--as=ann", "--as-uid=1"},
		{"--as=ann", "--as-user-extra=scope=all"}} {
		// Everybody may read this, so that it is the impersonation that is refused.
		if out, err := run(append([]string{"get", "--raw", "/version"}, as...)...); err == nil || !strings.Contains(out, "orbidden") {
			t.Errorf("%q: %s, %v", as, out, err)
		}
	}
	// The right of who is impersonated counts, and for what no right is given nobody is impersonated.
	if out, err := run("get", "secrets", "-n", "kubesphere-system", "--as=kapis:installer:shop", "--as-group=kapis:extension:shop"); err == nil {
		t.Errorf("an installer between operations reads Secrets: %s", out)
	}
	if out, err := run("get", "--raw", "/metrics", "--as=ann"); err == nil || !strings.Contains(out, "orbidden") {
		t.Errorf("somebody else's /metrics: %s, %v", out, err)
	}
}
