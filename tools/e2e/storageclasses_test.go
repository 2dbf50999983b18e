package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// What pages read of a storage class at /apis is in annotations of it: whether its driver may be asked for snapshots and clones, unless a user
// has said that, and how many claims name it.
func TestStorageClassesAreAnnotated(t *testing.T) {
	a, ns, driver, plain, with := admin(t), newNamespace(t), unique("driver")+".example.com", unique("plain"), unique("with")
	const classes, snapshot, clone = "/apis/storage.k8s.io/v1/storageclasses", "storageclass.kubesphere.io/allow-snapshot", "storageclass.kubesphere.io/allow-clone"
	class := func(name, provisioner string, annotations obj) {
		a.create(t, classes, obj{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": obj{"name": name, "annotations": annotations},
			"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})
	}
	class(plain, "none.example.com", obj{})
	class(with, driver, obj{clone: "false"})
	eventually(t, "a class without a driver has no claims", a.has(classes+"/"+plain, `"kubesphere.io/pvc-count":"0"`))
	a.create(t, "/apis/storage.k8s.io/v1/csidrivers", obj{"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": obj{"name": driver}, "spec": obj{}})
	eventually(t, "that of a driver may be asked for snapshots", a.has(classes+"/"+with, `"`+snapshot+`":"true"`, `"`+clone+`":"false"`))
	for _, name := range []string{"one", "two"} {
		a.create(t, "/api/v1/namespaces/"+ns+"/persistentvolumeclaims", obj{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": obj{"name": name},
			"spec": obj{"storageClassName": with, "accessModes": []any{"ReadWriteOnce"}, "resources": obj{"requests": obj{"storage": "1Gi"}}}})
	}
	eventually(t, "its claims are counted", a.has(classes+"/"+with, `"kubesphere.io/pvc-count":"2"`))
	a.must(t, http.StatusOK, http.MethodDelete, "/api/v1/namespaces/"+ns+"/persistentvolumeclaims/two", nil)
	eventually(t, "one is gone", a.has(classes+"/"+with, `"kubesphere.io/pvc-count":"1"`))
	if body := a.must(t, http.StatusOK, http.MethodGet, classes+"/"+plain, nil).body; strings.Contains(body, "allow-snapshot") {
		t.Errorf("a class without a driver says of snapshots: %s", body)
	}
}
