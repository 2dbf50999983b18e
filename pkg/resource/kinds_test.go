package resource

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/kind"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// served are the kinds of a cluster that serves every kind with fields of its own.
var served = map[schema.GroupVersion]string{ // "+" marks a kind in namespaces
	{Version: "v1"}:                                       "pods+ services+ secrets+ configmaps+ persistentvolumeclaims+ serviceaccounts+ nodes namespaces persistentvolumes",
	{Group: "apps", Version: "v1"}:                        "deployments+ statefulsets+ daemonsets+ replicasets+",
	{Group: "batch", Version: "v1"}:                       "jobs+ cronjobs+",
	{Group: "autoscaling", Version: "v2"}:                 "horizontalpodautoscalers+",
	{Group: "networking.k8s.io", Version: "v1"}:           "ingresses+",
	{Group: "storage.k8s.io", Version: "v1"}:              "storageclasses",
	{Group: "apiextensions.k8s.io", Version: "v1"}:        "customresourcedefinitions",
	{Group: "rbac.authorization.k8s.io", Version: "v1"}:   "roles+ clusterroles rolebindings+ clusterrolebindings",
	{Group: "cluster.kubesphere.io", Version: "v1alpha1"}: "clusters labels",
	{Group: "tenant.kubesphere.io", Version: "v1beta1"}:   "workspaces workspacetemplates",
	{Group: "iam.kubesphere.io", Version: "v1beta1"}: "users groups loginrecords groupbindings globalroles clusterroles workspaceroles roles+ " +
		"globalrolebindings clusterrolebindings workspacerolebindings rolebindings+",
	{Group: "kubesphere.io", Version: "v1alpha1"}: "extensions",
	{Group: "example.com", Version: "v1"}:         "widgets+ gadgets",
}

func everything() storetest.Kinds {
	all := storetest.Kinds{}
	for gv, names := range served {
		for name := range strings.FieldsSeq(names) {
			plural, namespaced := strings.CutSuffix(name, "+")
			all[gv] = append(all[gv], metav1.APIResource{Name: plural, Kind: strings.ToUpper(plural), Namespaced: namespaced, Verbs: verbs})
		}
	}
	return all
}

// newCluster is newWorld with every kind.
func newCluster(t testing.TB, objects map[string][]string, o Options) *world {
	return openWorld(t, objects, o, store.Options{Discovery: everything()})
}

// obj writes an object: key is name or namespace/name, meta and rest are members of metadata and of the object.
func obj(key, meta, rest string) string {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		namespace, name = "", key
	}
	if meta != "" {
		meta = "," + meta
	}
	if rest != "" {
		rest = "," + rest
	}
	return fmt.Sprintf(
		`{"kind":"K","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"uid-%s","resourceVersion":"7"%s}%s}`,
		name,
		namespace,
		name,
		meta,
		rest,
	)
}

func at(second int) string {
	return fmt.Sprintf(`"creationTimestamp":"2026-01-01T00:00:%02dZ"`, second)
}

func labelled(pairs ...string) string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, fmt.Sprintf("%q:%q", pairs[i], pairs[i+1]))
	}
	return `"labels":{` + strings.Join(out, ",") + "}"
}

func binding(key, role, meta string, users ...string) string {
	var subjects []string
	for _, u := range users {
		kind, name, ok := strings.Cut(u, ":")
		if !ok {
			kind, name = "User", u
		}
		subjects = append(subjects, fmt.Sprintf(`{"kind":%q,"name":%q}`, kind, name))
	}
	return obj(key, meta, fmt.Sprintf(`"roleRef":{"name":%q},"subjects":[%s]`, role, strings.Join(subjects, ",")))
}

func workload(key, meta string, want, ready int) string {
	return obj(key, meta, fmt.Sprintf(`"spec":{"replicas":%d},"status":{"readyReplicas":%d}`, want, ready))
}

