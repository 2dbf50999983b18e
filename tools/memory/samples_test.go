package memory

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// sample is how objects of a kind look, and what one may take in memory for a byte of its JSON.
type sample struct {
	resource schema.GroupVersionResource
	bound    float64
	object   func(i int) string
}

type object = map[string]any

func samples() []sample {
	in := func(group, version, resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
	}
	return []sample{
		{in("", "v1", "pods"), 1.30, text(pod)},
		{in("apps", "v1", "deployments"), 1.40, text(deployment)},
		{in("apps", "v1", "replicasets"), 1.30, text(replicaSet)},
		{in("batch", "v1", "jobs"), 1.45, text(job)},
		{in("", "v1", "nodes"), 1.20, text(node)},
		{in("", "v1", "namespaces"), 2.70, text(namespace)},
		{in("", "v1", "services"), 1.65, text(service)},
		{in("discovery.k8s.io", "v1", "endpointslices"), 1.80, text(endpointSlice)},
		{in("", "v1", "events"), 1.50, text(event)},
		{in("", "v1", "configmaps"), 2.15, text(configMap)},
		{in("", "v1", "secrets"), 2.20, text(secret)},
		{in("", "v1", "persistentvolumeclaims"), 1.65, text(volumeClaim)},
		{in("", "v1", "serviceaccounts"), 2.10, text(serviceAccount)},
		{in("rbac.authorization.k8s.io", "v1", "rolebindings"), 1.90, text(roleBinding)},
		{in("rbac.authorization.k8s.io", "v1", "clusterroles"), 1.35, text(clusterRole)},
		{in("iam.kubesphere.io", "v1beta1", "users"), 2.35, text(user)},
		{in("iam.kubesphere.io", "v1beta1", "globalroles"), 1.40, text(iamRole("GlobalRole", ""))},
		{in("iam.kubesphere.io", "v1beta1", "clusterroles"), 1.40, text(iamRole("ClusterRole", ""))},
		{in("iam.kubesphere.io", "v1beta1", "workspaceroles"), 1.50, text(iamRole("WorkspaceRole", ""))},
		{in("iam.kubesphere.io", "v1beta1", "roles"), 1.40, text(iamRole("Role", "team"))},
		{in("iam.kubesphere.io", "v1beta1", "globalrolebindings"), 1.95, text(iamBinding("GlobalRole"))},
		{in("iam.kubesphere.io", "v1beta1", "clusterrolebindings"), 1.95, text(iamBinding("ClusterRole"))},
		{in("iam.kubesphere.io", "v1beta1", "workspacerolebindings"), 1.95, text(workspaceRoleBinding)},
		{in("iam.kubesphere.io", "v1beta1", "rolebindings"), 2.00, text(iamBinding("Role"))},
		{in("tenant.kubesphere.io", "v1beta1", "workspaces"), 1.80, text(workspace)},
		{in("tenant.kubesphere.io", "v1beta1", "workspacetemplates"), 1.80, text(workspaceTemplate)},
		{in("session.kapis.dev", "v1alpha1", "sessions"), 1.70, text(session)},
		{in("apiextensions.k8s.io", "v1", "customresourcedefinitions"), 1.20, definition()},
	}
}

func text(of func(i int) object) func(int) string {
	return func(i int) string {
		b, err := json.Marshal(of(i))
		if err != nil {
			panic(err)
		}
		return string(b)
	}
}

// metadata is that of the i-th object of an application in one of 200 namespaces; "" is a namespace for none.
func metadata(i int, name, in string, labels map[string]string) object {
	m := object{
		"name": name, "uid": uid(i, 1), "resourceVersion": fmt.Sprint(4_000_000 + i), "generation": 3,
		"creationTimestamp": fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02dZ", 1+i%11, 1+i%28, i%24, i%60, i/60%60),
	}
	if in != "" {
		m["namespace"] = in
	}
	if len(labels) > 0 {
		m["labels"] = labels
	}
	return m
}

func uid(i, salt int) string {
	return fmt.Sprintf("%08x-7c1d-4f3a-9b2e-%012x", uint32(i*2654435761+salt), i*7919+salt)
}

func space(i int) string { return fmt.Sprintf("team-%d-production", i%200) }

