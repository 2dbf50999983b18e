package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// The previous version, this one and the previous one again, two replicas of each program, replaced one by one under load, as docs/upgrade.md
// says: no request fails, no session ends, and nothing is lost on either way (O46).
func TestUpgradeAndWayBack(t *testing.T) {
	t.Parallel() // it has a control plane of its own
	previous, this := previousRelease(t), thisRelease(t)
	w := newUpgradeWorld(t)
	previous.make(t, w.kubeconfig, "deploy")
	w.roll(t, previous)
	a := loginAt(t, w.base, "admin", password)
	w.makeObjects(t, a, "early")
	everybody := newUpgradeUsers(t, w, a, "early")
	everybody.goOn(t)
	postUser(t, a, "traffic")
	w.hasObjectsOf(t, previous)
	policies := w.policies(t)
	before := w.objects(t)
	clients := startTraffic(t, w.base, a.token, "traffic")
	clients.goesOn(t)

	step(t, "EachVersionKnowsWhatIsStored", func(t *testing.T) {
		this.make(t, w.kubeconfig, "deploy", "IMAGE_REGISTRY=registry.example.com/team", "IMAGE_TAG=v2")
		for _, program := range []string{"ks-apiserver", "ks-controller-manager"} {
			got := w.kubectl(t, "get", "deployment", program, "-n", "kubesphere-system", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
			if want := "registry.example.com/team/" + program + ":v2"; got != want {
				t.Errorf("got the image %s, want %s", got, want)
			}
		}
		w.knowsWhatIsStored(t, previous)
		w.knowsWhatIsStored(t, this)
		clients.goesOn(t) // the previous programs, with the definitions and roles of this version
	})
	step(t, "ThisVersion", func(t *testing.T) {
		clients.stopping.Store(true)
		w.roll(t, this)
		clients.stopping.Store(false)
		clients.goesOn(t)
		w.lostNothing(t, before)
		everybody.goOn(t)
		w.controllersWork(t, "this")
		w.isOfTheSystemsWorkspace(t)
		w.makeObjects(t, a, "late")
		everybody.newRights(t, a)
		everybody.goOn(t)
		clients.goesOn(t)
		before = w.objects(t)
	})
	step(t, "Back", func(t *testing.T) {
		w.kubectl(t, "delete", "apiservices", "-l", "app.kubernetes.io/part-of=ks-apiserver,app.kubernetes.io/managed-by=ks-controller-manager")
		previous.make(t, w.kubeconfig, "deploy")
		w.roll(t, previous)
		clients.goesOn(t)
		w.lostNothing(t, before)
		everybody.goOn(t)
		everybody.wakeUp(t)
		w.controllersWork(t, "back")
		w.isOfTheSystemsWorkspace(t)
		if now := w.policies(t); !slices.Equal(now, policies) {
			t.Errorf("the admission policies are %v, want those of the previous version, %v", now, policies)
		}
		w.canBeDeleted(t, a, "early")
		w.canBeDeleted(t, a, "late")
		clients.goesOn(t)
	})
}

// upgradeWorld is a control plane with two replicas of each program, which are replaced by those of another version.
type upgradeWorld struct {
	dir, kubeconfig string
	root            dynamic.Interface
	whole           *testing.T // what is started in a part of the test lasts until the end of the whole
	issuer          string

	http, hooks *balancer
	base        string // where users find the replicas
	replicas    [2]*serverReplica
	managers    [2]*managerReplica
}

// serverReplica is one of several ks-apiservers.
type serverReplica struct {
	*program
	address string
}

func newUpgradeWorld(t *testing.T) *upgradeWorld {
	t.Helper()
	w := &upgradeWorld{dir: newPlane(t), whole: t, issuer: "https://localhost:" + reservedPort(t)}
	w.kubeconfig = filepath.Join(w.dir, "kubeconfig")
	w.root = clientAt(t, w.dir, "root", "system:masters")
	w.http, w.hooks = newBalancer(t, "127.0.0.1"), newBalancer(t, "127.0.0.1")
	w.base = "http://" + w.http.address
	for file, name := range map[string]string{"manager": "ks-controller-manager", "server": "ks-apiserver"} {
		configAt(t, w.dir, filepath.Join(w.dir, file+".kubeconfig"), "system:serviceaccount:kubesphere-system:"+name,
			"system:serviceaccounts", "system:serviceaccounts:kubesphere-system")
	}
	if err := os.WriteFile(filepath.Join(w.dir, "first-password"), []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// kubectl runs it as the cluster's admin.
func (w *upgradeWorld) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return (&installation{kubeconfig: w.kubeconfig}).kubectl(t, "", args...)
}

// roll replaces the programs by those of a version, one by one, as the Deployments do: the next one is there before the last one ends, and nobody
// is led any more to one that is asked to end.
func (w *upgradeWorld) roll(t *testing.T, r release) {
	t.Helper()
	config := filepath.Join(w.dir, r.name+".yaml")
	if err := os.WriteFile(config, []byte("authentication: {issuer: {url: "+w.issuer+"}}\n"+r.configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, last := range w.managers {
		next := newManager(t)
		next.start(w.whole, r.program("ks-controller-manager"), w.dir, "https://"+w.hooks.address, "--config", config,
			"--lease-duration=60s", "--renew-deadline=50s", // none of them dies, and one that ends gives the lease back
			"--admin-password-file", filepath.Join(w.dir, "first-password"))
		eventually(t, "a ks-controller-manager of the "+r.name+" version is ready", next.ready())
		w.managers[i] = next
		w.lead()
		if last != nil {
			last.stop(t)
		}
	}
	for i, last := range w.replicas {
		own := reservedPort(t)
		next := &serverReplica{address: net.JoinHostPort("127.0.0.1", own), program: launch(w.whole, filepath.Join(w.dir, "server-"+own+".log"),
			r.program("ks-apiserver"), "--config", config, "--kubeconfig", filepath.Join(w.dir, "server.kubeconfig"),
			"--bind-address", "127.0.0.1", "--insecure-port", own)}
		eventually(t, "a ks-apiserver of the "+r.name+" version is ready", caller{base: "http://" + next.address}.is(http.StatusOK, http.MethodGet, "/readyz"))
		w.replicas[i] = next
		w.lead()
		if last != nil {
			last.stop(t)
		}
	}
	eventually(t, "the admin may log in", logsIn(w.base, "admin"))
}

// lead leads connections to the programs that run.
func (w *upgradeWorld) lead() {
	var servers, hooks []string
	for _, r := range w.replicas {
		if r != nil {
			servers = append(servers, r.address)
		}
	}
	for _, m := range w.managers {
		if m != nil {
			hooks = append(hooks, m.hook)
		}
	}
	w.http.lead(servers...)
	w.hooks.lead(hooks...)
}

// bases are the addresses of the replicas of ks-apiserver.
func (w *upgradeWorld) bases() []string {
	out := make([]string, 0, len(w.replicas))
	for _, r := range w.replicas {
		out = append(out, "http://"+r.address)
	}
	return out
}

// definitionsOf returns which versions the definitions of a release serve.
func (w *upgradeWorld) definitionsOf(t *testing.T, r release) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.root, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the definitions of the %s version: %v", r.name, err)
	}
	out := map[string][]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Metadata struct{ Name string }
			Spec     struct {
				Versions []struct {
					Name   string
					Served bool
				}
			}
		}
		if err := yaml.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		for _, v := range d.Spec.Versions {
			if v.Served {
				out[d.Metadata.Name] = append(out[d.Metadata.Name], v.Name)
			}
		}
	}
	return out
}

