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
	"time"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

const (
	storeRoutes = "/kapis/application.kubesphere.io/v2"
	storeKube   = "/apis/application.kubesphere.io/v2"
)

// uploaded uploads an application of a workspace, whose version is then in the store.
func uploaded(t *testing.T, author user, ws string) (app, version string) {
	t.Helper()
	a, apps := admin(t), storeRoutes+"/workspaces/"+ws+"/apps"
	pack := charttest.Pack(t, "greeter", map[string]string{
		"Chart.yaml": "{apiVersion: v2, name: greeter, version: 1.0.0}", "values.yaml": "greeting: hello\n",
		"templates/it.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeter}\ndata: {greeting: {{ .Values.greeting | quote }}}\n"})
	var made struct{ AppID, VersionID string }
	text := ""
	eventually(t, "an application may be uploaded", func(ctx context.Context) error {
		resp, err := author.ask(ctx, http.MethodPost, apps, obj{"package": base64.StdEncoding.EncodeToString(pack)})
		if text = string(resp.Body); err == nil && resp.Status != http.StatusOK {
			err = fmt.Errorf("%d %.300s", resp.Status, resp.Body)
		}
		return err
	})
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	action := func(u user, path, state string) {
		u.becomes(t, patience, http.StatusOK, http.MethodPost, path+"/"+made.AppID+"/versions/"+made.VersionID+"/action", obj{"state": state})
	}
	action(author, apps, "submitted")
	action(a, storeRoutes+"/apps", "active")
	return made.AppID, made.VersionID
}

func releaseIn(cluster, name, ws, ns, app, version, values string) obj {
	return obj{"metadata": obj{"name": name, "labels": obj{"kubesphere.io/workspace": ws, "kubesphere.io/namespace": ns, "kubesphere.io/cluster": cluster,
		"application.kubesphere.io/app-id": app}}, "spec": obj{"appID": app, "appVersionID": version, "values": base64.StdEncoding.EncodeToString([]byte(values))}}
}

// releaseIs waits until the answer about a release has a text.
func releaseIs(t *testing.T, u user, path string, has ...string) {
	t.Helper()
	within(t, 5*time.Minute, path+" is as it is to be", func(ctx context.Context) error {
		resp, err := u.ask(ctx, http.MethodGet, path, nil)
		for _, text := range has {
			if err == nil && !strings.Contains(string(resp.Body), text) {
				err = fmt.Errorf("%d %.1500s, want %q", resp.Status, resp.Body, text)
			}
		}
		return err
	})
}

