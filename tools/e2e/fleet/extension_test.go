package fleet

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/tools/pace"
	"kapis.dev/ks-apiserver/tools/stack"
)

const platform = "/apis/kubesphere.io/v1alpha1"

// pushAgents makes a version of an extension that has a part for the hub and one for members. Name is the extension's.
func pushAgents(t *testing.T, name, version string) {
	t.Helper()
	a := admin(t)
	subchart := func(of, data string) map[string]string {
		return map[string]string{"charts/" + of + "/Chart.yaml": "{apiVersion: v2, name: " + of + ", version: 1.0.0}",
			"charts/" + of + "/templates/it.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + of + "}\ndata: " + data + "\n"}
	}
	files := map[string]string{
		"Chart.yaml": fmt.Sprintf("{apiVersion: v2, name: %s, version: %s, dependencies: [{name: web, version: 1.0.0, tags: [extension]}, "+
			"{name: probe, version: 1.0.0, tags: [agent], condition: probe.enabled}]}", name, version),
		"extension.yaml":   fmt.Sprintf("{apiVersion: kubesphere.io/v1alpha1, name: %s, version: %s, installationMode: Multicluster}", name, version),
		"permissions.yaml": "kind: Role\nrules: []\n",
		"values.yaml":      "{web: {greeting: hello}, probe: {greeting: hello}}\n",
	}
	for _, more := range []map[string]string{subchart("web", "{version: {{ .Chart.Version | quote }}, greeting: {{ .Values.greeting | quote }}}"),
		subchart("probe", "{cluster: {{ .Values.global.clusterInfo.name | quote }}, role: {{ .Values.global.clusterInfo.role | quote }}, "+
			"greeting: {{ .Values.greeting | quote }}}")} {
		for k, v := range more {
			files[k] = v
		}
	}
	m := "extension-" + name + "-" + version + "-chart"
	a.must(t, http.StatusCreated, http.MethodPost, "/api/v1/namespaces/kubesphere-system/configmaps", obj{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": obj{"name": m}, "binaryData": obj{"chart.tgz": base64.StdEncoding.EncodeToString(charttest.Pack(t, name, files))}})
	a.must(t, http.StatusCreated, http.MethodPost, platform+"/extensions", obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "Extension",
		"metadata": obj{"name": name}})
	a.must(t, http.StatusCreated, http.MethodPost, platform+"/extensionversions", obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "ExtensionVersion",
		"metadata": obj{"name": name + "-" + version, "labels": obj{"kubesphere.io/extension-ref": name}},
		"spec": obj{"version": version, "installationMode": "Multicluster",
			"chartDataRef": obj{"namespace": "kubesphere-system", "name": m, "key": "chart.tgz"}}})
}

func planWithAgents(name, version, config string, clusters []string, overrides obj) obj {
	return obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "InstallPlan", "metadata": obj{"name": name},
		"spec": obj{"extension": obj{"name": name, "version": version}, "enabled": true, "config": config,
			"clusterScheduling": obj{"placement": obj{"clusters": clusters}, "overrides": overrides}}}
}

// agentIs waits until a plan says of a member that its agent is in a state, and has a condition where one is named.
func agentIs(t *testing.T, a user, plan, member, state, condition string) {
	t.Helper()
	err := pace.Until(t.Context(), patience, func(ctx context.Context) error {
		resp, err := a.ask(ctx, http.MethodGet, platform+"/installplans/"+plan, nil)
		if err != nil {
			return err
		}
		var o struct {
			Status struct {
				ClusterSchedulingStatuses map[string]struct {
					State      string
					Conditions []struct{ Type, Status, Reason, Message string }
				}
			}
		}
		if err := json.Unmarshal(resp.Body, &o); err != nil {
			return err
		}
		is, ok := o.Status.ClusterSchedulingStatuses[member]
		if state == "" && !ok {
			return nil
		}
		if !ok || is.State != state || condition != "" && !strings.Contains(fmt.Sprintf("%+v", is.Conditions), condition) {
			return fmt.Errorf("%.2000s", resp.Body)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("the agent of %s in %s is not %q: %v", plan, member, state, err)
	}
}

// has waits until a member has, or has not, a value.
func has(t *testing.T, member, namespace, name, path, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s has %s=%q", member, name, want), func(context.Context) error {
		got, err := at(t, member, "-n", namespace, "get", "configmap", name, "--ignore-not-found", "-o", "jsonpath={"+path+"}")
		if err == nil && got != want {
			err = fmt.Errorf("%q, want %q", got, want)
		}
		return err
	})
}

func patch(t *testing.T, a user, code int, path, body string) {
	t.Helper()
	resp, err := product.Do(t.Context(), stack.Request{Method: http.MethodPatch, Path: path, Token: a.token, Body: []byte(body),
		Header: http.Header{"Content-Type": {"application/merge-patch+json"}}})
	if err != nil || resp.Status != code {
		t.Fatalf("PATCH %s: %d %.400s, %v, want %d", path, resp.Status, resp.Body, err, code)
	}
}

