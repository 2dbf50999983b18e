package fleet

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

const configMaps = "/api/v1/namespaces/default/configmaps"

func configMap(name string) obj {
	return obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": name}, "data": obj{"key": "value"}}
}

// F2, F15, F18, F46: a request goes to the member that its path names, in each form of the path, whole, as its caller, whoever has dialled the link.
func TestRequestsGoToTheMemberThatTheyName(t *testing.T) {
	a := admin(t)
	for _, member := range members {
		name := "dispatch-" + member
		a.must(t, http.StatusCreated, http.MethodPost, "/clusters/"+member+configMaps, configMap(name))
		if got, err := at(t, member, "-n", "default", "get", "configmap", name, "-o", "jsonpath={.data.key}"); err != nil || got != "value" {
			t.Errorf("%s has %q, %v", member, got, err)
		}
		for _, path := range []string{"/clusters/" + member + configMaps + "/" + name, "/api/clusters/" + member + "/v1/namespaces/default/configmaps/" + name,
			"/clusters/" + member + "/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/configmaps/" + name,
			"/kapis/clusters/" + member + "/resources.kubesphere.io/v1alpha3/namespaces/default/configmaps/" + name} {
			a.becomes(t, patience, http.StatusOK, http.MethodGet, path, nil) // the caches of a member follow its writes
		}
		for _, other := range append([]string{"host"}, members...) {
			if other != member {
				a.must(t, http.StatusNotFound, http.MethodGet, "/clusters/"+other+configMaps+"/"+name, nil)
			}
		}
		a.must(t, http.StatusOK, http.MethodDelete, "/clusters/"+member+configMaps+"/"+name+"?dryRun=All", nil)
		a.must(t, http.StatusOK, http.MethodGet, "/clusters/"+member+configMaps+"/"+name, nil)
		config := a.must(t, http.StatusOK, http.MethodGet, "/clusters/"+member+"/kapis/resources.kubesphere.io/v1alpha2/users/admin/kubeconfig", nil)
		if !strings.Contains(config, "server: "+product.TLSURL+"/clusters/"+member+"\n") || strings.Contains(config, "token: ") {
			t.Errorf("the kubeconfig for %s is %s", member, config)
		}
		who, err := through(t, member, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
		if err != nil || who != "admin" {
			t.Errorf("%s takes the caller for %q, %v", member, who, err)
		}
		if out, err := through(t, member, "get", "nodes", "-o", "name"); err != nil || strings.Count(out, "node/") != 3 {
			t.Errorf("kubectl at %s: %s, %v", member, out, err)
		}
		resp, err := a.ask(t.Context(), http.MethodGet, "/clusters/"+member+"/version", nil)
		if err != nil || resp.Header.Get("X-Kapis-Cluster") != member {
			t.Errorf("the answer is of %q, %v", resp.Header.Get("X-Kapis-Cluster"), err)
		}
	}
}

// events are the lines of a watch.
func events(t *testing.T, u user, path string) (lines <-chan string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, err := streamOf(ctx, product.URL+path, u.token)
	if err != nil {
		t.Fatal(err)
	}
	return out, cancel
}

// streamOf returns the lines of an answer, until ctx ends.
func streamOf(ctx context.Context, address, token string) (<-chan string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		return nil, errors.Join(fmt.Errorf("watch %s: %d %s", address, resp.StatusCode, body), resp.Body.Close())
	}
	out := make(chan string, 1024)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		s := bufio.NewScanner(resp.Body)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			out <- s.Text()
		}
	}()
	return out, nil
}

// until reads lines until one has a text.
func until(t *testing.T, lines <-chan string, text string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case line, open := <-lines:
			if !open {
				t.Fatalf("the stream ended before %q", text)
			}
			if strings.Contains(line, text) {
				return
			}
		case <-deadline:
			t.Fatalf("no %q in %v", text, patience)
		}
	}
}

