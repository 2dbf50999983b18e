package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// What the console's pages of volumes and storage classes show of what uses them.
func TestClaimsAndStorageClassesShowWhatUsesThem(t *testing.T) {
	a, ns, class := admin(t), newNamespace(t), unique("class")
	core, classes := "/api/v1/namespaces/"+ns, "/kapis/storage.k8s.io/v1/storageclasses"
	a.create(t, "/apis/storage.k8s.io/v1/storageclasses", map[string]any{
		"apiVersion":        "storage.k8s.io/v1",
		"kind":              "StorageClass",
		"metadata":          map[string]any{"name": class},
		"provisioner":       "none.example/x",
		"volumeBindingMode": "WaitForFirstConsumer",
	})
	for _, name := range []string{"used", "idle"} {
		a.create(t, core+"/persistentvolumeclaims", map[string]any{
			"apiVersion": "v1",
			"kind":       "PersistentVolumeClaim",
			"metadata":   map[string]any{"name": name},
			"spec": map[string]any{
				"storageClassName": class,
				"accessModes":      []any{"ReadWriteOnce"},
				"resources":        map[string]any{"requests": map[string]any{"storage": "1Gi"}},
			},
		})
	}
	lists := kapis + "/namespaces/" + ns + "/persistentvolumeclaims"
	says := func(text string, n int) func(context.Context) error {
		return func(ctx context.Context) error {
			r, err := a.do(ctx, http.MethodGet, lists, nil)
			if err == nil && (r.code != http.StatusOK || strings.Count(r.body, text) != n) {
				err = fmt.Errorf("%d %s, want %s %d times", r.code, clip(r.body), text, n)
			}
			return err
		}
	}
	eventually(t, "two claims that nothing mounts", says(`"kubesphere.io/in-use":"false"`, 2))
	before := a.must(t, http.StatusOK, http.MethodGet, lists, nil).header.Get("ETag")
	eventually(t, "a pod", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodPost, core+"/pods", map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{
				"containers": []any{map[string]any{"name": "c", "image": "none.example/x"}},
				"volumes":    []any{map[string]any{"name": "v", "persistentVolumeClaim": map[string]any{"claimName": "used"}}},
			},
		})
		if err == nil && r.code != http.StatusCreated && r.code != http.StatusConflict {
			err = errors.New(clip(r.body))
		}
		return err
	})
	eventually(t, "the claim is in use", a.has(lists+"/used", `"kubesphere.io/in-use":"true"`))
	eventually(t, "one of the list is", says(`"kubesphere.io/in-use":"true"`, 1))
	if r := a.must(t, http.StatusOK, http.MethodGet, lists, nil, "If-None-Match: "+before); r.header.Get("ETag") == before {
		t.Error("the page has the tag of the one before")
	}

	eventually(t, "the class counts them", a.has(classes+"/"+class, `"kubesphere.io/pvc-count":"2"`))
	eventually(t, "in the list, too", a.has(classes+"?names="+class, `"kubesphere.io/pvc-count":"2"`))
	eventually(t, "and at the other routes", a.has(kapis+"/storageclasses?names="+class, `"kubesphere.io/pvc-count":"2"`))
	if text := newUser(t, unique("stranger")).must(t, http.StatusOK, http.MethodGet, classes+"/"+class, nil).body; strings.Contains(text, "pvc-count") {
		t.Errorf("who may not list claims sees how many there are: %s", text)
	}
}