// app are the labels that a template engine gives, of one of 500 applications.
func app(i int, more ...string) map[string]string {
	out := map[string]string{
		"app.kubernetes.io/name": fmt.Sprintf("checkout-%d", i%500), "app.kubernetes.io/instance": fmt.Sprintf("shop-%d", i%500),
		"app.kubernetes.io/version": "v2.14.3", "app.kubernetes.io/managed-by": "Helm",
	}
	for k := 0; k+1 < len(more); k += 2 {
		out[more[k]] = more[k+1]
	}
	return out
}

func with(m object, more object) object {
	maps.Copy(m, more)
	return m
}

func owner(kind, name string, i int) []object {
	return []object{{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid(i, 2), "controller": true, "blockOwnerDeletion": true}}
}

// template is a pod template of one container.
func template(i int) object {
	var env, mounts []object
	for k := range 8 {
		env = append(env, object{"name": fmt.Sprintf("SETTING_%d", k), "value": fmt.Sprintf("value-%d.shop-data.svc.cluster.local:6379", k)})
	}
	for _, name := range []string{"config", "tls", "tmp"} {
		mounts = append(mounts, object{"name": name, "mountPath": "/etc/checkout/" + name, "readOnly": true})
	}
	probe := object{
		"httpGet":          object{"path": "/healthz", "port": "http", "scheme": "HTTP"},
		"timeoutSeconds":   2,
		"periodSeconds":    10,
		"successThreshold": 1,
		"failureThreshold": 3,
	}
	return object{
		"metadata": object{"labels": app(i)},
		"spec": object{
			"containers": []object{{
				"name": "checkout", "image": "registry.example.com/shop/checkout:v2.14.3", "args": []string{"--listen=:8080", "--log-format=json"},
				"ports": []object{{"name": "http", "containerPort": 8080, "protocol": "TCP"}}, "env": env, "volumeMounts": mounts,
				"resources":     object{"limits": object{"cpu": "1", "memory": "512Mi"}, "requests": object{"cpu": "250m", "memory": "256Mi"}},
				"livenessProbe": probe, "readinessProbe": probe, "terminationMessagePath": "/dev/termination-log",
				"terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent", "securityContext": object{"runAsNonRoot": true},
			}},
			"volumes": []object{
				{"name": "config", "configMap": object{"name": "checkout-config", "defaultMode": 420}},
				{"name": "tls", "secret": object{"secretName": "checkout-tls", "defaultMode": 420}}, {"name": "tmp", "emptyDir": object{}},
			},
			"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "serviceAccountName": "checkout",
			"serviceAccount": "checkout", "securityContext": object{"fsGroup": 10001}, "schedulerName": "default-scheduler",
		},
	}
}

