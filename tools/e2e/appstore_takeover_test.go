package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// bulkRelease is a release of many objects, on a control plane of its own.
type bulkRelease struct {
	t    *testing.T
	root dynamic.Interface
}

func (b bulkRelease) create(group, version, plural, namespace string, o obj) {
	b.t.Helper()
	gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
	var into dynamic.ResourceInterface = b.root.Resource(gvr)
	if namespace != "" {
		into = b.root.Resource(gvr).Namespace(namespace)
	}
	if _, err := into.Create(b.t.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
		b.t.Fatalf("%s: %v", plural, err)
	}
}

// prepare makes what the release needs: its author, the user root, who may do everything in the namespace, and a version.
func (b bulkRelease) prepare() {
	b.t.Helper()
	const group = "application.kubesphere.io"
	b.create("iam.kubesphere.io", "v1beta1", "users", "", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User", "metadata": obj{"name": "root"},
		"spec": obj{"email": "root@example.com", "password": password}})
	b.create("", "v1", "namespaces", "", obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": "bulk-store",
		"labels": obj{workspaceLabel: "system-workspace"}}})
	b.create("rbac.authorization.k8s.io", "v1", "rolebindings", "bulk-store", obj{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
		"metadata": obj{"name": "root"}, "roleRef": obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
		"subjects": []any{obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "root"}}})
	b.create(group, "v2", "applications", "", obj{"apiVersion": group + "/v2", "kind": "Application", "metadata": obj{"name": "bulk",
		"labels": obj{workspaceLabel: "system-workspace"}}, "spec": obj{"appType": "helm"}})
	b.create("", "v1", "configmaps", "extension-openpitrix", obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "bulk-1.0.0"},
		"binaryData": obj{"BinaryKey": base64.StdEncoding.EncodeToString(redisChart(b.t, "1.0.0", ""))}})
	b.create(group, "v2", "applicationversions", "", obj{"apiVersion": group + "/v2", "kind": "ApplicationVersion", "metadata": obj{"name": "bulk-1.0.0",
		"labels": obj{group + "/app-id": "bulk", workspaceLabel: "system-workspace"}}, "spec": obj{"versionName": "1.0.0", "appType": "helm"}})
	gvr := schema.GroupVersionResource{Group: group, Version: "v2", Resource: "applicationversions"}
	eventually(b.t, "the version is active", func(ctx context.Context) error {
		now, err := b.root.Resource(gvr).Get(ctx, "bulk-1.0.0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(now.Object, "active", "status", "state"); err != nil {
			return err
		}
		_, err = b.root.Resource(gvr).UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
	eventually(b.t, "the user is active", func(ctx context.Context) error {
		u, err := b.root.Resource(iamResource("users")).Get(ctx, "root", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if state, _, _ := unstructured.NestedString(u.Object, "status", "state"); state != "Active" {
			return fmt.Errorf("the user is %q", state)
		}
		return nil
	})
	r := appRelease("bulk", "system-workspace", "bulk-store", "bulk", "bulk-1.0.0", obj{"many": int64(many)})
	r["metadata"].(obj)["annotations"] = obj{group + "/req-user": "root"}
	b.create(group, "v2", "applicationreleases", "", r)
}

// records returns an error unless the release has these records, by their status.
func (b bulkRelease) records(want ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		l, err := b.root.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("bulk-store").
			List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
		if err != nil {
			return err
		}
		var got []string
		for i := range l.Items {
			got = append(got, l.Items[i].GetLabels()["status"])
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("the records are %q, want %q", got, want)
		}
		return nil
	}
}

// state returns an error unless the release is in a state.
func (b bulkRelease) state(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := b.root.Resource(schema.GroupVersionResource{Group: "application.kubesphere.io", Version: "v2", Resource: "applicationreleases"}).
			Get(ctx, "bulk", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if state, _, _ := unstructured.NestedString(r.Object, "status", "state"); state != want {
			return fmt.Errorf("the release is %v", r.Object["status"])
		}
		return nil
	}
}

// X26, X33: a ks-controller-manager is killed while it installs an application, and the other one finishes that.
func TestTheOtherManagerFinishesARelease(t *testing.T) {
	t.Parallel() // it has a control plane of its own
	dir := newPlane(t)
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join("hack", "install.sh"))
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "KUBECTL="+product.Program("kubectl"), "KUBECONFIG="+filepath.Join(dir, "kubeconfig"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubesphere.yaml"), []byte("multicluster: {clusterRole: host}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	configAt(t, dir, filepath.Join(dir, "manager.kubeconfig"), "system:serviceaccount:kubesphere-system:ks-controller-manager",
		"system:serviceaccounts", "system:serviceaccounts:kubesphere-system")
	replicas := []*managerReplica{newManager(t), newManager(t)}
	url := "https://" + balance(t, "127.0.0.1", replicas[0].hook, replicas[1].hook)
	for i, m := range replicas {
		m.start(t, product.Program("ks-controller-manager"), dir, url, "--config", filepath.Join(dir, "kubesphere.yaml"))
		eventually(t, "replica "+strconv.Itoa(i)+" is ready", m.ready())
	}
	b := bulkRelease{t, clientAt(t, dir, "root", "system:masters")}
	b.prepare()
	eventually(t, "its record is written", b.records("pending-install"))
	for _, m := range replicas {
		if text, err := os.ReadFile(m.log); err == nil && strings.Contains(string(text), "uccessfully acquired lease") {
			m.kill()
		}
	}
	eventually(t, "the other finishes it", b.state("active"))
	if err := b.records("deployed", "failed")(t.Context()); err != nil {
		t.Error(err)
	}
	l, err := b.root.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("bulk-store").
		List(t.Context(), metav1.ListOptions{LabelSelector: "application.kubesphere.io/app-release-name=bulk"})
	if err != nil || len(l.Items) != many+1 {
		t.Errorf("%d objects, %v", len(l.Items), err)
	}
}
