package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/crypto/bcrypt"
)

const older = "/kapis/resources.kubesphere.io/v1alpha2"

// has returns a condition: the answer is 200 and has all the texts.
func (c caller) has(path string, texts ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.do(ctx, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if r.code != http.StatusOK || !strings.Contains(r.body, text) {
				return fmt.Errorf("GET %s = %d %s, want %s", path, r.code, clip(r.body), text)
			}
		}
		return nil
	}
}

func TestNumbersOfObjectsComeFromTheIndex(t *testing.T) {
	a, ns := admin(t), newNamespace(t)
	apps := "/apis/apps/v1/namespaces/" + ns
	a.create(t, apps+"/deployments", deployment("web", 3))
	stuck := deployment("stuck", 2)
	stuck["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["nodeSelector"] = map[string]any{"no": "node"}
	a.create(t, apps+"/deployments", stuck)
	a.create(t, "/api/v1/namespaces/"+ns+"/resourcequotas", map[string]any{
		"apiVersion": "v1",
		"kind":       "ResourceQuota",
		"metadata":   map[string]any{"name": "q"},
		"spec":       map[string]any{"hard": map[string]any{"count/pods": "20", "count/deployments.apps": "9"}},
	})
	count := func(kind string, n int) string {
		return fmt.Sprintf(`{"metric_name":"namespace_%s_count","data":{"resultType":"vector","result":[{"value":[`, kind) + "%," + fmt.Sprintf("%d]}]}}", n)
	}
	eventually(t, "the overview of the namespace", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodGet, kapis+"/namespaces/"+ns+"/metrics", nil)
		if err != nil {
			return err
		}
		for _, want := range []string{count("pod", 5), count("deployment", 2), count("cronjob", 0)} {
			begin, end, _ := strings.Cut(want, "%")
			if _, rest, ok := strings.Cut(r.body, begin); !ok || !strings.HasPrefix(strings.TrimLeft(rest, "0123456789"), end) {
				return fmt.Errorf("%d %s, want %s", r.code, clip(r.body), want)
			}
		}
		return nil
	})
	eventually(
		t,
		"the quotas",
		a.has(
			older+"/namespaces/"+ns+"/quotas",
			`"count/pods":"5"`,
			`"hard":{"count/deployments.apps":"9","count/pods":"20"}`,
			`"left":{"count/deployments.apps":"7","count/pods":"15"}`,
		),
	)
	eventually(t, "what is abnormal", a.has(older+"/namespaces/"+ns+"/abnormalworkloads", `"namespace":"`+ns+`"`, `"deployments":1`, `"persistentvolumeclaims":0`))
	eventually(t, "the overview of the cluster", a.has(kapis+"/metrics", `"cluster_namespace_count"`, `"cluster_clusterrole_count"`))
	eventually(t, "the quotas of the cluster", a.has(older+"/quotas", `{"namespace":"\"\"","data":{"used":{`))
}

func TestComponentsShowTheirBackends(t *testing.T) {
	a, component := admin(t), unique("component")
	a.create(t, "/apis/apps/v1/namespaces/kube-system/deployments", deployment(component, 2))
	a.create(t, "/api/v1/namespaces/kube-system/services", map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": component},
		"spec": map[string]any{"selector": map[string]any{"app": component}, "ports": []any{map[string]any{"port": 80}}},
	})
	for _, root := range []string{kapis, older} {
		eventually(t, "both pods are healthy", a.has(root+"/components/"+component, `"namespace":"kube-system"`, `"totalBackends":2,"healthyBackends":2`))
		eventually(t, "it is listed", a.has(root+"/components", `[{"name":`, `"name":"`+component+`"`))
		eventually(t, "so is the health", a.has(root+"/componenthealth", `"name":"`+component+`"`, `"totalNodes":`))
		a.must(t, http.StatusNotFound, http.MethodGet, root+"/components/none", nil)
	}
}