func pod(i int) object {
	spec := template(i)["spec"].(object)
	second := maps.Clone(spec["containers"].([]object)[0])
	second["name"] = "metrics"
	spec["containers"] = append(spec["containers"].([]object), second)
	spec["nodeName"] = fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i%300/250, i%250)
	spec["tolerations"] = []object{
		{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
		{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
	}
	var states, conditions []object
	for _, name := range []string{"checkout", "metrics"} {
		states = append(states, object{
			"name": name, "image": "registry.example.com/shop/checkout:v2.14.3", "ready": true, "started": true, "restartCount": 0,
			"imageID": fmt.Sprintf("registry.example.com/shop/checkout@sha256:%064x", 7), "containerID": fmt.Sprintf("containerd://%064x", i*7919),
			"state": object{"running": object{"startedAt": "2026-11-20T08:15:42Z"}}, "lastState": object{},
		})
	}
	for _, name := range []string{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		conditions = append(conditions, object{"type": name, "status": "True", "lastProbeTime": nil, "lastTransitionTime": "2026-11-20T08:15:42Z"})
	}
	set := fmt.Sprintf("checkout-%d-6f7d9c5b48", i/3)
	return object{
		"kind":       "Pod",
		"apiVersion": "v1",
		"metadata": with(
			metadata(i, fmt.Sprintf("%s-x%d", set, i), space(i/3), app(i, "pod-template-hash", "6f7d9c5b48")),
			object{"ownerReferences": owner("ReplicaSet", set, i/3)},
		),
		"spec": spec,
		"status": object{
			"phase": "Running", "podIP": fmt.Sprintf("10.2.%d.%d", i/250%250, i%250), "podIPs": []object{{"ip": fmt.Sprintf("10.2.%d.%d", i/250%250, i%250)}},
			"hostIP": "10.0.1.1", "startTime": fmt.Sprintf("2026-11-20T%02d:%02d:%02dZ", i/3600%24, i/60%60, i%60), "qosClass": "Burstable",
			"conditions": conditions, "containerStatuses": states,
		},
	}
}

func deployment(i int) object {
	return object{
		"kind": "Deployment", "apiVersion": "apps/v1",
		"metadata": with(metadata(i, fmt.Sprintf("checkout-%d", i), space(i), app(i)), object{"annotations": object{"deployment.kubernetes.io/revision": "3"}}),
		"spec": object{
			"replicas": 3, "selector": object{"matchLabels": app(i)}, "template": template(i), "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
			"strategy": object{"type": "RollingUpdate", "rollingUpdate": object{"maxUnavailable": "25%", "maxSurge": "25%"}},
		},
		"status": object{"observedGeneration": 3, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "conditions": []object{
			condition("Progressing", "NewReplicaSetAvailable"), condition("Available", "MinimumReplicasAvailable"),
		}},
	}
}

func condition(name, reason string) object {
	return object{
		"type": name, "status": "True", "reason": reason, "message": "As it should be since the last change of the object.",
		"lastUpdateTime": "2026-11-20T08:15:42Z", "lastTransitionTime": "2026-11-20T08:15:42Z",
	}
}

func replicaSet(i int) object {
	return object{
		"kind": "ReplicaSet", "apiVersion": "apps/v1",
		"metadata": with(metadata(i, fmt.Sprintf("checkout-%d-6f7d9c5b48", i), space(i), app(i, "pod-template-hash", "6f7d9c5b48")),
			object{"ownerReferences": owner("Deployment", fmt.Sprintf("checkout-%d", i/10), i/10)}),
		"spec":   object{"replicas": 0, "selector": object{"matchLabels": app(i)}, "template": template(i)},
		"status": object{"replicas": 0, "observedGeneration": 2},
	}
}

func job(i int) object {
	return object{
		"kind": "Job", "apiVersion": "batch/v1",
		"metadata": with(metadata(i, fmt.Sprintf("report-%d", i), space(i), app(i, "batch.kubernetes.io/job-name", fmt.Sprintf("report-%d", i))),
			object{"ownerReferences": owner("CronJob", fmt.Sprintf("report-%d", i%500), i%500)}),
		"spec": object{"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": template(i), "completionMode": "NonIndexed", "suspend": false},
		"status": object{"conditions": []object{condition("Complete", "CompletionsReached")}, "succeeded": 1, "ready": 0,
			"startTime": "2026-11-20T08:15:42Z", "completionTime": "2026-11-20T08:16:42Z"},
	}
}

func node(i int) object {
	var images, conditions []object
	for k := range 50 {
		images = append(images, object{"sizeBytes": 12_345_678 + k, "names": []string{
			fmt.Sprintf("registry.example.com/platform/service-%d@sha256:%064x", k, k*7919), fmt.Sprintf("registry.example.com/platform/service-%d:v1.%d.0", k, k)}})
	}
	for _, name := range []string{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		conditions = append(conditions, condition(name, "KubeletIs"+name))
	}
	name := fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/250, i%250)
	return object{
		"kind": "Node", "apiVersion": "v1",
		"metadata": metadata(i, name, "", map[string]string{
			"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m6i.4xlarge",
			"topology.kubernetes.io/region": "eu-central-1", "topology.kubernetes.io/zone": fmt.Sprintf("eu-central-1%c", 'a'+i%3), "node-role.kubernetes.io/worker": "",
		}),
		"spec": object{"podCIDR": "10.2.1.0/24", "providerID": "aws:///eu-central-1a/i-0123456789abcdef0"},
		"status": object{
			"capacity": object{"cpu": "16", "memory": "64Gi", "pods": "110"}, "allocatable": object{"cpu": "15800m", "memory": "62Gi", "pods": "110"},
			"conditions": conditions, "images": images, "addresses": []object{{"type": "InternalIP", "address": "10.0.1.1"}, {"type": "Hostname", "address": name}},
		},
	}
}

func namespace(i int) object {
	name := fmt.Sprintf("team-%d-production", i)
	return object{
		"kind":       "Namespace",
		"apiVersion": "v1",
		"metadata": metadata(
			i,
			name,
			"",
			map[string]string{"kubernetes.io/metadata.name": name, "kubesphere.io/workspace": fmt.Sprintf("team-%d", i%100), "kubesphere.io/managed": "true"},
		),
		"spec":   object{"finalizers": []string{"kubernetes"}},
		"status": object{"phase": "Active"},
	}
}