// X18, X20, X27: agents of an extension are installed in the members that the plan names, each with its own values, by the member itself and
// with an approval that counts there; a member that is away holds nobody, and what is to go from it goes when it is back.
func TestAgentsOfExtensionsInMembers(t *testing.T) {
	a, name := admin(t), "fleetshop"
	plan, namespace := platform+"/installplans/"+name, "extension-"+name
	pushAgents(t, name, "1.0.0")
	a.must(t, http.StatusCreated, http.MethodPost, platform+"/installplans", planWithAgents(name, "1.0.0", "probe: {greeting: hello, enabled: true}\n", members,
		obj{dialer: "probe: {greeting: salut}\n"}))
	t.Cleanup(func() { _, _ = a.ask(context.Background(), http.MethodDelete, plan, nil) })
	for _, member := range members {
		agentIs(t, a, name, member, "Installed", "")
		has(t, member, namespace, "probe", ".data.cluster", member)
		has(t, member, namespace, "probe", ".data.role", "member")
		has(t, member, namespace, "web", ".data.greeting", "")
		out, err := at(t, member, "get", "secrets", "-n", namespace, "-o", "name")
		if err != nil || !strings.Contains(out, "sh.helm.release.v1."+name+"-agent.v1") {
			t.Errorf("the release in %s: %s, %v", member, out, err)
		}
		out, err = at(t, member, "get", "installplan", name, "-o", `jsonpath={.metadata.annotations.kapis\.dev/approved-by}`)
		if err != nil || out != "admin" {
			t.Errorf("approved in %s by %q, %v", member, out, err)
		}
	}
	has(t, direct, namespace, "probe", ".data.greeting", "hello")
	has(t, dialer, namespace, "probe", ".data.greeting", "salut")
	a.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+namespace+"/configmaps/web", nil)
	a.must(t, http.StatusNotFound, http.MethodGet, "/api/v1/namespaces/"+namespace+"/configmaps/probe", nil)

	t.Run("AnotherClusterIsApprovedByWhoMay", func(t *testing.T) {
		eve := newUser(t, "placer")
		a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalroles", named("GlobalRole", "placers",
			obj{"rules": []obj{{"verbs": []string{"get", "patch"}, "apiGroups": []string{"kubesphere.io"}, "resources": []string{"installplans"}}}}))
		a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalrolebindings", named("GlobalRoleBinding", "placers",
			obj{"roleRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": "placers"},
				"subjects": []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": eve.name}}}))
		eve.becomes(t, patience, http.StatusOK, http.MethodGet, plan, nil)
		narrowed, both := `{"spec":{"clusterScheduling":{"placement":{"clusters":["`+direct+`"]}}}}`,
			`{"spec":{"clusterScheduling":{"placement":{"clusters":["`+direct+`","`+dialer+`"]}}}}`
		patch(t, a, http.StatusOK, plan, narrowed)
		agentIs(t, a, name, dialer, "", "")
		has(t, dialer, namespace, "probe", ".data.greeting", "")
		eventually(t, "the right to change it counts", func(ctx context.Context) error {
			resp, err := product.Do(ctx, stack.Request{Method: http.MethodPatch, Path: plan, Token: eve.token, Body: []byte(both),
				Header: http.Header{"Content-Type": {"application/merge-patch+json"}}})
			if err == nil && resp.Status != http.StatusOK {
				err = fmt.Errorf("%d %.300s", resp.Status, resp.Body)
			}
			return err
		})
		agentIs(t, a, name, dialer, "Preparing", "")
		patch(t, a, http.StatusOK, plan, `{"metadata":{"annotations":{"kapis.dev/note":"later"}}}`) // which approves nothing
		agentIs(t, a, name, dialer, "Preparing", "")
		has(t, dialer, namespace, "probe", ".data.greeting", "")
		patch(t, a, http.StatusOK, plan, `{"metadata":{"annotations":{"kapis.dev/approve":"yes"}}}`)
		agentIs(t, a, name, dialer, "Installed", "")
		has(t, dialer, namespace, "probe", ".data.greeting", "salut")
	})
	t.Run("TheHubsOwnClusterHasOne", func(t *testing.T) {
		probe := "/api/v1/namespaces/" + namespace + "/configmaps/probe"
		patch(t, a, http.StatusOK, plan, `{"spec":{"clusterScheduling":{"placement":{"clusters":["`+direct+`","`+dialer+`","host"]}}}}`)
		agentIs(t, a, name, "host", "Installed", "")
		if text := a.must(t, http.StatusOK, http.MethodGet, probe, nil); !strings.Contains(text, `"role":"host"`) || !strings.Contains(text, `"cluster":"host"`) {
			t.Errorf("%s", text)
		}
		a.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+namespace+"/configmaps/web", nil)
		patch(t, a, http.StatusOK, plan, `{"spec":{"clusterScheduling":{"placement":{"clusters":["`+direct+`","`+dialer+`"]}}}}`)
		agentIs(t, a, name, "host", "", "")
		a.must(t, http.StatusNotFound, http.MethodGet, probe, nil)
		agentIs(t, a, name, dialer, "Installed", "")
	})
	t.Run("TheHubAloneChangesIt", func(t *testing.T) {
		for _, body := range []string{`{"spec":{"config":"x: 1"}}`, `{"metadata":{"labels":{"kapis.dev/fleet":null}}}`,
			`{"metadata":{"annotations":{"kapis.dev/fleet-approver":"nobody"}}}`} {
			patch(t, a, http.StatusForbidden, "/clusters/"+dialer+plan, body)
		}
		a.must(t, http.StatusForbidden, http.MethodDelete, "/clusters/"+dialer+plan, nil)
		a.must(t, http.StatusForbidden, http.MethodPost, "/clusters/"+dialer+platform+"/installplans", obj{"apiVersion": "kubesphere.io/v1alpha1",
			"kind": "InstallPlan", "metadata": obj{"name": "forged", "labels": obj{"kapis.dev/fleet": "x"}},
			"spec": obj{"extension": obj{"name": "forged", "version": "1.0.0"}}})
		patch(t, a, http.StatusOK, "/clusters/"+dialer+plan, `{"metadata":{"annotations":{"kapis.dev/note":"ours"}}}`)
	})
	t.Run("TheHubWritesChartsAlone", func(t *testing.T) {
		for _, args := range [][]string{{"create", "configmap", "stolen"}, {"delete", "configmap", "kube-root-ca.crt"}, {"get", "configmaps"},
			{"get", "secrets"}} {
			out, err := at(t, dialer, append([]string{"--as=kapis:hub", "-n", "kubesphere-system"}, args...)...)
			if err == nil || !strings.Contains(err.Error(), "orbidden") {
				t.Errorf("%q as the hub: %s, %v", args, out, err)
			}
		}
	})
	t.Run("NobodyWhomTheMemberKnowsHasApproved", func(t *testing.T) {
		const other = "fleetwaits"
		pushAgents(t, other, "1.0.0")
		raw, err := json.Marshal(planWithAgents(other, "1.0.0", "", []string{direct}, obj{}))
		if err != nil {
			t.Fatal(err)
		}
		// Kubernetes' own administrator of the hub is nobody in the member.
		cmd := exec.CommandContext(t.Context(), product.Program("kubectl"), "--kubeconfig", filepath.Join(product.Dir, "kubeconfig"), "create", "-f", "-")
		cmd.Stdin = strings.NewReader(string(raw))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		agentIs(t, a, other, direct, "Preparing", "NotApproved")
		if out, err := at(t, direct, "get", "namespace", "extension-"+other, "--ignore-not-found"); err != nil || out != "" {
			t.Errorf("something was done: %s, %v", out, err)
		}
		if out, err := at(t, direct, "annotate", "installplan", other, "kapis.dev/approve=yes"); err != nil {
			t.Fatal(out, err)
		}
		agentIs(t, a, other, direct, "Installed", "")
		a.must(t, http.StatusOK, http.MethodDelete, platform+"/installplans/"+other, nil)
		a.becomes(t, patience, http.StatusNotFound, http.MethodGet, platform+"/installplans/"+other, nil)
		has(t, direct, "extension-"+other, "probe", ".data.cluster", "")
	})
	t.Run("AMemberThatIsAwayHoldsNobody", func(t *testing.T) {
		process := pid(t, dialer)
		if err := syscall.Kill(process, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		stopped := true
		defer func() {
			if stopped {
				_ = syscall.Kill(process, syscall.SIGCONT)
			}
		}()
		patch(t, a, http.StatusOK, plan, `{"spec":{"config":"probe: {greeting: again}\n"}}`)
		has(t, direct, namespace, "probe", ".data.greeting", "again")
		agentIs(t, a, name, direct, "Installed", "Upgraded")
		has(t, dialer, namespace, "probe", ".data.greeting", "salut")
		a.must(t, http.StatusOK, http.MethodDelete, plan, nil)
		has(t, direct, namespace, "probe", ".data.greeting", "")
		a.becomes(t, patience, http.StatusNotFound, http.MethodGet, plan, nil)
		has(t, dialer, namespace, "probe", ".data.greeting", "salut") // nothing could be told
		if err := syscall.Kill(process, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		stopped = false
		err := pace.Until(t.Context(), patience, func(context.Context) error {
			out, err := at(t, dialer, "get", "installplans,extensionversions", "-o", "name")
			if err == nil && strings.Contains(out, name) {
				err = errors.New(out)
			}
			return err
		})
		if err != nil {
			t.Errorf("it is back, and keeps what is gone: %v", err)
		}
		has(t, dialer, namespace, "probe", ".data.greeting", "")
		eventually(t, "its charts are gone", func(context.Context) error {
			out, err := at(t, dialer, "-n", "kubesphere-system", "get", "configmaps", "-o", "name")
			if err == nil && strings.Contains(out, "fleet-chart-") {
				err = errors.New(out)
			}
			return err
		})
	})
}