// clusterObjects is a small cluster in which every filter and every sort key distinguishes objects.
func clusterObjects() map[string][]string {
	const iam, v1 = "/apis/" + "iam.kubesphere.io" + "/v1beta1/", "/api/v1/"
	deployment := func(name, status string) string { return obj("a/"+name, "", status) }
	return map[string][]string{
		v1 + "pods": {
			obj(
				"a/p1",
				at(1)+","+labelled("app", "web")+`,"ownerReferences":[{"kind":"ReplicaSet","name":"d-1","uid":"uid-rs1"}]`,
				`"spec":{"nodeName":"n1","volumes":[{"persistentVolumeClaim":{"claimName":"c1"}}]},"status":{"phase":"Running","podIP":"10.0.0.1","startTime":"2026-01-03T00:00:00Z"}`,
			),
			obj("a/p2", at(2)+","+labelled("app", "db")+`,"ownerReferences":[{"kind":"StatefulSet","name":"db","uid":"0a1b2c3d-0000-4000-8000-00000000000a"}]`,
				`"spec":{"nodeName":"n2"},"status":{"phase":"Failed","podIP":"10.0.1.1","startTime":"2026-01-01T00:00:00Z"}`),
			obj("b/p3", at(3)+","+labelled("app", "web"), `"spec":{},"status":{"phase":"Pending"}`),
			obj("b/p4", at(4)+","+labelled("app", "api"), `"spec":{"nodeName":"n1"},"status":{"phase":"Succeeded","startTime":"2026-01-02T00:00:00Z"}`),
		},
		v1 + "services": {
			obj("a/front", "", `"spec":{"selector":{"app":"web"}}`),
			obj("b/front", "", `"spec":{"selector":{"app":"api"}}`),
			obj("a/none", "", `"spec":{}`),
		},
		"/apis/apps/v1/replicasets": {obj("a/rs1", `"ownerReferences":[{"kind":"Deployment","name":"d","uid":"uid-d"}]`, "")},
		"/apis/apps/v1/deployments": {
			deployment("stop", `"spec":{"replicas":0},"status":{"conditions":[{"lastUpdateTime":"2026-01-02T00:00:00Z"},{"lastUpdateTime":"2026-01-05T00:00:00Z"}]}`),
			deployment("run", `"spec":{},"status":{"readyReplicas":1,"conditions":[{"lastUpdateTime":"2026-01-04T00:00:00Z"}]}`),
			deployment("up", `"spec":{"replicas":3},"status":{"readyReplicas":1,"conditions":[{"lastUpdateTime":"2026-01-06T00:00:00Z"}]}`),
		},
		"/apis/apps/v1/statefulsets": {workload("a/stop", at(3), 0, 0), workload("a/run", at(1), 2, 2), workload("a/up", at(2), 2, 1)},
		"/apis/apps/v1/daemonsets": {
			obj("a/stop", "", `"status":{"desiredNumberScheduled":0,"numberReady":0}`), obj("a/run", "", `"status":{"desiredNumberScheduled":2,"numberReady":2}`),
			obj("a/up", "", `"status":{"desiredNumberScheduled":2,"numberReady":1}`),
		},
		"/apis/batch/v1/jobs": {
			obj(
				"a/done",
				at(1),
				`"status":{"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Complete","status":"True","lastTransitionTime":"2026-01-09T00:00:00Z"}]}`,
			),
			obj("a/broke", at(2), `"status":{"conditions":[{"type":"Failed","status":"True","lastTransitionTime":"2026-01-08T00:00:00Z"}]}`),
			obj("a/busy", at(3), `"status":{"startTime":"2026-01-07T00:00:00Z","conditions":[{"type":"Complete","status":"False"}]}`),
		},
		"/apis/batch/v1/cronjobs": {obj("a/on", "", `"spec":{"suspend":false}`), obj("a/off", "", `"spec":{"suspend":true}`)},
		v1 + "nodes": {
			obj(
				"ok",
				at(1)+","+labelled("node-role.kubernetes.io/control-plane", ""),
				`"spec":{},"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"DiskPressure","status":"False"}],"capacity":{"memory":"900Mi","cpu":"2"}}`,
			),
			obj(
				"full",
				at(2),
				`"spec":{},"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"DiskPressure","status":"True"}],"capacity":{"memory":"2Gi","cpu":"500m"}}`,
			),
			obj(
				"shut",
				at(3)+","+labelled("node-role.kubernetes.io/master", ""),
				`"spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"True"}],"capacity":{"memory":"1Gi","cpu":"10"}}`,
			),
		},
		v1 + "namespaces": {
			obj(
				"a",
				labelled(plan.WorkspaceLabel, "w1", "kubesphere.io/managed", "true"),
				`"status":{"phase":"Active"}`,
			),
			obj("b", labelled(plan.WorkspaceLabel, "w2"), `"status":{"phase":"Terminating"}`),
			obj("free", "", `"status":{"phase":"Active"}`),
		},
		v1 + "persistentvolumeclaims": {
			obj(
				"a/c1",
				"",
				`"spec":{"storageClassName":"local"},"status":{"phase":"Bound"}`,
			),
			obj("a/c2", "", `"spec":{"storageClassName":"nfs"},"status":{"phase":"Pending"}`),
			obj("a/c3", "", `"spec":{},"status":{"phase":"Lost"}`),
		},
		v1 + "persistentvolumes": {
			obj("v1", "", `"spec":{"storageClassName":"local","capacity":{"storage":"10Gi"}},"status":{"phase":"Bound"}`),
			obj("v2", "", `"spec":{"storageClassName":"nfs","capacity":{"storage":"9Ti"}},"status":{"phase":"Released"}`),
		},
		"/apis/networking.k8s.io/v1/ingresses":   {obj("a/i1", at(2), ""), obj("a/i2", at(1), "")},
		"/apis/storage.k8s.io/v1/storageclasses": {obj("local", at(1), `"provisioner":"x"`), obj("nfs", at(2), `"provisioner":"y"`)},
		"/apis/autoscaling/v2/horizontalpodautoscalers": {
			obj(
				"a/h1",
				"",
				`"spec":{"scaleTargetRef":{"kind":"Deployment","name":"run"}}`,
			),
			obj("a/h2", "", `"spec":{"scaleTargetRef":{"kind":"StatefulSet","name":"run"}}`),
		},
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
			obj(
				"widgets.example.com",
				labelled(servedLabel, "true"),
				`"spec":{"names":{"kind":"Widget"}}`,
			),
			obj("gadgets.example.com", "", `"spec":{"names":{"kind":"FineGadget"}}`),
		},
		v1 + "secrets":    {obj("a/s1", "", `"type":"kubernetes.io/dockerconfigjson","data":{"x":"eA=="}`), obj("a/s2", "", `"type":"Opaque"`)},
		v1 + "configmaps": {obj("a/m1", "", `"data":{"x":"y"}`)},

		iam + "users": {
			obj(
				"admin",
				at(1)+`,"annotations":{"iam.kubesphere.io/globalrole":"platform-admin"}`,
				`"spec":{"email":"admin@example.com","groups":["ops","dev"],"password":"x"}`,
			),
			obj("bob", at(2)+","+labelled("team", "x"), `"spec":{"email":"bob@example.com","groups":["dev"]}`),
			obj("carol", at(3)+","+labelled("team", "x"), `"spec":{"email":"carol@example.com"}`),
			obj("dan", at(4), `"spec":{}`),
		},
		iam + "rolebindings": {
			binding(
				"a/r1",
				"admin",
				"",
				"bob",
				"Group:dev",
			),
			binding("a/r2", "viewer", "", "carol", "dan", "ServiceAccount:admin"),
			binding("b/r3", "admin", "", "carol"),
		},
		iam + "workspacerolebindings": {
			binding("wb1", "w1-admin", labelled(plan.WorkspaceLabel, "w1"), "bob"),
			binding("wb2", "w1-viewer", labelled(plan.WorkspaceLabel, "w1"), "dan"),
			binding("wb3", "w1-admin", labelled(plan.WorkspaceLabel, "w2"), "carol"),
		},
		iam + "clusterrolebindings": {binding("cb1", "cluster-admin", "", "admin"), binding("cb2", "cluster-viewer", "", "bob", "gone")},
		iam + "globalrolebindings":  {binding("gb1", "platform-admin", "", "admin"), binding("gb2", "platform-regular", "", "bob", "carol")},
		iam + "groupbindings": {
			obj("g1", "", `"groupRef":{"name":"dev"},"users":["bob","admin"]`),
			obj("g2", "", `"groupRef":{"name":"ops"},"users":["admin"]`),
		},
		iam + "groups": {obj("dev", "", ""), obj("ops", "", "")},
		iam + "loginrecords": {
			obj(
				"l1",
				at(1)+","+labelled("iam.kubesphere.io/user-ref", "bob"),
				`"spec":{"type":"Login"}`,
			),
			obj("l2", at(2)+","+labelled("iam.kubesphere.io/user-ref", "bob"), `"spec":{"type":"Token"}`),
			obj("l3", at(3)+","+labelled("iam.kubesphere.io/user-ref", "dan"), `"spec":{"type":"Login"}`),
		},
		iam + "globalroles": {
			obj(
				"top",
				`"annotations":{"iam.kubesphere.io/aggregation-roles":"[\"part1\",\"part2\"]"}`,
				"",
			),
			obj("part1", "", ""),
			obj("part2", "", ""),
			obj("own", `"annotations":{"kubesphere.io/creator":"bob"}`, ""),
			obj("broken", `"annotations":{"iam.kubesphere.io/aggregation-roles":"part1"}`, ""),
		},
		iam + "clusterroles": {obj("top", `"annotations":{"iam.kubesphere.io/aggregation-roles":"[\"part1\"]"}`, ""), obj("part1", "", "")},
		iam + "workspaceroles": {
			obj("w1-admin", labelled(plan.WorkspaceLabel, "w1")+`,"annotations":{"iam.kubesphere.io/aggregation-roles":"[\"w1-part\"]"}`, ""),
			obj("w1-part", labelled(plan.WorkspaceLabel, "w1"), ""),
			obj("w2-admin", labelled(plan.WorkspaceLabel, "w2"), ""),
		},
		iam + "roles": {
			obj("a/admin", `"annotations":{"iam.kubesphere.io/aggregation-roles":"[\"x\"]"}`, ""), obj("a/x", "", ""), obj("a/y", "", ""),
			obj("b/admin", `"annotations":{"iam.kubesphere.io/aggregation-roles":"[\"y\"]"}`, ""), obj("b/x", "", ""), obj("b/y", "", ""), obj("free/x", "", ""),
		},
		"/apis/rbac.authorization.k8s.io/v1/roles": {
			obj("a/native", `"annotations":{"iam.kubesphere.io/aggregation-roles":"[\"other\"]"}`, ""),
			obj("a/other", "", ""),
		},
		"/apis/rbac.authorization.k8s.io/v1/clusterroles": {
			obj("native", `"annotations":{"iam.kubesphere.io/aggregation-roles":"[\"other\"]"}`, ""),
			obj("other", "", ""),
		},

		"/apis/" + "tenant.kubesphere.io" + "/v1beta1/workspaces": {
			obj("w1", at(1)+`,"annotations":{"kubesphere.io/alias-name":"First Shop"}`, ""),
			obj("w2", at(2), ""),
		},
		"/apis/" + "tenant.kubesphere.io" + "/v1beta1/workspacetemplates": {obj("w1", at(1), ""), obj("w2", at(2), "")},
		"/apis/cluster.kubesphere.io/v1alpha1/clusters": {
			obj(
				"host",
				at(1)+","+labelled("cluster-role.kubesphere.io/host", "", "cluster.kubesphere.io/visibility", "public"),
				`"spec":{"connection":{"token":"t","kubeconfig":"k","type":"direct"}}`,
			),
			obj("edge", at(2)+","+labelled("cluster-role.kubesphere.io/edge", ""), `"spec":{"connection":{"type":"proxy"}}`),
		},
		"/apis/cluster.kubesphere.io/v1alpha1/labels": {obj("l1", "", `"spec":{"key":"env","value":"prod"}`), obj("l2", "", `"spec":{"key":"env","value":"test"}`)},
		"/apis/example.com/v1/widgets":                {obj("a/w", "", ""), obj("b/w", "", "")},
		"/apis/kubesphere.io/v1alpha1/extensions": {
			obj("shop", at(4)+","+labelled("kubesphere.io/category", "trade"),
				`"spec":{"displayName":{"en":"The Market","zh":"商店"}},"status":{"recommendedVersion":"1.0.0","state":"Installed","enabled":true,`+
					`"versions":[{"version":"1.0.0","creationTimestamp":"2026-02-01T00:00:00Z"}]}`),
			obj("pay", at(3), `"spec":{"displayName":{"en":"Payments"}},"status":{"recommendedVersion":"2.0.0",`+
				`"versions":[{"creationTimestamp":"2025-01-01T00:00:00Z"},{"creationTimestamp":"2026-03-01T00:00:00Z"},{}]}`),
			obj("old", at(2), `"spec":{},"status":{"state":"UpgradeFailed","enabled":false}`),
			obj("new", at(1), `"spec":{"displayName":"x"},"status":{}`),
			obj("gone", at(5), `"spec":{},"status":{"recommendedVersion":"1.0.0","state":"Uninstalled"}`),
		},
		"/apis/example.com/v1/gadgets": {
			obj("g1", labelled(plan.WorkspaceLabel, "w1"), ""),
			obj("g2", labelled(plan.WorkspaceLabel, "w2"), ""),
			obj("g3", "", ""),
		},
	}
}