// knowsWhatIsStored fails the test where objects may be stored in a version that a release does not serve.
func (w *upgradeWorld) knowsWhatIsStored(t *testing.T, r release) {
	t.Helper()
	served := w.definitionsOf(t, r)
	for _, d := range w.list(t, w.root.Resource(definitions)) {
		stored, _, _ := unstructured.NestedStringSlice(d.Object, "status", "storedVersions")
		if d.GetLabels()["app.kubernetes.io/part-of"] != "ks-apiserver" || served[d.GetName()] == nil {
			continue // not of ours, or of a kind that this version brings, of which the previous one knows nothing
		}
		for _, version := range stored {
			if !slices.Contains(served[d.GetName()], version) {
				t.Errorf("objects of %s may be stored as %s, which the %s version does not serve: %v", d.GetName(), version, r.name, served[d.GetName()])
			}
		}
	}
	for name := range served {
		if _, err := w.root.Resource(definitions).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s, a kind of the %s version: %v", name, r.name, err)
		}
	}
}

// hasObjectsOf fails the test where there is no object of a kind of the release, so that nothing is said of that kind.
func (w *upgradeWorld) hasObjectsOf(t *testing.T, r release) {
	t.Helper()
	for name, versions := range w.definitionsOf(t, r) {
		plural, group, _ := strings.Cut(name, ".")
		of := w.root.Resource(schema.GroupVersionResource{Group: group, Version: versions[0], Resource: plural})
		if len(w.list(t, of)) == 0 {
			t.Errorf("there is no object of %s", name)
		}
	}
}

