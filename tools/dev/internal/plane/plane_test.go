package plane

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func testLayout(t *testing.T) layout {
	t.Helper()
	l, err := newLayout(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.create(); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestStateIsForItsOwnerOnly(t *testing.T) {
	l := testLayout(t)
	for _, dir := range []string{"", "pki", "conf", "log", "run", "pods", "etcd"} {
		info, err := os.Stat(l.path(dir))
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%q: %v, %v", dir, info.Mode(), err)
		}
	}
}

func TestPorts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports.json")
	choose := func(t *testing.T, fixed int) ports {
		t.Helper()
		p, claims, err := choosePorts(file, fixed)
		if err != nil {
			t.Fatal(err)
		}
		claims.Close()
		return p
	}
	first := choose(t, 0)
	seen := map[int]bool{}
	for _, p := range first.all() {
		if *p < lowestPort || *p >= highestPort || seen[*p] {
			t.Errorf("port %d is out of range or given twice", *p)
		}
		seen[*p] = true
	}
	t.Run("AreRemembered", func(t *testing.T) {
		if again := choose(t, 0); again != first {
			t.Errorf("got %v, want %v", again, first)
		}
	})
	t.Run("OneThatIsTakenIsReplacedAlone", func(t *testing.T) {
		taken := listen(t, first.Etcd)
		again := choose(t, 0)
		if again.Etcd == first.Etcd {
			t.Fatalf("got %v", again)
		}
		if again.Etcd = first.Etcd; again != first {
			t.Errorf("others changed too: %v, want %v", again, first)
		}
		taken.Close()
	})
	t.Run("ThoseOfAControlPlaneThatIsStartingAreTaken", func(t *testing.T) {
		starting, claims, err := choosePorts(file, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer claims.Close()
		theirs := map[int]bool{}
		for _, p := range starting.all() {
			theirs[*p] = true
		}
		later := choose(t, 0)
		for _, p := range later.all() {
			if theirs[*p] {
				t.Errorf("port %d was given to two that start at the same time: %v and %v", *p, starting, later)
			}
		}
		if _, _, err := choosePorts(file, starting.APIServer); err == nil {
			t.Errorf("the port %d of one that is starting was given to who asked for it", starting.APIServer)
		}
	})
	t.Run("AFixedOneIsUsed", func(t *testing.T) {
		var free portClaims
		fixed, err := free.pick()
		if err != nil {
			t.Fatal(err)
		}
		free.Close()
		for range 2 { // chosen, and then remembered
			if p := choose(t, fixed); p.APIServer != fixed {
				t.Errorf("got %v, want port %d for kube-apiserver", p, fixed)
			}
		}
	})
	t.Run("AFixedOneThatIsTakenIsNamed", func(t *testing.T) {
		l := listen(t, 0)
		port := l.Addr().(*net.TCPAddr).Port
		_, _, err := choosePorts(file, port)
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), loopback(port)[len("127.0.0.1:"):]) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("ABrokenFileIsNamed", func(t *testing.T) {
		if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := choosePorts(file, 0); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("got %v", err)
		}
	})
}

func listen(t *testing.T, port int) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestFlagsNameOnlyFilesThatAreMade(t *testing.T) {
	l := testLayout(t)
	p, _, err := choosePorts(l.ports(), 0)
	if err != nil {
		t.Fatal(err)
	}
	i := instance{layout: l, ports: p}
	if err := ensureCertificates(l, time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	if err := i.writeContainerLogs(time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := i.writeConfigs(); err != nil {
		t.Fatal(err)
	}
	c, err := newClients(l, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range i.components(c) {
		for _, arg := range component.Command().Args[1:] {
			_, value, _ := strings.Cut(arg, "=")
			if strings.HasPrefix(value, l.dir) && !strings.HasSuffix(value, "kube-audit.log") {
				if _, err := os.Stat(value); err != nil {
					t.Errorf("%s: %s: %v", component.Name, arg, err)
				}
			}
		}
	}
}

func TestEverythingListensOnLoopback(t *testing.T) {
	i := instance{layout: testLayout(t), ports: ports{1, 2, 3, 4, 5, 6, 7}}
	for name, flags := range map[string][]string{
		"etcd": i.etcdFlags(), "kube-apiserver": i.apiserverFlags(), "kube-controller-manager": i.controllerManagerFlags(),
		"kube-scheduler": i.schedulerFlags(), "kubelet": i.kubeletFlags(), "kwok": i.kwokFlags(),
	} {
		told := false
		for _, flag := range flags {
			key, value, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
			if strings.Contains(key, "listen") || strings.Contains(key, "address") && !strings.Contains(key, "types") {
				told = true
				if !strings.HasPrefix(strings.TrimPrefix(value, "https://"), "127.0.0.1") {
					t.Errorf("%s: %s", name, flag)
				}
			}
		}
		if !told {
			t.Errorf("%s chooses where it listens itself", name)
		}
	}
}

func TestComponentsSeeNoSecretsOfTheUser(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
	t.Setenv("HTTPS_PROXY", "http://proxy:1")
	i := instance{layout: testLayout(t)}
	env := i.component("etcd", nil, nil).Command().Env
	for _, e := range env {
		if strings.Contains(e, "s3cret") || strings.Contains(e, "proxy") || strings.HasPrefix(e, "HOME="+os.Getenv("HOME")) {
			t.Errorf("it sees %s", e)
		}
	}
	if !slices.Contains(env, i.mark()) {
		t.Error("it could not be recognised after a crash")
	}
}

func TestGarbageIsCollectedMoreOftenUnlessOneSaysSo(t *testing.T) {
	for _, c := range []struct{ said, want string }{{"", "GOGC=50"}, {"200", "GOGC=200"}} {
		t.Setenv("DEV_GOGC", c.said)
		if env := (instance{layout: testLayout(t)}).component("etcd", nil, nil).Command().Env; !slices.Contains(env, c.want) {
			t.Errorf("DEV_GOGC=%s: the environment is %q, want %s in it", c.said, env, c.want)
		}
	}
}

func TestKwokConfigurationHoldsTheStages(t *testing.T) {
	config, err := instance{layout: testLayout(t)}.kwokConfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"name: node-initialize", "name: node-heartbeat-with-lease", "name: pod-ready", "name: pod-complete",
		"name: pod-delete", "enableDebuggingHandlers: false"} {
		if !strings.Contains(config, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if docs := strings.Count(config, "\n---\n"); docs != 5 {
		t.Errorf("%d documents after the first, want 5", docs)
	}
}

func TestKubeconfigQuotesNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "k")
	user := "a: \"b\"\n- c"
	if err := writeKubeconfig(file, kubeconfigValues{Server: "https://127.0.0.1:1", User: user, CA: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := `name: "a: \"b\"\n- c"`; !strings.Contains(string(data), want) {
		t.Errorf("no %s in\n%s", want, data)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