// Every filter and sort key that the reference and its console have, for each kind, in ascending order.
func TestFiltersAndSortKeysOfKinds(t *testing.T) {
	w := newCluster(t, clusterObjects(), Options{})
	for _, c := range []struct{ kind, raw, want string }{
		{"pods", "nodeName=n1", "p1 p4"}, {"pods", "nodeName=", "p3"}, {"pods", "fieldSelector=spec.nodeName=n1", "p1 p4"},
		{"pods", "fieldSelector=spec.nodeName!=n1", "p2 p3"}, {"pods", "fieldSelector=$.spec.nodeName=~N1", "p1 p4"},
		{"pods", "pvcName=c1", "p1"}, {"pods", "pvcName=c", ""}, {"pods", "status=Running", "p1"}, {"pods", "status=running|Error", "p1 p2"},
		{"pods", "status=Waiting", "p3"},
		{"pods", "status=Completed", "p4"}, {"pods", "status=Odd", ""}, {"pods", "phase=Pending", "p3"}, {"pods", "phase=pending|failed", "p2 p3"},
		{"pods", "fieldSelector=status.phase=Failed", "p2"}, {"pods", "podIP=10.0", "p1 p2"}, {"pods", "fieldSelector=status.podIP=10.0.0.1", "p1"},
		{"pods", "serviceName=front", "p1 p4"}, {"pods", "serviceName=front&namespace=b", "p4"}, {"pods", "serviceName=none", ""}, {"pods", "serviceName=absent", ""},
		{"pods", "ownerReference=uid-rs1", "p1"}, {"pods", "ownerReference=uid-d", "p1"}, {"pods", "ownerReference=db", "p2"}, {"pods", "ownerReference=d-1", "p1"},
		{"pods", "ownerReference=0a1b2c3d-0000-4000-8000-00000000000a", "p2"}, {"pods", "ownerReference=0a1b2c3d-0000-4000-8000-00000000000b", ""},
		{"pods", "ownerKind=StatefulSet", "p2"}, {"pods", "sortBy=startTime", "p3 p2 p4 p1"}, {"pods", "sortBy=.status.startTime", "p3 p2 p4 p1"},
		{"pods", "sortBy=.metadata.labels['app'],name", "p4 p2 p1 p3"}, {"pods", "sortBy=.spec.nodeName,.metadata.name", "p3 p1 p4 p2"},
		{"pods", "sortBy=updateTime", "p1 p2 p3 p4"}, {"pods", "sortBy=.metadata.creationTimestamp", "p1 p2 p3 p4"}, {"pods", "sortBy=namespace", "p1 p2 p3 p4"},
		{"pods", "labelSelector=app=web|app=api", "p1 p3 p4"}, {"pods", "labelSelector=app=web|!app", "p1 p3"}, {"pods", "labelSelector=app=undefined", ""},
		{"pods", "fieldSelector=metadata.labels['app']=web", "p1 p3"}, {"pods", "fieldSelector=metadata.labels['x']=", "p1 p2 p3 p4"},
		{"pods", "hasStatus=false&statistics=true&conditions=status%3Dactive&unknown=", "p1 p2 p3 p4"}, {"pods", "uid=uid-p2", "p2"},
		{"pods", "names=p1,p4", "p1 p4"},

		{"deployments", "status=stopped", "stop"}, {"deployments", "status=running", "run"}, {"deployments", "status=updating", "up"},
		{"deployments", "sortBy=updateTime", "run stop up"}, {"deployments", "sortBy=lastUpdateTimestamp", "run stop up"},
		{"statefulsets", "status=stopped", "stop"}, {"statefulsets", "status=running", "run"}, {"statefulsets", "status=updating", "up"},
		{"statefulsets", "sortBy=createTime", "run up stop"},
		{"statefulsets", "sortBy=.spec.replicas,name", "stop run up"},
		{"daemonsets", "status=stopped", "stop"}, {"daemonsets", "status=running", "run"}, {"daemonsets", "status=updating", "up"},
		{"jobs", "status=completed", "done"}, {"jobs", "status=failed", "broke"}, {"jobs", "status=running", "busy"}, {"jobs", "status=failed|running", "broke busy"},
		{"jobs", "sortBy=updateTime", "busy broke done"}, {"jobs", "sortBy=lastUpdateTimestamp", "busy broke done"}, {"jobs", "sortBy=status", "done broke busy"},
		{"cronjobs", "status=paused", "off"}, {"cronjobs", "status=running", "on"}, {"cronjobs", "sortBy=status", "off on"},
		{"cronjobs", `sortBy={"deployments":"updateTime","pods":"startTime"}`, "off on"},
		{"nodes", "status=unschedulable", "shut"}, {"nodes", "status=warning", "full"}, {"nodes", "status=running", "ok"}, {"nodes", "sortBy=name", "full ok shut"},
		{"nodes", "labelSelector=node-role.kubernetes.io/master|node-role.kubernetes.io/control-plane", "ok shut"},
		{"nodes", "labelSelector=!node-role.kubernetes.io/edge", "full ok shut"},
		{"nodes", "sortBy=.status.capacity.memory", "ok shut full"}, {"nodes", "sortBy=.status.capacity.cpu", "full ok shut"},
		{"namespaces", "status=Active", "a free"}, {"namespaces", "status=terminating", "b"}, {"namespaces", "labelSelector=kubesphere.io/workspace!=w1", "b free"},
		{"namespaces", "label=kubesphere.io/workspace=w1", "a"}, {"namespaces", "labelSelector=kubesphere.io/managed=true,kubesphere.io/kubefed-host-namespace!=true",
			"a"},
		{"persistentvolumeclaims", "status=bound", "c1"}, {"persistentvolumeclaims", "status=pending|lost", "c2 c3"},
		{"persistentvolumeclaims", "storageClassName=local", "c1"},
		{"persistentvolumeclaims", "fieldSelector=spec.storageClassName=nfs", "c2"}, {"persistentvolumeclaims", "fieldSelector=spec.storageClassName=", "c3"},
		{"persistentvolumes", "status=Bound", "v1"}, {"persistentvolumes", "storageClassName=nfs", "v2"},
		{"persistentvolumes", "sortBy=.spec.capacity.storage", "v1 v2"},
		{"ingresses", "sortBy=updateTime", "i2 i1"}, {"storageclasses", "sortBy=createTime", "local nfs"}, {"storageclasses", "fieldSelector=provisioner=y", "nfs"},
		{"horizontalpodautoscalers", "targetKind=Deployment&targetName=run", "h1"}, {"horizontalpodautoscalers", "targetName=run", "h1 h2"},
		{"customresourcedefinitions", "name=Gadget", "gadgets.example.com"}, {"customresourcedefinitions", "name=widgets.ex", "widgets.example.com"},
		{"customresourcedefinitions", "name=example.com", "gadgets.example.com widgets.example.com"},
		{"secrets", "type=Opaque", "s2"}, {"secrets", "fieldSelector=type=kubernetes.io/dockerconfigjson", "s1"}, {"secrets", "fieldSelector=$.type=Opaque", "s2"},
		{"secrets", "fieldSelector=type!=Opaque", "s1"},
		{"secrets", "fieldSelector=data.x=eA==", ""}, {"services", "name=front", "front front"}, {"configmaps", "name=m", "m1"},

		{"iam.kubesphere.io" + "/users", "email=bob@example.com", "bob"}, {"iam.kubesphere.io" + "/users", "fieldSelector=spec.email=bob@example.com", "bob"},
		{"iam.kubesphere.io" + "/users", "fieldSelector=spec.email=undefined", ""},
		{"iam.kubesphere.io" + "/users", "namespace=a", "bob carol dan"}, {"iam.kubesphere.io" + "/users", "namespace=a&role=viewer", "carol dan"},
		{"iam.kubesphere.io" + "/users", "namespace=absent", ""},
		{"iam.kubesphere.io" + "/users", "workspace=w1", "bob dan"}, {"iam.kubesphere.io" + "/users", "workspace=w1&workspacerole=w1-admin", "bob"},
		{"iam.kubesphere.io" + "/users", "cluster=true", "admin bob"},
		{"iam.kubesphere.io" + "/users", "cluster=true&clusterrole=cluster-viewer", "bob"}, {"iam.kubesphere.io" + "/users", "cluster=false", "admin bob carol dan"},
		{"iam.kubesphere.io" + "/users", "globalrole=platform-regular", "bob carol"},
		{"iam.kubesphere.io" + "/users", "namespace=a&labelSelector=team=x", "bob carol"},
		{"iam.kubesphere.io" + "/users", "globalrole=platform-regular&namespace=a&role=viewer", "carol"},
		{"iam.kubesphere.io" + "/users", "globalrole=&name=", "admin bob carol dan"},
		{"iam.kubesphere.io" + "/users", "ingroup=dev", "admin bob"}, {"iam.kubesphere.io" + "/users", "notingroup=dev", "carol dan"},
		{"iam.kubesphere.io" + "/users", "annotation=iam.kubesphere.io/globalrole", "admin"}, {"iam.kubesphere.io" + "/users", "names=bob,dan&limit=-1", "bob dan"},
		{"iam.kubesphere.io" + "/rolebindings", "rolename=admin", "r1 r3"}, {"iam.kubesphere.io" + "/workspacerolebindings", "rolename=w1-admin", "wb1 wb3"},
		{"iam.kubesphere.io" + "/clusterrolebindings", "rolename=cluster-admin", "cb1"},
		{"iam.kubesphere.io" + "/globalrolebindings", "rolename=platform-admin", "gb1"}, {"iam.kubesphere.io" + "/groupbindings", "user=admin", "g1 g2"},
		{"iam.kubesphere.io" + "/groupbindings", "user=bob", "g1"}, {"iam.kubesphere.io" + "/groups", "name=op", "ops"},
		{"iam.kubesphere.io" + "/loginrecords", "type=Login", "l1 l3"}, {"iam.kubesphere.io" + "/loginrecords",
			"type=Login&labelSelector=iam.kubesphere.io/user-ref=bob", "l1"},
		{"iam.kubesphere.io" + "/globalroles", "aggregateTo=top", "part1 part2"}, {"iam.kubesphere.io" + "/globalroles", "aggregateTo=broken", ""},
		{"iam.kubesphere.io" + "/globalroles", "aggregateTo=absent", ""},
		{"iam.kubesphere.io" + "/globalroles", "annotation=kubesphere.io/creator", "own"}, {"iam.kubesphere.io" + "/clusterroles", "aggregateTo=top", "part1"},
		{"iam.kubesphere.io" + "/workspaceroles", "workspace=w1", "w1-admin w1-part"},
		{"iam.kubesphere.io" + "/workspaceroles", "aggregateTo=w1-admin&workspace=w1", "w1-part"}, {"iam.kubesphere.io" + "/roles", "aggregateTo=admin", "x y"},
		{"iam.kubesphere.io" + "/roles", "aggregateTo=admin&namespace=a", "x"},
		{"rbac.authorization.k8s.io" + "/roles", "aggregateTo=native", "other"}, {"rbac.authorization.k8s.io" + "/clusterroles", "aggregateTo=native", "other"},

		{"extensions", "q=market", "shop"}, {"extensions", "q=商店", "shop"}, {"extensions", "q=the+trade", "shop"}, {"extensions", "q=PAY", "pay"},
		{"extensions", "status=notInstalled", "gone new pay"}, {"extensions", "status=NOTINSTALLED&available=true", "gone pay"},
		{"extensions", "status=installed|notinstalled", "gone new pay shop"}, {"extensions", "status=UpgradeFailed|", "new old pay"},
		{"extensions", "sortBy=installTimestamp", "new old pay shop gone"}, {"extensions", "sortBy=updateTimestamp", "new old pay shop gone"},
		{"extensions", "sortBy=versionUpdateTimestamp", "new old gone shop pay"}, // of the latest version, or of the extension
		{"extensions", "q=pay+market", ""}, {"extensions", "q=&status=&enabled=&available=&sortBy=", "new old pay shop gone"}, {"extensions", "q=en", "pay"},
		{"extensions", "status=installed", "shop"}, {"extensions", "status=Installed|UpgradeFailed", "old shop"}, {"extensions", "status=Odd", ""},
		{"extensions", "enabled=true", "shop"}, {"extensions", "enabled=false", "gone new old pay"}, {"extensions", "available=true", "gone old pay shop"},
		{"extensions", "available=false", "new"}, {"extensions", "available=true&status=Installed&enabled=true&q=mark", "shop"},
		{"extensions", "fieldSelector=status.state=", "new pay"}, {"extensions", "name=Market", ""},

		{"workspaces", "name=shop", "w1"}, {"workspaces", "sortBy=createTime", "w1 w2"}, {"workspacetemplates", "name=w2", "w2"},
		{"clusters", "labelSelector=cluster-role.kubesphere.io/host=,!cluster-role.kubesphere.io/edge", "host"},
		{"clusters", "labelSelector=!cluster-role.kubesphere.io/host,!cluster-role.kubesphere.io/edge", ""},
		{"clusters", "labelSelector=cluster.kubesphere.io/visibility!=public&roleBindingExists=true", "edge"},
		{"clusters", "fieldSelector=spec.connection.token=t", ""},
		{"cluster.kubesphere.io/labels", "name=prod", "l1"}, {"cluster.kubesphere.io/labels", "name=env/", "l1 l2"}, {"widgets", "status=x&type=y&namespace=b", "w"},
	} {
		group, plural, ok := strings.Cut(c.kind, "/")
		if !ok {
			group, plural = groupOf(c.kind), c.kind
		}
		got := w.keys(t, w.resolve(t, group, plural), plan.Scope{}, strings.ReplaceAll(c.raw, "=$", "=%24")+"&ascending=true")
		if names := namesOf(got, !strings.Contains(c.raw, "sortBy")); names != c.want {
			t.Errorf("%s?%s: %q, want %q", c.kind, c.raw, names, c.want)
		}
	}
}