// policies are the names of our admission policies.
func (w *upgradeWorld) policies(t *testing.T) []string {
	t.Helper()
	return slices.Sorted(strings.Lines(w.kubectl(t, "get", "validatingadmissionpolicies,validatingadmissionpolicybindings",
		"-l", "app.kubernetes.io/part-of=ks-apiserver", "-o", "name")))
}

// lostNothing fails the test for objects that are gone, or that have become others.
func (w *upgradeWorld) lostNothing(t *testing.T, before storedObjects) {
	t.Helper()
	if lost := before.lostIn(w.objects(t), "traffic"); len(lost) > 0 {
		t.Errorf("%d of %d objects:\n%s", len(lost), len(before), strings.Join(lost, "\n"))
	}
}

// controllersWork waits until a controller of the version that runs has mirrored a role.
func (w *upgradeWorld) controllersWork(t *testing.T, name string) {
	t.Helper()
	if err := putBoundRole(t.Context(), w.root, "mirrored-"+name); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new role is mirrored", mirrored(w.root, "mirrored-"+name))
}

// isOfTheSystemsWorkspace waits until the namespaces of the system are in its workspace, which this version does and the previous one leaves so.
func (w *upgradeWorld) isOfTheSystemsWorkspace(t *testing.T) {
	t.Helper()
	eventually(t, "the namespaces of the system are in its workspace", func(ctx context.Context) error {
		for _, name := range []string{"default", "kube-system", "kubesphere-system"} {
			ns, err := w.root.Resource(namespacesOfCluster).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := ns.GetLabels()[workspaceLabel]; got != "system-workspace" {
				return fmt.Errorf("%s is in the workspace %q", name, got)
			}
		}
		return nil
	})
}

var namespacesOfCluster = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// canBeDeleted deletes what makeObjects made, and waits until it is gone: no finalizer of the other version is in its way.
func (w *upgradeWorld) canBeDeleted(t *testing.T, a caller, name string) {
	t.Helper()
	for _, path := range []string{
		tenants + "/workspaces/" + name + "/namespaces/" + name,
		tenants + "/workspacetemplates/" + name,
		iamAPI + "/users/" + name,
		iamAPI + "/groups/" + name,
		iamAPI + "/groupbindings/" + name,
		iamAPI + "/globalroles/" + name,
		iamAPI + "/globalrolebindings/" + name,
		iamAPI + "/clusterroles/" + name,
		iamAPI + "/clusterrolebindings/" + name,
		iamAPI + "/roletemplates/" + name,
		iamAPI + "/categories/" + name,
		iamAPI + "/builtinroles/" + name,
		"/apis/cluster.kubesphere.io/v1alpha1/labels/" + name,
		"/apis/cluster.kubesphere.io/v1alpha1/clusters/" + name,
	} {
		// Bindings go with the user, and with the role.
		if r, err := a.do(t.Context(), http.MethodDelete, path, nil); err != nil || r.code != http.StatusOK && r.code != http.StatusNotFound {
			t.Errorf("DELETE %s: %d %s %v", path, r.code, clip(r.body), err)
		}
	}
	eventually(t, "all that was deleted is gone", func(context.Context) error {
		var left []string
		for key := range maps.Keys(w.objects(t)) {
			// The quota and records of logins have a time of their own.
			if kind, _, _ := strings.Cut(key, " "); strings.HasSuffix(key, " "+name) && kind != "ResourceQuota" {
				left = append(left, key)
			}
		}
		if len(left) > 0 {
			slices.Sort(left)
			return errors.New(strings.Join(left, ", "))
		}
		return nil
	})
}
