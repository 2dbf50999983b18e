package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

// X21, X24, X27: an image that a chart wants to be run before it is installed runs as a Job, once what the chart asks for is approved, with the rights of
// that while it runs; where pages look for the log of an installation, they find its pod.
func TestAHookImageRunsAsAJob(t *testing.T) {
	a, name := admin(t), unique("hook")
	plan, jobs := platformAPI+"/installplans/"+name, "/apis/batch/v1/namespaces/extension-"+name+"/jobs"
	push(t, name, "1.0.0", base64.StdEncoding.EncodeToString(charttest.Pack(t, name, map[string]string{
		"Chart.yaml": fmt.Sprintf("{apiVersion: v2, name: %s, version: 1.0.0, annotations: "+
			"{executor-hook-image.kubesphere.io/install: 'registry.example.com/definitions:1', "+
			"executor-hook-image.kubesphere.io/uninstall: 'registry.example.com/cleaning:1'}}", name),
		"extension.yaml": fmt.Sprintf("{apiVersion: kubesphere.io/v1alpha1, name: %s, version: 1.0.0, installationMode: HostOnly}", name),
		"permissions.yaml": "kind: ClusterRole\nrules:\n- " +
			"{apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, create, patch]}\n",
		"templates/objects.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n",
	})))
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, plan, nil)
		_, _ = a.do(context.Background(), http.MethodDelete, "/api/v1/namespaces/extension-"+name, nil)
	})
	a.create(t, platformAPI+"/installplans", installPlan(name, "1.0.0", "", nil))
	within(t, 5*time.Minute, "it is installed", a.answersWith(http.StatusOK, plan, `"state":"Installed"`))
	a.answers(t, plan, `"jobName":"`+name+`-hook"`)
	a.answers(t, jobs+"/"+name+"-hook", `"HOOK_ACTION","value":"install"`, `"CLUSTER_ROLE","value":"host"`, `"image":"registry.example.com/definitions:1"`,
		`"serviceAccountName":"helm-executor.`+name+`"`, `"type":"Complete"`)
	eventually(t, "its pod is where pages look for it", a.answersWith(http.StatusOK,
		kapis+"/namespaces/extension-"+name+"/pods?labelSelector=job-name="+name+"-hook", `"name":"`+name+`-hook-`))
	for _, path := range []string{"clusterroles", "clusterrolebindings", "namespaces/extension-" + name + "/roles",
		"namespaces/extension-" + name + "/rolebindings"} {
		a.must(t, http.StatusNotFound, http.MethodGet, "/apis/rbac.authorization.k8s.io/v1/"+path+"/kubesphere:"+name+":helm-executor-hook", nil)
	}
	// X27: another one runs before the removal, which ends.
	uid := decode[struct{ Metadata struct{ UID string } }](t, a.must(t, http.StatusOK, http.MethodGet, plan, nil).body).Metadata.UID
	note := "/api/v1/namespaces/kubesphere-system/configmaps/extension-removal-hook-" + uid
	a.must(t, http.StatusOK, http.MethodGet, note, nil)
	a.must(t, http.StatusOK, http.MethodDelete, plan, nil)
	within(t, 5*time.Minute, "it is removed", a.is(http.StatusNotFound, http.MethodGet, plan))
	a.answers(t, jobs+"/"+name+"-hook", `"HOOK_ACTION","value":"uninstall"`, `"image":"registry.example.com/cleaning:1"`, `"type":"Complete"`)
	a.must(t, http.StatusNotFound, http.MethodGet, note, nil)
	a.must(t, http.StatusNotFound, http.MethodGet, "/api/v1/namespaces/extension-"+name+"/configmaps/web", nil)
}