func TestFormerRevisionsOfWorkloadsAreShown(t *testing.T) {
	a, ns := admin(t), newNamespace(t)
	for kind, plural := range map[string]string{"Deployment": "deployments", "DaemonSet": "daemonsets", "StatefulSet": "statefulsets"} {
		object := deployment("web", 1)
		object["kind"] = kind
		switch kind {
		case "DaemonSet":
			delete(object["spec"].(map[string]any), "replicas")
		case "StatefulSet":
			object["spec"].(map[string]any)["serviceName"] = "web"
		}
		path := "/apis/apps/v1/namespaces/" + ns + "/" + plural
		a.create(t, path, object)
		revisions := older + "/namespaces/" + ns + "/" + plural + "/web/revisions/"
		eventually(t, "the first revision of the "+kind, a.has(revisions+"1", `"image":"example/web"`))
		a.must(
			t,
			http.StatusOK,
			http.MethodPatch,
			path+"/web",
			`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"example/new"}]}}}}`,
			"Content-Type: application/strategic-merge-patch+json",
		)
		eventually(t, "the second revision of the "+kind, a.has(revisions+"2", `"image":"example/new"`))
		eventually(t, "the first one still", a.has(revisions+"1", `"image":"example/web"`))
		a.must(t, http.StatusNotFound, http.MethodGet, revisions+"99", nil)
	}
	a.must(t, http.StatusBadRequest, http.MethodGet, older+"/namespaces/"+ns+"/daemonsets/web/revisions/x", nil)
}

func TestCountsAreOfWhatTheCallerMaySee(t *testing.T) { // S1
	proves(t, "S1")
	ns, member := newNamespace(t), unique("counter")
	u := newUser(t, member)
	all := []string{
		kapis + "/metrics",
		kapis + "/components",
		kapis + "/components/kubernetes",
		kapis + "/componenthealth",
		older + "/components",
		older + "/componenthealth",
		older + "/quotas",
		older + "/abnormalworkloads",
	}
	here := []string{kapis + "/namespaces/" + ns + "/metrics", older + "/namespaces/" + ns + "/quotas", older + "/namespaces/" + ns + "/abnormalworkloads"}
	rest := []string{
		older + "/namespaces/" + ns + "/daemonsets/x/revisions/1",
		older + "/namespaces/" + ns + "/deployments/x/revisions/1",
		older + "/namespaces/" + ns + "/statefulsets/x/revisions/1",
		kapis + "/namespaces/" + ns + "/images?q=x",
		kapis + "/namespaces/" + ns + "/imageconfig?image=x",
		kapis + "/namespaces/" + ns + "/repositorytags?repository=x",
		kapis + "/namespaces/default/metrics",
		older + "/namespaces/default/quotas",
		older + "/namespaces/default/abnormalworkloads",
	}
	for _, path := range append(append(append([]string{}, all...), here...), rest...) {
		u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
	}
	u.must(t, http.StatusForbidden, http.MethodPost, kapis+"/namespaces/"+ns+"/registrysecrets/s/verify", map[string]any{})
	role(t, ns, "counter", rule{[]string{"resources.kubesphere.io"}, []string{"metrics", "quotas", "abnormalworkloads"}, []string{"list"}})
	bind(t, ns, "counter", map[string]any{"kind": "User", "name": member})
	for _, path := range here {
		eventually(t, "counted here", u.is(http.StatusOK, http.MethodGet, path))
	}
	for _, path := range append(all, rest...) {
		u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
	}
}

// registry starts a container registry with the account ann, and puts team/app there in two versions.
func registry(t *testing.T) (host string) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	accounts := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(accounts, []byte("ann:"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, buildProgram(t, "../dev", "./registry"), "--addr", "127.0.0.1:0", "--htpasswd", accounts)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the registry: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	host, ok := strings.CutPrefix(strings.TrimSpace(line), "READY http://")
	if err != nil || !ok {
		t.Fatalf("the registry says %q, %v", line, err)
	}
	for _, tag := range []string{"v1", "v2"} {
		img, err := random.Image(64, 1)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(host+"/team/app:"+tag, name.Insecure)
		if err == nil {
			err = remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: "ann", Password: password}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return host
}

// registrySecret is an account at a registry without TLS.
func registrySecret(name, host, password string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"secret.kubesphere.io/force-insecure": "true"}},
		"data": map[string]any{".dockerconfigjson": base64.StdEncoding.EncodeToString(
			[]byte(fmt.Sprintf(`{"auths":{%q:{"username":"ann","password":%q}}}`, host, password)))},
	}
}