// F18, F23: a watch comes through as it is, and ends with the right to it.
func TestAWatchOfAMemberEndsWithTheRight(t *testing.T) {
	a := admin(t)
	u := newUser(t, "watcher")
	a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalroles", named("GlobalRole", "watchers",
		obj{"rules": []obj{{"verbs": []string{"get", "list", "watch"}, "apiGroups": []string{""}, "resources": []string{"configmaps"}}}}))
	bind := named("GlobalRoleBinding", "watchers", obj{"roleRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": "watchers"},
		"subjects": []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": u.name}}})
	for _, member := range members {
		a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalrolebindings", bind)
		list := "/clusters/" + member + "/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/configmaps"
		u.becomes(t, patience, http.StatusOK, http.MethodGet, list, nil)
		lines, end := events(t, u, list+"?watch=true")
		name := "watched-" + member
		a.must(t, http.StatusCreated, http.MethodPost, "/clusters/"+member+configMaps, configMap(name))
		until(t, lines, name)
		a.must(t, http.StatusOK, http.MethodDelete, iam+"/globalrolebindings/watchers", nil)
		deadline := time.After(patience)
		for open := true; open; {
			select {
			case _, open = <-lines:
			case <-deadline:
				t.Fatalf("the watch of %s goes on without the right", member)
			}
		}
		end()
	}
	a.must(t, http.StatusOK, http.MethodDelete, iam+"/globalroles/watchers", nil)
}

// F14: to who holds nothing in a cluster it is as if it were not there.
func TestNobodyLearnsOfAClusterThatTheyMayNotEnter(t *testing.T) {
	u := newUser(t, "stranger")
	for _, path := range []string{"/api/v1/pods", "/kapis/resources.kubesphere.io/v1alpha3/pods", "/version", "/api/v1/namespaces/default/pods/x/exec?command=id"} {
		var texts []string
		for _, cluster := range []string{direct, "nowhere"} {
			body := u.must(t, http.StatusForbidden, http.MethodGet, "/clusters/"+cluster+path, nil)
			texts = append(texts, strings.ReplaceAll(body, cluster, "CLUSTER"))
		}
		if texts[0] != texts[1] {
			t.Errorf("%s tells a member from nothing:\n%s\n%s", path, texts[0], texts[1])
		}
	}
	admin(t).must(t, http.StatusBadRequest, http.MethodGet, "/clusters/nowhere/api/v1/pods", nil)
	resp, err := product.Do(t.Context(), stack.Request{Path: "/clusters/" + direct + "/api/v1/pods"})
	if err != nil || resp.Status != http.StatusForbidden {
		t.Errorf("a stranger gets %d, %v", resp.Status, err)
	}
}