func service(i int) object {
	return object{
		"kind": "Service", "apiVersion": "v1", "metadata": metadata(i, fmt.Sprintf("checkout-%d", i), space(i), app(i)),
		"spec": object{
			"ports": []object{
				{"name": "http", "protocol": "TCP", "port": 80, "targetPort": "http"},
				{"name": "grpc", "protocol": "TCP", "port": 9090, "targetPort": 9090},
			},
			"selector":              app(i),
			"clusterIP":             "10.96.12.7",
			"clusterIPs":            []string{"10.96.12.7"},
			"type":                  "ClusterIP",
			"sessionAffinity":       "None",
			"ipFamilies":            []string{"IPv4"},
			"ipFamilyPolicy":        "SingleStack",
			"internalTrafficPolicy": "Cluster",
		},
		"status": object{"loadBalancer": object{}},
	}
}

func endpointSlice(i int) object {
	var endpoints []object
	for k := range 3 {
		endpoints = append(endpoints, object{
			"addresses": []string{
				fmt.Sprintf("10.2.%d.%d", i%250, k),
			},
			"conditions": object{"ready": true, "serving": true, "terminating": false},
			"nodeName":   "ip-10-0-1-1",
			"zone":       "eu-central-1a",
			"targetRef":  object{"kind": "Pod", "namespace": space(i), "name": fmt.Sprintf("checkout-%d-6f7d9c5b48-x%d", i, k), "uid": uid(i, k)},
		})
	}
	name := fmt.Sprintf("checkout-%d", i)
	return object{
		"kind":       "EndpointSlice",
		"apiVersion": "discovery.k8s.io/v1",
		"metadata": with(
			metadata(
				i,
				name+"-x7k2p",
				space(i),
				app(i, "kubernetes.io/service-name", name, "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
			),
			object{"ownerReferences": owner("Service", name, i)},
		),
		"addressType": "IPv4",
		"endpoints":   endpoints,
		"ports":       []object{{"name": "http", "port": 8080, "protocol": "TCP"}},
	}
}

func event(i int) object {
	pod := fmt.Sprintf("checkout-%d-6f7d9c5b48-x7k2p", i%3000)
	return object{
		"kind":       "Event",
		"apiVersion": "v1",
		"metadata":   metadata(i, fmt.Sprintf("%s.17f%013x", pod, i), space(i), nil),
		"involvedObject": object{
			"kind":            "Pod",
			"namespace":       space(i),
			"name":            pod,
			"uid":             uid(i, 3),
			"apiVersion":      "v1",
			"resourceVersion": "4000000",
			"fieldPath":       "spec.containers{checkout}",
		},
		"reason":             "Pulled",
		"message":            `Successfully pulled image "registry.example.com/shop/checkout:v2.14.3" in 1.412s. Image size: 41234567 bytes.`,
		"source":             object{"component": "kubelet", "host": "ip-10-0-1-1"},
		"firstTimestamp":     "2026-11-20T08:15:42Z",
		"lastTimestamp":      "2026-11-20T08:15:42Z",
		"count":              1,
		"type":               "Normal",
		"eventTime":          nil,
		"reportingComponent": "kubelet",
		"reportingInstance":  "ip-10-0-1-1",
	}
}

// The data of these two is not cached.
func configMap(i int) object {
	return object{
		"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata(i, fmt.Sprintf("checkout-config-%d", i), space(i), app(i)),
		"data": object{"config.yaml": strings.Repeat("key: value of a setting\n", 5)},
	}
}

func secret(i int) object {
	return object{
		"kind":       "Secret",
		"apiVersion": "v1",
		"metadata":   metadata(i, fmt.Sprintf("sh.helm.release.v1.shop-%d.v1", i), space(i), app(i, "owner", "helm", "status", "deployed")),
		"data":       object{"release": strings.Repeat("SDRzSUFBQUFBQUFDLyt5", 5)},
		"type":       "helm.sh/release.v1",
	}
}

func volumeClaim(i int) object {
	return object{
		"kind": "PersistentVolumeClaim", "apiVersion": "v1",
		"metadata": with(metadata(i, fmt.Sprintf("data-shop-postgresql-%d", i), space(i), app(i)), object{"finalizers": []string{"kubernetes.io/pvc-protection"},
			"annotations": object{"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/storage-provisioner": "ebs.csi.aws.com"}}),
		"spec": object{"accessModes": []string{"ReadWriteOnce"}, "resources": object{"requests": object{"storage": "100Gi"}}, "storageClassName": "fast",
			"volumeMode": "Filesystem", "volumeName": "pvc-" + uid(i, 1)},
		"status": object{"phase": "Bound", "accessModes": []string{"ReadWriteOnce"}, "capacity": object{"storage": "100Gi"}},
	}
}

func serviceAccount(i int) object {
	return object{"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata(i, fmt.Sprintf("checkout-%d", i), space(i), app(i))}
}

func subject(i int) object {
	return object{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": fmt.Sprintf("person-%d", i)}
}

func roleBinding(i int) object {
	return object{
		"kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
		"metadata": metadata(i, fmt.Sprintf("person-%d-operator", i), space(i), map[string]string{"iam.kubesphere.io/user-ref": fmt.Sprintf("person-%d", i%2000)}),
		"subjects": []object{subject(i % 2000)}, "roleRef": object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
	}
}

func clusterRole(i int) object {
	var rules []object
	for k := range 6 {
		rules = append(rules, object{"apiGroups": []string{"apps", "extensions"}, "resources": []string{"deployments", "statefulsets", fmt.Sprintf("things-%d", k)},
			"verbs": []string{"get", "list", "watch", "create", "update", "patch", "delete"}})
	}
	return object{
		"kind":       "ClusterRole",
		"apiVersion": "rbac.authorization.k8s.io/v1",
		"metadata": metadata(
			i,
			fmt.Sprintf("operator-of-things-%d", i),
			"",
			map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"},
		),
		"rules": rules,
	}
}

func user(i int) object {
	name := fmt.Sprintf("person-%d", i)
	return object{
		"kind":       "User",
		"apiVersion": "iam.kubesphere.io/v1beta1",
		"metadata": with(
			metadata(i, name, "", map[string]string{"iam.kubesphere.io/identify-provider": "ldap", "iam.kubesphere.io/origin-uid": fmt.Sprint(100_000 + i)}),
			object{"annotations": object{
				"iam.kubesphere.io/globalrole":                "platform-regular",
				"iam.kubesphere.io/last-password-change-time": "2026-11-20T08:15:42Z",
				"kubesphere.io/creator":                       "admin",
			},
				"finalizers": []string{"finalizers.kubesphere.io/users"}},
		),
		"spec":   object{"email": name + "@example.com", "password": "$2a$10$" + strings.Repeat("x", 53), "description": "A person of the shop team"},
		"status": object{"state": "Active", "lastLoginTime": "2026-11-20T08:15:42Z"},
	}
}

func workspaceRoleBinding(i int) object {
	workspace := fmt.Sprintf("team-%d", i%200)
	return object{
		"kind":       "WorkspaceRoleBinding",
		"apiVersion": "iam.kubesphere.io/v1beta1",
		"metadata": metadata(
			i,
			fmt.Sprintf("person-%d-%s-viewer", i, workspace),
			"",
			map[string]string{"kubesphere.io/workspace": workspace, "iam.kubesphere.io/user-ref": fmt.Sprintf("person-%d", i%2000)},
		),
		"subjects": []object{subject(i % 2000)},
		"roleRef":  object{"apiGroup": "iam.kubesphere.io", "kind": "WorkspaceRole", "name": workspace + "-viewer"},
	}
}

// iamRole is a role of the kind, made of three templates as the built-in ones are; in a namespace where in is not "".
func iamRole(kind, in string) func(int) object {
	return func(i int) object {
		labels, namespace := map[string]string(nil), ""
		if kind == "WorkspaceRole" {
			labels = map[string]string{"kubesphere.io/workspace": fmt.Sprintf("team-%d", i%2000)}
		}
		if in != "" {
			namespace = space(i)
		}
		return object{
			"kind": kind, "apiVersion": "iam.kubesphere.io/v1beta1",
			"metadata": with(metadata(i, fmt.Sprintf("team-%d-viewer-%d", i%2000, i), namespace, labels), object{"annotations": object{
				"kubesphere.io/creator": "admin", "kubesphere.io/description": "Views what is in the project, secrets excepted.",
				"iam.kubesphere.io/aggregation-roles": `["namespace-view-app-workloads","namespace-view-configmaps","namespace-view-members"]`,
			}}),
			"aggregationRoleTemplates": object{"templateNames": []string{"namespace-view-app-workloads", "namespace-view-configmaps", "namespace-view-members"}},
			"rules": []object{
				{
					"apiGroups": []string{""},
					"resources": []string{"pods", "pods/log", "pods/status", "services", "replicationcontrollers"},
					"verbs":     []string{"get", "list", "watch"},
				},
				{
					"apiGroups": []string{"apps", "batch"},
					"resources": []string{"deployments", "statefulsets", "daemonsets", "jobs", "cronjobs"},
					"verbs":     []string{"get", "list", "watch"},
				},
				{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "verbs": []string{"get", "list", "watch"}},
				{"apiGroups": []string{"iam.kubesphere.io"}, "resources": []string{"namespacemembers", "roles", "rolebindings"}, "verbs": []string{"get", "list", "watch"}},
			},
		}
	}
}

// iamBinding binds a person to one of the roles of the kind.
func iamBinding(kind string) func(int) object {
	return func(i int) object {
		namespace, role := "", "platform-regular"
		if kind == "Role" {
			namespace, role = space(i), "viewer"
		}
		return object{
			"kind": kind + "Binding", "apiVersion": "iam.kubesphere.io/v1beta1",
			"metadata": metadata(i, fmt.Sprintf("person-%d-%s", i, role), namespace, map[string]string{
				"iam.kubesphere.io/user-ref": fmt.Sprintf("person-%d", i%2000), "iam.kubesphere.io/role-ref": role,
			}),
			"subjects": []object{subject(i % 2000)}, "roleRef": object{"apiGroup": "iam.kubesphere.io", "kind": kind, "name": role},
		}
	}
}

func workspaceTemplate(i int) object {
	return object{
		"kind":       "WorkspaceTemplate",
		"apiVersion": "tenant.kubesphere.io/v1beta1",
		"metadata":   with(metadata(i, fmt.Sprintf("team-%d", i), "", nil), object{"annotations": object{"kubesphere.io/creator": "admin"}}),
		"spec": object{
			"placement": object{"clusters": []object{{"name": "host"}}},
			"template": object{"spec": object{"manager": "admin"}, "metadata": object{"annotations": object{
				"kubesphere.io/alias-name": fmt.Sprintf("Team %d", i), "kubesphere.io/description": "What the team ships.", "kubesphere.io/creator": "admin"}}},
		},
		"status": object{
			"conditions": []object{{"type": "Ready", "status": "True", "reason": "Placed", "message": "", "lastTransitionTime": "2026-11-20T08:15:42Z"}},
		},
	}
}

func workspace(i int) object {
	return object{
		"kind":       "Workspace",
		"apiVersion": "tenant.kubesphere.io/v1beta1",
		"metadata": with(
			metadata(i, fmt.Sprintf("team-%d", i), "", nil),
			object{"annotations": object{"kubesphere.io/alias-name": fmt.Sprintf("Team %d", i), "kubesphere.io/creator": "admin"},
				"finalizers": []string{"finalizers.tenant.kubesphere.io"}},
		),
		"spec":   object{"manager": "admin"},
		"status": object{},
	}
}

func session(i int) object {
	return object{
		"kind":       "Session",
		"apiVersion": "session.kapis.dev/v1alpha1",
		"metadata":   metadata(i, fmt.Sprintf("s-%032x", i*7919), "", map[string]string{"session.kapis.dev/user": fmt.Sprintf("person-%d", i%2000)}),
		"spec": object{
			"user":    fmt.Sprintf("person-%d", i%2000),
			"userUID": uid(i%2000, 4),
			"client":  "kubesphere",
			"current": object{"hash": strings.Repeat("4f", 32), "issued": "2026-11-20T08:15:42Z"},
			"former":  object{"hash": strings.Repeat("a1", 32), "issued": "2026-11-20T07:15:42Z"},
			"expires": "2026-11-20T10:15:42Z",
		},
	}
}

// definition gives those of the project under other names.
func definition() func(int) string {
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		panic(fmt.Sprintf("no definitions of custom resources: %v", err))
	}
	var all []object
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			panic(err)
		}
		var o object
		if err := yaml.Unmarshal(b, &o); err != nil {
			panic(err)
		}
		if o["kind"] == "CustomResourceDefinition" {
			all = append(all, o)
		}
	}
	return text(func(i int) object {
		o := maps.Clone(all[i%len(all)])
		o["metadata"] = metadata(i, fmt.Sprintf("things-%d.example.com", i), "", nil)
		return o
	})
}