func TestImagesOfARegistryAreAskedForAsTheCallerMay(t *testing.T) { // S25
	a, ns, member, host := admin(t), newNamespace(t), unique("puller"), registry(t)
	u := newUser(t, member)
	a.create(t, "/api/v1/namespaces/"+ns+"/secrets", registrySecret("pull", host, password))
	image := "/namespaces/" + ns + "/imageconfig?secret=pull&image=" + host + "/team/app:"
	tags := "/namespaces/" + ns + "/repositorytags?secret=pull&repository=" + host + "/team/app"
	if r := a.must(t, http.StatusOK, http.MethodGet, kapis+image+"v1", nil); !strings.Contains(r.body, `"rootfs":{`) {
		t.Errorf("config %s", r.body)
	}
	if r := a.must(t, http.StatusOK, http.MethodGet, kapis+tags+"&page=1&limit=10",
		nil); r.body != `{"registry":"`+host+`","repository":"team/app","tags":["v2","v1"],"total":2}` {
		t.Errorf("tags %s", r.body)
	}
	if r := a.must(t, http.StatusOK, http.MethodGet, older+"/registry/blob?namespace="+ns+"&secret=pull&image="+host+"/team/app:v2",
		nil); !strings.Contains(r.body, `"imageManifest":{`) {
		t.Errorf("blob %s", r.body)
	}
	a.must(t, http.StatusNotFound, http.MethodGet, kapis+image+"none", nil)
	a.must(t, http.StatusNotFound, http.MethodGet, kapis+strings.Replace(tags, "secret=pull", "secret=none", 1), nil)
	verify := kapis + "/namespaces/" + ns + "/registrysecrets/new/verify"
	a.must(t, http.StatusOK, http.MethodPost, verify, registrySecret("new", host, password))
	if r := a.must(t, http.StatusBadRequest, http.MethodPost, verify, registrySecret("new", host, "wrong-"+password)); !strings.Contains(r.body,
		"refuses the credentials") {
		t.Errorf("verify %s", r.body)
	}

	role(t, ns, "puller", rule{[]string{"resources.kubesphere.io"}, []string{"imageconfig", "repositorytags"}, []string{"list"}})
	bind(t, ns, "puller", map[string]any{"kind": "User", "name": member})
	eventually(t, "the role lets ask, but not with the Secret", func(ctx context.Context) error {
		r, err := u.do(ctx, http.MethodGet, kapis+tags, nil)
		if err == nil && (r.code != http.StatusForbidden || !strings.Contains(r.body, `cannot get resource \"secrets\"`)) {
			err = fmt.Errorf("%d %s", r.code, r.body)
		}
		return err
	})
	u.must(t, http.StatusForbidden, http.MethodGet, older+"/registry/blob?namespace="+ns+"&secret=pull&image="+host+"/team/app:v2", nil)
	role(t, ns, "reader", rule{[]string{""}, []string{"secrets"}, []string{"get"}})
	bind(t, ns, "reader", map[string]any{"kind": "User", "name": member})
	eventually(t, "with the right to the Secret it is used", u.is(http.StatusOK, http.MethodGet, kapis+tags))
}

func TestAGitRepositoryIsAskedForWithTheCallersSecret(t *testing.T) { // S25
	a, ns, member := admin(t), newNamespace(t), unique("committer")
	u := newUser(t, member)
	repo := gitRepository(t)
	a.create(t, "/api/v1/namespaces/"+ns+"/secrets", map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/basic-auth", "metadata": map[string]any{"name": "git"},
		"stringData": map[string]any{"username": "ann", "password": password},
	})
	ask := func(url, secret string) map[string]any {
		return map[string]any{"remoteUrl": url, "secretRef": map[string]any{"name": secret, "namespace": ns}}
	}
	path := older + "/git/verify"
	if r := a.must(t, http.StatusOK, http.MethodPost, path, ask(repo+"/app.git", "git")); r.body != `{"message":"success"}` {
		t.Errorf("%s", r.body)
	}
	a.must(t, http.StatusBadRequest, http.MethodPost, path, map[string]any{"remoteUrl": repo + "/app.git"})
	a.must(t, http.StatusNotFound, http.MethodPost, path, ask(repo+"/none.git", "git"))
	a.must(t, http.StatusNotFound, http.MethodPost, path, ask(repo+"/app.git", "none"))
	a.must(t, http.StatusBadRequest, http.MethodPost, path, ask("http://169.254.169.254/app.git", "git")) // S20
	u.must(t, http.StatusForbidden, http.MethodPost, path, ask(repo+"/app.git", "git"))
}

// gitRepository serves app.git to ann.
func gitRepository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	git := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "git", args...).Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet", "--bare", filepath.Join(root, "app.git"))
	backend := &cgi.Handler{
		Path: filepath.Join(git("--exec-path"), "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, given, _ := r.BasicAuth(); user != "ann" || given != password {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}