// isNotTheHub checks that u, who may enter a member, can ask nothing there that its hub asks (F15).
func (u user) isNotTheHub(t *testing.T, member string) {
	t.Helper()
	const name = "not-the-hub"
	binding := named("GlobalRoleBinding", name, obj{
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": "platform-admin"},
		"subjects": []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": u.name}}})
	for path, body := range map[string]obj{
		"objects": {"hub": "x", "changes": []obj{{"kind": "globalrolebindings", "name": name, "object": binding}}},
		"digest":  {"hub": "x", "gone": []obj{{"kind": "workspaces", "name": "placed", "propagation": "Background"}}},
		"creator": {"hub": "x", "user": u.name},
		"about":   {}, "unchanged": {}, "extensions/state": {}, "releases/state": {},
	} {
		u.must(t, http.StatusNotFound, http.MethodPost, "/clusters/"+member+"/fleet/"+path, body)
	}
	if text, err := at(t, member, "get", "globalrolebindings.iam.kubesphere.io", name); err == nil {
		t.Errorf("a user of the fleet has spoken as its hub: %s", text)
	}
}

// F24, F27, F28: what the fleet keeps in a member is there soon after it is on the hub, and gone soon after, and nothing that users log in with.
func TestAWorkspaceIsWhereItIsPlaced(t *testing.T) {
	a := admin(t)
	u := newUser(t, "tenant")
	a.must(t, http.StatusOK, http.MethodPost, workspace, named("WorkspaceTemplate", "placed", obj{"spec": obj{
		"placement": obj{"clusters": []obj{{"name": dialer}}}, "template": obj{"spec": obj{"manager": u.name}}}}))
	namespaces := "/clusters/" + dialer + workspace + "/placed/namespaces"
	u.becomes(t, patience, http.StatusOK, http.MethodPost, namespaces, obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": "placed-ns"}})
	u.becomes(t, patience, http.StatusOK, http.MethodGet, "/clusters/"+dialer+"/api/v1/namespaces/placed-ns/pods", nil)
	u.must(t, http.StatusForbidden, http.MethodGet, "/clusters/"+direct+"/api/v1/namespaces/default/pods", nil)
	u.isNotTheHub(t, dialer)
	text, err := at(t, dialer, "get", "users.iam.kubesphere.io", u.name, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		Metadata struct{ Labels, Annotations map[string]string }
		Spec     map[string]any
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil || o.Spec["password"] != nil || o.Spec["email"] == nil ||
		o.Metadata.Labels["kapis.dev/fleet"] == "" || o.Metadata.Annotations["kapis.dev/fleet-uid"] == "" {
		t.Errorf("%v, the user in the member is %s", err, text)
	}
	if _, err := at(t, direct, "get", "workspaces.tenant.kubesphere.io", "placed"); err == nil {
		t.Error("the workspace is where it is not placed")
	}
	// It moves: its namespaces stay where they are.
	a.must(t, http.StatusOK, http.MethodPost, kapis+"/"+direct+"/grantrequests", []obj{{"op": "add", "workspace": "placed"}})
	a.must(t, http.StatusOK, http.MethodPost, kapis+"/"+dialer+"/grantrequests", []obj{{"op": "remove", "workspace": "placed"}})
	eventually(t, "the workspace moves", func(context.Context) error {
		if _, err := at(t, direct, "get", "workspaces.tenant.kubesphere.io", "placed"); err != nil {
			return err
		}
		if _, err := at(t, dialer, "get", "workspaces.tenant.kubesphere.io", "placed"); err == nil {
			return fmt.Errorf("it is still where it was")
		}
		return nil
	})
	if _, err := at(t, dialer, "get", "namespace", "placed-ns"); err != nil {
		t.Errorf("the namespace went with the workspace: %v", err)
	}
	u.becomes(t, patience, http.StatusForbidden, http.MethodGet, "/clusters/"+dialer+"/api/v1/namespaces/placed-ns/pods", nil)
	u.becomes(t, patience, http.StatusOK, http.MethodGet, "/clusters/"+direct+workspace+"/placed", nil)
	for body, code := range map[string]int{`[]`: 400, `{}`: 400, `[{"op":"move","workspace":"placed"}]`: 400, `[{"op":"add"}]`: 400,
		`[{"op":"add","workspace":"placed"},{"op":"remove","workspace":"placed"}]`: 400, `[{"op":"add","workspace":"nowhere"}]`: 404} {
		a.must(t, code, http.MethodPost, kapis+"/"+direct+"/grantrequests", json.RawMessage(body))
	}
	u.must(t, http.StatusForbidden, http.MethodPost, kapis+"/"+dialer+"/grantrequests", []obj{{"op": "add", "workspace": "placed"}})
	a.must(t, http.StatusOK, http.MethodDelete, workspace+"/placed", nil)
	eventually(t, "the workspace is gone", func(context.Context) error {
		if _, err := at(t, direct, "get", "workspaces.tenant.kubesphere.io", "placed"); err == nil {
			return fmt.Errorf("it is still there")
		}
		return nil
	})
}

// F26: what the hub keeps in a member is changed by nobody there, whatever their rights, but by who administers Kubernetes.
func TestWhatTheFleetKeepsIsChangedOnTheHub(t *testing.T) {
	a := admin(t)
	role := named("GlobalRole", "kept", obj{"rules": []obj{{"verbs": []string{"get"}, "apiGroups": []string{""}, "resources": []string{"pods"}}}})
	a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalroles", role)
	defer a.must(t, http.StatusOK, http.MethodDelete, iam+"/globalroles/kept", nil)
	for _, member := range members {
		of := "/clusters/" + member + iam + "/globalroles"
		a.becomes(t, patience, http.StatusOK, http.MethodGet, of+"/kept", nil)
		a.must(t, http.StatusForbidden, http.MethodDelete, of+"/kept", nil)
		resp, err := product.Do(t.Context(), stack.Request{Method: http.MethodPatch, Path: of + "/kept", Token: a.token, Body: []byte(`{"rules":[]}`),
			Header: http.Header{"Content-Type": {"application/merge-patch+json"}}})
		if err != nil || resp.Status != http.StatusForbidden || !strings.Contains(string(resp.Body), "hub of the fleet keeps") {
			t.Errorf("%d %s, %v", resp.Status, resp.Body, err)
		}
		own := named("GlobalRole", "pretends", nil)
		own["metadata"].(obj)["labels"] = obj{"kapis.dev/fleet": "x"}
		a.must(t, http.StatusForbidden, http.MethodPost, of, own)
		own = named("GlobalRole", "pretends", nil)
		own["metadata"].(obj)["annotations"] = obj{"kapis.dev/fleet-uid": "x"}
		a.must(t, http.StatusForbidden, http.MethodPost, of, own)
	}
}

// pid returns the process of ks-apiserver of a member.
func pid(t *testing.T, member string) int {
	t.Helper()
	return processWith(t, filepath.Join(product.Dir, "members", member, "ks-apiserver.kubeconfig"))
}

// processWith returns the process whose command line, with a NUL between its words, has all of some texts.
func processWith(t *testing.T, texts ...string) int {
	t.Helper()
	all, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(string(line), text) }) {
			return n
		}
	}
	t.Fatalf("no process has %q", texts)
	return 0
}

// F19, F21, F24, F25: a member that does not answer costs nobody else anything, and nobody their login; what was taken away on the hub
// meanwhile does not wait for it, and counts there before anything is asked again.
func TestAMemberThatDoesNotAnswer(t *testing.T) {
	a := admin(t)
	u := newUser(t, "absent")
	a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalrolebindings", named("GlobalRoleBinding", "absent",
		obj{"roleRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": "platform-admin"},
			"subjects": []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": u.name}}}))
	for _, member := range members {
		u.becomes(t, patience, http.StatusOK, http.MethodGet, "/clusters/"+member+"/api/v1/nodes", nil)
	}
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
	a.becomes(t, patience, http.StatusServiceUnavailable, http.MethodGet, "/clusters/"+dialer+"/api/v1/nodes", nil)
	body := a.must(t, http.StatusServiceUnavailable, http.MethodGet, "/clusters/"+dialer+"/api/v1/nodes", nil)
	if !strings.Contains(body, "ClusterUnreachable") || strings.Contains(body, "Unauthorized") {
		t.Errorf("it answers %s", body)
	}
	a.must(t, http.StatusOK, http.MethodGet, "/clusters/"+direct+"/api/v1/nodes", nil)
	a.must(t, http.StatusOK, http.MethodGet, "/api/v1/nodes", nil)
	a.must(t, http.StatusOK, http.MethodDelete, iam+"/globalrolebindings/absent", nil) // it waits for nobody
	eventually(t, "the condition says so", func(ctx context.Context) error {
		text := a.must(t, http.StatusOK, http.MethodGet, clusters+"/"+dialer, nil)
		if !strings.Contains(text, `"NoLink"`) {
			return fmt.Errorf("%.2000s", text)
		}
		return nil
	})
	stopped = false
	if err := syscall.Kill(process, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// The first answer of the member knows that the right is gone.
	var seen []int
	eventually(t, "the member is back", func(ctx context.Context) error {
		resp, err := u.ask(ctx, http.MethodGet, "/clusters/"+dialer+"/api/v1/nodes", nil)
		if err != nil {
			return err
		}
		seen = append(seen, resp.Status)
		if resp.Status == http.StatusOK {
			t.Fatalf("the right counts again, after %v", seen)
		}
		if resp, err = a.ask(ctx, http.MethodGet, "/clusters/"+dialer+"/api/v1/nodes", nil); err == nil && resp.Status != http.StatusOK {
			err = fmt.Errorf("%d %s", resp.Status, resp.Body)
		}
		return err
	})
	u.must(t, http.StatusForbidden, http.MethodGet, "/clusters/"+direct+"/api/v1/nodes", nil)
}

// F8: a join token lets one cluster in, once, and is shown to who may update the Cluster.
func TestAJoinTokenCountsOnce(t *testing.T) {
	a := admin(t)
	u := newUser(t, "curious")
	for _, path := range []string{kapis + "/" + dialer + "/agent/deployment", "/kapis/tower.kubesphere.io/v1alpha1/deployment?cluster=" + dialer} {
		u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
		body := a.must(t, http.StatusOK, http.MethodGet, path, nil)
		if !strings.Contains(body, "kind: Deployment") || !strings.Contains(body, "join-token: ksj_") {
			t.Errorf("%s is no deployment: %.300s", path, body)
		}
	}
	a.must(t, http.StatusNotFound, http.MethodGet, kapis+"/"+direct+"/agent/deployment", nil)
	a.must(t, http.StatusNotFound, http.MethodGet, kapis+"/nowhere/agent/deployment", nil)
	used, err := os.ReadFile(filepath.Join(product.Dir, "members", dialer, "join-token"))
	if err != nil {
		t.Fatal(err)
	}
	nobody := user{name: "a member"}
	for name, body := range map[string]string{
		"a made-up token":  `{"token":"ksj_YQ.YQ","csr":"x","uid":"u"}`,
		"no proof":         `{"csr":"x","uid":"u"}`,
		"no JSON":          `{`,
		"a long body":      `{"csr":"` + strings.Repeat("a", 64<<10) + `"}`,
		"a strange member": `{"certificate":"-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n","csr":"x","uid":"u"}`,
	} {
		resp, err := product.Do(t.Context(), stack.Request{Method: http.MethodPost, Path: "/fleet/join", Body: []byte(body)})
		if err != nil || resp.Status < 400 || resp.Status >= 500 || resp.Status == http.StatusUnauthorized {
			t.Errorf("%s: %d %s, %v", name, resp.Status, resp.Body, err)
		}
	}
	nobody.must(t, http.StatusForbidden, http.MethodGet, "/fleet/join", nil)
	// Whole but for the token, which has been used: also by the very cluster that it let in.
	var c struct{ Status struct{ UID string } }
	if err := json.Unmarshal([]byte(a.must(t, http.StatusOK, http.MethodGet, clusters+"/"+dialer, nil)), &c); err != nil || c.Status.UID == "" {
		t.Fatalf("the cluster has the UID %q, %v", c.Status.UID, err)
	}
	token := strings.TrimSpace(string(used))
	payload, _, _ := strings.Cut(strings.TrimPrefix(token, "ksj_"), ".")
	said, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(said), " ")
	ends, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("the token says %q: %v", said, err)
	}
	again := obj{"token": token, "csr": certificateRequest(t), "uid": c.Status.UID}
	for _, x := range []struct {
		uid, want string
		code      int
	}{{c.Status.UID, "has been used", http.StatusForbidden}, {"another", "", http.StatusConflict}} {
		again["uid"] = x.uid
		resp, err := nobody.ask(t.Context(), http.MethodPost, "/fleet/join", again)
		if over := time.Now().Unix() >= ends; over && err == nil && strings.Contains(string(resp.Body), "its time is over") {
			t.Log("the token counts no more: it was used a quarter of an hour ago, or earlier")
		} else if err != nil || resp.Status != x.code || !strings.Contains(string(resp.Body), x.want) {
			t.Errorf("a used token, for %s, is answered %d %s, %v", x.uid, resp.Status, resp.Body, err)
		}
	}
	nobody.must(t, http.StatusGone, http.MethodGet, "/fleet/links/no-such-uid", nil)
}