// asHub runs kubectl at a member in the name that it writes in for its hub.
func asHub(t *testing.T, member, input string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), product.Program("kubectl"), append([]string{"--kubeconfig",
		filepath.Join(product.Dir, "members", member, "kubeconfig"), "--as=kapis:hub"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// X28, X33, X35: an application of the hub's store is installed in the member that its release names, by the member, as who asked for it, with the rights
// that they have there; a member that is away is waited for, and holds nobody.
func TestReleasesInMembers(t *testing.T) {
	const ws = "shipping"
	ns := ws + "-web"
	a, u, plain := admin(t), newUser(t, "ship-boss"), newUser(t, "ship-plain")
	a.must(t, http.StatusOK, http.MethodPost, workspace, named("WorkspaceTemplate", ws, obj{"spec": obj{
		"placement": obj{"clusters": []obj{{"name": direct}, {"name": dialer}}}, "template": obj{"spec": obj{"manager": u.name}}}}))
	t.Cleanup(func() {
		_, _ = a.ask(context.Background(), http.MethodDelete, workspace+"/"+ws, obj{"propagationPolicy": "Background"})
	})
	for _, member := range members {
		u.becomes(t, patience, http.StatusOK, http.MethodPost, "/clusters/"+member+workspace+"/"+ws+"/namespaces",
			obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": ns}})
		u.becomes(t, patience, http.StatusCreated, http.MethodPost, "/clusters/"+member+"/api/v1/namespaces/"+ns+"/configmaps?dryRun=All",
			obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "try"}})
	}
	app, version := uploaded(t, u, ws)
	routes := storeRoutes + "/workspaces/" + ws + "/applications"
	install := func(who user, cluster, name, values string) {
		who.becomes(t, patience, http.StatusOK, http.MethodPost, routes, releaseIn(cluster, name, ws, ns, app, version, values))
	}
	greets := func(member, want string) { t.Helper(); has(t, member, ns, "greeter", ".data.greeting", want) }
	install(u, dialer, "ship-dialer", "greeting: salut\n")
	install(u, direct, "ship-direct", "")
	releaseIs(t, u, routes+"/ship-dialer", `"state":"active"`, `"realTimeResources":[{`, `"name":"greeter"`)
	releaseIs(t, u, routes+"/ship-direct", `"state":"active"`, `"realTimeResources":[{`)
	greets(dialer, "salut")
	greets(direct, "hello")
	a.must(t, http.StatusNotFound, http.MethodGet, "/api/v1/namespaces/"+ns, nil) // the hub has nothing of it
	if out, err := at(t, dialer, "get", "applicationrelease", "ship-dialer", "-o",
		`jsonpath={.metadata.annotations.application\.kubesphere\.io/req-user}`); err != nil || out != u.name {
		t.Errorf("in the member it is of %q, %v", out, err)
	}
	u.must(t, http.StatusOK, http.MethodGet, "/clusters/"+dialer+storeRoutes+"/namespaces/"+ns+"/applications/ship-dialer", nil)

	t.Run("AnUpgradeIsTheMembers", func(t *testing.T) {
		u.must(t, http.StatusOK, http.MethodPost, routes+"/ship-dialer", releaseIn(dialer, "ship-dialer", ws, ns, app, version, "greeting: again\n"))
		greets(dialer, "again")
		releaseIs(t, u, routes+"/ship-dialer", `"state":"active"`)
	})
	t.Run("NoRightThereIsNoRelease", func(t *testing.T) {
		role := ws + "-deployer"
		u.becomes(t, patience, http.StatusOK, http.MethodPost, "/kapis/iam.kubesphere.io/v1beta1/workspaces/"+ws+"/workspaceroles",
			obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRole", "metadata": obj{"name": role, "labels": obj{"kubesphere.io/workspace": ws}},
				"rules": []obj{{"apiGroups": []string{"application.kubesphere.io"}, "resources": []string{"applications"}, "verbs": []string{"get", "list", "create"}}}})
		u.becomes(t, patience, http.StatusOK, http.MethodPost, "/kapis/iam.kubesphere.io/v1beta1/workspaces/"+ws+"/workspacemembers",
			[]obj{{"username": plain.name, "roleRef": role}})
		install(plain, dialer, "ship-plain", "")
		releaseIs(t, u, routes+"/ship-plain", `"state":"failed"`, "403 Forbidden")
		u.must(t, http.StatusOK, http.MethodDelete, routes+"/ship-plain", nil)
		u.becomes(t, 3*time.Minute, http.StatusNotFound, http.MethodGet, routes+"/ship-plain", nil)
		greets(dialer, "again")
	})
	t.Run("TheHubAloneWritesIt", func(t *testing.T) {
		in := "/clusters/" + dialer + storeKube + "/applicationreleases"
		for _, body := range []string{`{"spec":{"appVersionID":"x"}}`, `{"metadata":{"labels":{"kapis.dev/fleet":null}}}`,
			`{"metadata":{"annotations":{"application.kubesphere.io/req-user":"admin"}}}`} {
			patch(t, a, http.StatusForbidden, in+"/ship-dialer", body)
		}
		a.must(t, http.StatusForbidden, http.MethodDelete, in+"/ship-dialer", nil)
		forged := func(name, fleet, author string) string {
			raw, err := json.Marshal(obj{"apiVersion": "application.kubesphere.io/v2", "kind": "ApplicationRelease", "metadata": obj{"name": name,
				"labels": obj{"kapis.dev/fleet": fleet}, "annotations": obj{"application.kubesphere.io/req-user": author}}, "spec": obj{}})
			if err != nil {
				t.Fatal(err)
			}
			return string(raw)
		}
		a.must(t, http.StatusForbidden, http.MethodPost, in, json.RawMessage(forged("forged", "x", "admin")))
		for _, body := range []string{forged("forged", "", "admin"), forged("forged", "x", "system:admin"), forged("forged", "x", "")} {
			if out, err := asHub(t, dialer, body, "create", "-f", "-"); err == nil || !strings.Contains(out, "orbidden") {
				t.Errorf("as the hub: %s, %v", out, err)
			}
		}
	})
	t.Run("AMemberThatIsAwayIsWaitedFor", func(t *testing.T) {
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
		u.must(t, http.StatusOK, http.MethodPost, routes+"/ship-dialer", releaseIn(dialer, "ship-dialer", ws, ns, app, version, "greeting: late\n"))
		u.must(t, http.StatusOK, http.MethodPost, routes+"/ship-direct", releaseIn(direct, "ship-direct", ws, ns, app, version, "greeting: at once\n"))
		greets(direct, "at once")
		releaseIs(t, u, routes+"/ship-dialer", `"state":"upgrading"`, "waits for the cluster "+dialer)
		u.must(t, http.StatusOK, http.MethodDelete, routes+"/ship-direct", nil)
		u.becomes(t, 3*time.Minute, http.StatusNotFound, http.MethodGet, routes+"/ship-direct", nil)
		greets(direct, "")
		if err := syscall.Kill(process, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		stopped = false
		within(t, 5*time.Minute, "it is back, and told", func(context.Context) error {
			out, err := at(t, dialer, "-n", ns, "get", "configmap", "greeter", "-o", "jsonpath={.data.greeting}")
			if err == nil && out != "late" {
				err = errors.New(out)
			}
			return err
		})
		releaseIs(t, u, routes+"/ship-dialer", `"state":"active"`)
		u.must(t, http.StatusOK, http.MethodDelete, routes+"/ship-dialer", nil)
		u.becomes(t, 3*time.Minute, http.StatusNotFound, http.MethodGet, routes+"/ship-dialer", nil)
		greets(dialer, "")
		if out, err := at(t, dialer, "-n", "kubesphere-system", "get", "configmaps", "-o", "name"); err != nil || strings.Contains(out, "fleet-package-") {
			t.Errorf("its packages: %s, %v", out, err)
		}
	})
}
