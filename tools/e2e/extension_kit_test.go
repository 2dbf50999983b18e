package e2e

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// ksExtension runs `kubectl ks extension` as the admin, through ks-apiserver.
func ksExtension(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), product.Program("kubectl-ks"), append([]string{"extension"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(product.Dir, "ks.kubeconfig"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("extension %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// background starts a program, and returns it once a line of its messages matches, with what has matched.
func background(t *testing.T, cmd *exec.Cmd, line string) (*exec.Cmd, []string) {
	t.Helper()
	messages, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, want := make(chan []string, 1), regexp.MustCompile(line)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range found { // it is closed once all is read
		}
	})
	go func() {
		defer close(found)
		for in := bufio.NewScanner(messages); in.Scan(); {
			t.Log(in.Text())
			if is := want.FindStringSubmatch(in.Text()); is != nil && len(found) == 0 {
				found <- is
			}
		}
	}()
	select {
	case is, ok := <-found:
		if !ok {
			t.Fatalf("%s ends: %v", cmd, cmd.Wait())
		}
		return cmd, is
	case <-after(t, 5*patience):
		t.Fatalf("%s does not say %q", cmd, line)
	}
	return nil, nil
}

// X5, X6, X13, X18, X20, X27: an extension that the kit begins is checked, packed, pushed, installed and removed. Its backend is told by a verified token
// who asks, its page is served, and its role templates give the right in the languages of the pages. Then it is tried without being installed.
func TestAnExtensionIsWrittenWithTheKit(t *testing.T) {
	a, name, who := admin(t), unique("kit"), unique("ann")
	dir, plan := filepath.Join(t.TempDir(), name), platformAPI+"/installplans/"+name
	greetings, page := "/kapis/"+name+".example.com/v1/greetings", "/dist/"+name+"/index.js"
	objects := []string{extensionsAPI + "/apiservices/v1." + name + ".example.com", extensionsAPI + "/reverseproxies/" + name,
		extensionsAPI + "/jsbundles/" + name}
	t.Cleanup(func() {
		for _, path := range []string{plan, platformAPI + "/extensionversions/" + name + "-0.1.0", platformAPI + "/extensions/" + name,
			"/api/v1/namespaces/extension-" + name, "/api/v1/namespaces/kubesphere-system/configmaps/extension-" + name + "-0.1.0-chart"} {
			_, _ = a.do(context.Background(), http.MethodDelete, path, nil)
		}
	})
	var backend string

	step(t, "it is begun and checked", func(t *testing.T) {
		ksExtension(t, "create", name, "--dir", dir)
		if out := ksExtension(t, "lint", dir); !strings.HasPrefix(out, name+" 0.1.0 asks for (level: cluster)\n") {
			t.Errorf("lint says %s", out)
		}
	})
	step(t, "the backend that it begins with compiles", func(t *testing.T) {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", "backend", ".")
		build.Dir, build.Env = filepath.Join(dir, "backend"), append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
	run := exec.CommandContext(t.Context(), filepath.Join(dir, "backend", "backend"), "-listen", "127.0.0.1:0", "-server", product.URL)
	_, is := background(t, run, `listening at (\S+)`)
	backend = "http://" + is[1]
	step(t, "nobody but the platform says who asks", func(t *testing.T) {
		(caller{base: backend}).must(t, http.StatusUnauthorized, http.MethodGet, greetings, nil, "X-Remote-User: admin")
		(caller{base: backend, token: a.token}).must(t, http.StatusUnauthorized, http.MethodGet, greetings, nil)
	})
	step(t, "it is packed and pushed", func(t *testing.T) {
		ksExtension(t, "package", dir, "-o", dir)
		out := ksExtension(t, "push", filepath.Join(dir, name+"-0.1.0.tgz"))
		if !strings.Contains(out, name+" 0.1.0 can be installed") || !strings.Contains(out, "extensionversion/"+name+"-0.1.0 created") {
			t.Errorf("push says %s", out)
		}
		if out := ksExtension(t, "push", dir); !strings.Contains(out, "extensionversion/"+name+"-0.1.0 unchanged") {
			t.Errorf("the folder is another chart than its package: %s", out)
		}
		eventually(t, "it is in the catalogue", a.answersWith(http.StatusOK, platformAPI+"/extensions/"+name, `"recommendedVersion":"0.1.0"`))
		a.must(t, http.StatusNotFound, http.MethodGet, objects[0], nil) // nothing is installed by that
	})
	step(t, "it is installed", func(t *testing.T) {
		a.must(t, http.StatusCreated, http.MethodPost, platformAPI+"/installplans", installPlan(name, "0.1.0", "backend: {url: '"+backend+"'}", nil))
		eventually(t, "its backend is nowhere else than in its namespace", a.conditionIs(plan, "Installed", "False", "Services of its namespace extension-"+name))
		a.must(t, http.StatusNotFound, http.MethodGet, objects[0], nil)
		a.must(t, http.StatusUnprocessableEntity, http.MethodPatch, plan, obj{"metadata": obj{"annotations": obj{"kapis.dev/upstreams": backend}}}, asMerge)
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"metadata": obj{"annotations": obj{"kapis.dev/upstreams": "127.0.0.1"}}}, asMerge)
		eventually(t, "it is installed", a.answersWith(http.StatusOK, plan, `"state":"Installed"`))
		if out := ksExtension(t, "log", name); !strings.HasPrefix(out, name+" 0.1.0: Installed\n") || strings.Count(out, "\n") < 3 {
			t.Errorf("its log is %s", out)
		}
		a.answers(t, plan, `"kapis.dev/approved-by":"admin"`, `"kapis.dev/approved-upstreams":"127.0.0.1"`)
		for _, of := range []struct{ role, en, zh string }{{"view", "View Greetings", "查看问候"}, {"manage", "Leave Greetings", "留下问候"}} {
			a.answers(t, "/apis/iam.kubesphere.io/v1beta1/roletemplates/"+name+"-"+of.role, `"en":"`+of.en+`"`, `"zh":"`+of.zh+`"`)
		}
	})
	step(t, "its backend is told who asks", func(t *testing.T) {
		u := withRole(t, who, obj{"aggregationRoleTemplates": obj{"templateNames": []string{name + "-view", name + "-manage"}}})
		eventually(t, "the templates give the right", u.answersWith(http.StatusOK, greetings, `"caller":"`+who+`"`))
		r := u.must(t, http.StatusCreated, http.MethodPost, greetings, obj{"text": "hello", "author": "admin"}, "X-Remote-User: admin")
		if !strings.Contains(r.body, `"author":"`+who+`"`) {
			t.Errorf("the author is another one: %s", r.body)
		}
		a.answers(t, greetings, `"caller":"admin"`, `"author":"`+who+`"`)
		eventually(t, "the path below /proxy/ too", u.answersWith(http.StatusOK, "/proxy/"+name+"/hello", "Hello, "+who+"."))
		nobody := newUser(t, unique("nobody"))
		for _, path := range []string{greetings, "/proxy/" + name + "/hello"} {
			nobody.must(t, http.StatusForbidden, http.MethodGet, path, nil)
		}
	})
	step(t, "its page is served", func(t *testing.T) {
		eventually(t, "the page", anonymous().answersWith(http.StatusOK, page, "System.register(['react']"))
	})
	step(t, "it is not tried while it is installed", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), product.Program("kubectl-ks"), "extension", "run", dir, "--backend", backend)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(product.Dir, "ks.kubeconfig"))
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "the extension "+name) {
			t.Errorf("%v\n%s", err, out)
		}
		a.answers(t, greetings, `"caller":"admin"`)
	})
	web := "/apis/apps/v1/namespaces/extension-" + name + "/deployments/" + name
	step(t, "its backend is in the cluster without a value that says where else", func(t *testing.T) {
		a.must(t, http.StatusNotFound, http.MethodGet, web, nil)
		a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"config": ""}}, asMerge)
		eventually(t, "it is changed", a.conditionIs(plan, "Upgraded", "True", ""))
		a.answers(t, web, `"runAsNonRoot":true`)
		a.answers(t, objects[0], "http://"+name+".extension-"+name+".svc")
	})
	step(t, "it is removed", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodDelete, plan, nil)
		eventually(t, "the plan is gone", a.is(http.StatusNotFound, http.MethodGet, plan))
		for _, path := range append(objects, web, "/apis/iam.kubesphere.io/v1beta1/roletemplates/"+name+"-view") {
			a.must(t, http.StatusNotFound, http.MethodGet, path, nil)
		}
	})
	step(t, "it is tried", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), product.Program("kubectl-ks"), "extension", "run", dir, "--backend", backend)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(product.Dir, "ks.kubeconfig"))
		cmd, _ = background(t, cmd, "Ctrl-C removes them")
		eventually(t, "the backend answers", a.answersWith(http.StatusOK, greetings, `"caller":"admin"`))
		eventually(t, "the path below /proxy/", a.answersWith(http.StatusOK, "/proxy/"+name+"/hello", "Hello, admin."))
		eventually(t, "the page", anonymous().answersWith(http.StatusOK, page, "System.register(['react']"))
		if err := os.WriteFile(filepath.Join(dir, "chart", "page", "index.js"), []byte("// changed"), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the changed page", anonymous().answersWith(http.StatusOK, page, "// changed"))
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Ctrl-C: %v", err)
			}
		case <-after(t, patience):
			t.Fatal("Ctrl-C does not end it")
		}
		for _, path := range objects {
			a.must(t, http.StatusNotFound, http.MethodGet, path, nil)
		}
		within(t, revocation, "nothing is served any more", func(ctx context.Context) error {
			return errors.Join(a.is(http.StatusNotFound, http.MethodGet, greetings)(ctx), anonymous().is(http.StatusNotFound, http.MethodGet, page)(ctx))
		})
	})
}