// certificateRequest returns a request for a certificate of a new key, in PEM.
func certificateRequest(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// F29: a page that adds a cluster waits for Initialized, and then shows what is to be applied; until the cluster has joined it takes no request.
func TestAClusterIsShownBeforeItJoins(t *testing.T) {
	a := admin(t)
	a.must(t, http.StatusCreated, http.MethodPost, clusters, obj{"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Cluster",
		"metadata": obj{"name": "waiting"}, "spec": obj{"enable": true, "connection": obj{"type": "proxy"}}})
	eventually(t, "the cluster can join", func(context.Context) error {
		var c struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
		if err := json.Unmarshal([]byte(a.must(t, http.StatusOK, http.MethodGet, clusters+"/waiting", nil)), &c); err != nil {
			return err
		}
		if len(c.Status.Conditions) != 1 || c.Status.Conditions[0].Type != "Initialized" || c.Status.Conditions[0].Status != "True" {
			return fmt.Errorf("its conditions are %v", c.Status.Conditions)
		}
		return nil
	})
	a.must(t, http.StatusOK, http.MethodGet, kapis+"/waiting/agent/deployment", nil)
	a.must(t, http.StatusServiceUnavailable, http.MethodGet, "/clusters/waiting/api/v1/nodes", nil)
	a.must(t, http.StatusOK, http.MethodDelete, clusters+"/waiting", nil)
	a.becomes(t, patience, http.StatusBadRequest, http.MethodGet, "/clusters/waiting/api/v1/nodes", nil)
}

// F11, F31: what can't join is said, with each check that failed, and nothing is written.
func TestAKubeconfigIsCheckedBeforeItCounts(t *testing.T) {
	a := admin(t)
	u := newUser(t, "importer")
	own, err := os.ReadFile(filepath.Join(product.Dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(product.Dir, "members", dialer, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(filepath.Join(product.Dir, "members", direct, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	of := func(name, kind string, kubeconfig []byte) obj {
		return obj{"metadata": obj{"name": name}, "spec": obj{"connection": obj{"type": kind, "kubeconfig": kubeconfig}}}
	}
	before := a.must(t, http.StatusOK, http.MethodGet, clusters, nil)
	for name, x := range map[string]struct {
		body obj
		want string
	}{
		"the hub itself":       {of("third", "direct", own), "this hub itself"},
		"a member":             {of("third", "direct", other), "in the fleet already, as \\\"" + dialer},
		"no kubeconfig":        {of("third", "direct", nil), "no kubeconfig"},
		"a broken one":         {of("third", "direct", []byte("{")), "can't be read"},
		"a cluster that dials": {of("third", "proxy", own), "only a cluster of type direct"},
	} {
		if body := a.must(t, http.StatusBadRequest, http.MethodPost, kapis+"/validation", x.body); !strings.Contains(body, x.want) {
			t.Errorf("%s: %s, want %s", name, body, x.want)
		}
	}
	a.must(t, http.StatusOK, http.MethodPost, kapis+"/validation", of(direct, "direct", first))
	u.must(t, http.StatusForbidden, http.MethodPost, kapis+"/validation", of("third", "direct", other))
	a.must(t, http.StatusBadRequest, http.MethodPut, kapis+"/"+direct+"/kubeconfig", obj{"kubeconfig": other})
	a.must(t, http.StatusBadRequest, http.MethodPut, kapis+"/"+dialer+"/kubeconfig", obj{"kubeconfig": other})
	a.must(t, http.StatusNotFound, http.MethodPut, kapis+"/nowhere/kubeconfig", obj{"kubeconfig": other})
	u.must(t, http.StatusForbidden, http.MethodPut, kapis+"/"+direct+"/kubeconfig", obj{"kubeconfig": first})
	a.must(t, http.StatusOK, http.MethodPut, kapis+"/"+direct+"/kubeconfig", obj{"kubeconfig": first})
	if after := a.must(t, http.StatusOK, http.MethodGet, clusters, nil); strings.Count(after, `"Cluster"`) != strings.Count(before, `"Cluster"`) {
		t.Error("a check has written a Cluster")
	}
	a.becomes(t, patience, http.StatusOK, http.MethodGet, "/clusters/"+direct+"/version", nil)
}

// F1: a member needs nothing of the fleet open to the network: nothing there is answered to who does not prove to be the hub.
func TestAMemberAnswersOnlyItsHub(t *testing.T) {
	text, err := at(t, direct, "-n", "kubesphere-system", "get", "configmap", "ks-fleet-invitation", "-o", "json")
	if err != nil || !strings.Contains(text, "certificate") || strings.Contains(text, "PRIVATE KEY") {
		t.Errorf("the invitation is %s, %v", text, err)
	}
	var c struct {
		Spec struct {
			Connection struct {
				KubeSphereAPIEndpoint string `json:"kubesphereAPIEndpoint"`
			}
		}
	}
	if err := json.Unmarshal([]byte(admin(t).must(t, http.StatusOK, http.MethodGet, clusters+"/"+direct, nil)), &c); err != nil {
		t.Fatal(err)
	}
	member := strings.Replace(c.Spec.Connection.KubeSphereAPIEndpoint, "https://", "", 1)
	for path, code := range map[string]int{"/fleet/digest": 403, "/fleet/objects": 403, "/fleet/bound": 403, "/api/v1/nodes": 403} {
		out, err := askMember(t, member, path, http.Header{"X-Remote-User": {"admin"}, "X-Remote-Uid": {"u"}, "X-Remote-Group": {"system:masters"}})
		if err != nil || out != code {
			t.Errorf("%s with forged headers: %d, %v, want %d", path, out, err, code)
		}
	}
}