// A filter of the pages of extensions that means nothing is told, and is not taken for one that nothing matches.
func TestFiltersOfExtensionsAreTrueOrFalse(t *testing.T) {
	w := newCluster(t, clusterObjects(), Options{})
	extensions := w.resolve(t, "kubesphere.io", "extensions")
	for _, raw := range []string{"enabled=yes", "available=True", "available=1&enabled=true"} {
		if _, err := w.list(t, extensions, plan.Scope{}, raw); code(err) != http.StatusBadRequest || !strings.Contains(err.Error(), "want true or false") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// groupOf is the group of a plural name that only one group has.
func groupOf(plural string) string {
	for gv, names := range served {
		for name := range strings.FieldsSeq(names) {
			if strings.TrimSuffix(name, "+") == plural {
				return gv.Group
			}
		}
	}
	return ""
}

// namesOf drops the namespaces, and orders equal objects by name.
func namesOf(keys string, sorted bool) string {
	var out []string
	for key := range strings.FieldsSeq(keys) {
		out = append(out, key[strings.IndexByte(key, '/')+1:])
	}
	if sorted {
		slices.Sort(out)
	}
	return strings.Join(out, " ")
}

// A path that has a field is read from the field, so both must be the same.
func TestFieldsWithAPathStandInTheObject(t *testing.T) {
	objects := clusterObjects()
	for gr, k := range kind.All() {
		if k.Extract == nil {
			continue
		}
		for path, list := range objects {
			if !strings.HasSuffix(path, "/"+gr.Resource) || gr.Group != "" && !strings.Contains(path, gr.Group) {
				continue
			}
			for _, o := range list {
				values := make([]string, len(k.Fields))
				k.Extract(o, values)
				for i, f := range k.Fields {
					if f.Path != nil && values[i] != rawjson.GetText(o, f.Path...) {
						t.Errorf("%s %s: %q", gr, f.Name, values[i])
					}
				}
			}
		}
	}
}

// A filter that depends on objects of other kinds changes with them.
func TestFiltersFollowOtherKinds(t *testing.T) {
	w := newCluster(t, clusterObjects(), Options{})
	users, pods := w.resolve(t, "iam.kubesphere.io", "users"), w.resolve(t, "", "pods")
	follow := func(k *store.Kind, scope plan.Scope, raw, before, path, object, after string) {
		t.Helper()
		if got := namesOf(w.keys(t, k, scope, raw), true); got != before {
			t.Fatalf("%s: %q before", raw, got)
		}
		w.send(path, "MODIFIED", object)
		for deadline := time.Now().Add(time.Minute); ; {
			got := namesOf(w.keys(t, k, scope, raw), true)
			if got == after {
				return
			}
			if got != before || time.Now().After(deadline) {
				t.Fatalf("%s: %q", raw, got)
			}
		}
	}
	follow(
		users,
		plan.Scope{},
		"namespace=a&role=admin",
		"bob",
		"/apis/"+"iam.kubesphere.io"+"/v1beta1/rolebindings",
		binding("a/r1", "admin", `"generation":2`, "dan"),
		"dan",
	)
	follow(pods, plan.Scope{}, "serviceName=front", "p1 p4", "/api/v1/services", obj("b/front", `"generation":2`, `"spec":{"selector":{"app":"web"}}`), "p1 p3")
	follow(pods, plan.Scope{Workspace: "w1"}, "", "p1 p2", "/api/v1/namespaces", obj("b", labelled(plan.WorkspaceLabel, "w1"), ""), "p1 p2 p3 p4")
	follow(w.resolve(t, "iam.kubesphere.io", "globalroles"), plan.Scope{}, "aggregateTo=top", "part1 part2", "/apis/"+"iam.kubesphere.io"+"/v1beta1/globalroles",
		obj("top", `"annotations":{"iam.kubesphere.io/aggregation-roles":"[\"own\"]"}`, ""), "own")
}
