package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const host = "/clusters/host"

// watches waits until a watch as the console opens it (a WebSocket without a sub-protocol, whose token is in the cookie) has told of
// an object; name "" waits for nothing but the opening.
func (c caller) watches(ctx context.Context, path, kind, name string) error {
	open := func() (*websocket.Conn, *http.Response, error) {
		return websocket.Dial(ctx, c.base+path, &websocket.DialOptions{HTTPHeader: http.Header{"Cookie": {"lang=en; token=" + c.token}, "Origin": {c.base}}})
	}
	conn, resp, err := open()
	for err != nil && resp != nil && resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
		select { // the first list of the kind is under way
		case <-ctx.Done():
			return fmt.Errorf("watch %s: %w", path, err)
		case <-time.After(time.Second):
		}
		conn, resp, err = open()
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	for name != "" {
		typ, frame, err := conn.Read(ctx)
		if err != nil {
			return fmt.Errorf("watch %s, before %s was seen: %w", path, name, err)
		}
		var event struct {
			Type   string
			Object struct {
				Kind     string
				Metadata struct{ Name string }
			}
		}
		if err := json.Unmarshal(frame, &event); err != nil || typ != websocket.MessageText {
			return fmt.Errorf("watch %s: a frame of type %v: %s: %w", path, typ, clip(string(frame)), err)
		}
		if event.Object.Metadata.Name != name {
			continue
		}
		if event.Object.Kind != kind || event.Type != "ADDED" && event.Type != "MODIFIED" {
			return fmt.Errorf("watch %s: %+v", path, event)
		}
		return nil
	}
	return nil
}

func template(name string) obj {
	return obj{"metadata": obj{"labels": obj{"app": name}}, "spec": obj{"containers": []obj{{"name": "web", "image": "example/web"}}}}
}

// thing is an object of a project that the console makes, lists, watches and shows.
type thing struct {
	group, plural, kind string
	spec                obj
	// reads are what the page of the object reads beside base.
	reads []string
}

// path is that of the list at kube-apiserver, watch that of the legacy watch.
func (k thing) path(ns string) string  { return k.at("/namespaces/" + ns) }
func (k thing) watch(ns string) string { return k.at("/watch/namespaces/" + ns) }

func (k thing) at(where string) string {
	if k.group == "v1" {
		return host + "/api/v1" + where + "/" + k.plural
	}
	return host + "/apis/" + k.group + where + "/" + k.plural
}

func things(name string) []thing {
	selector := obj{"matchLabels": obj{"app": name}}
	job := template(name)
	job["spec"].(obj)["restartPolicy"] = "Never"
	workload := []string{"kind", "metadata.labels", "spec.selector.matchLabels", "spec.template.spec.containers", "status"}
	return []thing{
		{
			"apps/v1",
			"deployments",
			"Deployment",
			obj{"replicas": 1, "selector": selector, "template": template(name)},
			append(slices.Clone(workload), "spec.replicas", "spec.strategy"),
		},
		{
			"apps/v1",
			"statefulsets",
			"StatefulSet",
			obj{"replicas": 1, "serviceName": name, "selector": selector, "template": template(name)},
			append(slices.Clone(workload), "spec.updateStrategy"),
		},
		{"apps/v1", "daemonsets", "DaemonSet", obj{"selector": selector, "template": template(name)}, workload},
		{"batch/v1", "jobs", "Job", obj{"completions": 1, "template": job}, []string{"spec.completions", "status"}},
		{
			"batch/v1",
			"cronjobs",
			"CronJob",
			obj{"schedule": "0 0 1 1 *", "suspend": false, "jobTemplate": obj{"spec": obj{"template": job}}},
			[]string{"spec.schedule", "spec.suspend", "spec.jobTemplate"},
		},
		{"v1", "services", "Service", obj{"selector": obj{"app": name}, "ports": []obj{{"port": 80}}}, []string{"spec.ports[]"}},
		{"networking.k8s.io/v1", "ingresses", "Ingress", obj{"defaultBackend": obj{"service": obj{"name": name, "port": obj{"number": 80}}}}, []string{"spec"}},
		{
			"v1",
			"persistentvolumeclaims",
			"PersistentVolumeClaim",
			obj{"accessModes": []string{"ReadWriteOnce"}, "resources": obj{"requests": obj{"storage": "1Gi"}}},
			[]string{"spec.accessModes[]", "spec.resources", "status.phase"},
		},
		{"v1", "secrets", "Secret", nil, []string{"type"}},
		{"v1", "configmaps", "ConfigMap", nil, nil},
		{"v1", "serviceaccounts", "ServiceAccount", nil, nil},
	}
}

// The admin of a workspace makes what a project holds, with the console: each list shows it, each watch tells of it, its page has what
// it reads, and what the page offers to do is done.
func TestTheConsoleRunsAProject(t *testing.T) {
	w := newTenant(t, unique("run"))
	ns, name := w.namespace, "demo"
	for _, k := range things(name) {
		t.Run(k.plural, func(t *testing.T) {
			exists := k.path(ns) + "/" + name
			w.must(t, http.StatusNotFound, http.MethodGet, exists, nil, "x-check-exist: true")
			body := obj{
				"apiVersion": k.group,
				"kind":       k.kind,
				"metadata":   obj{"name": name, "namespace": ns, "labels": obj{"app": name}, "annotations": obj{"kubesphere.io/creator": w.user}},
			}
			if k.spec != nil {
				body["spec"] = k.spec
			}
			w.must(t, http.StatusCreated, http.MethodPost, k.path(ns), body)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := w.watches(ctx, k.watch(ns), k.kind, name); err != nil {
				t.Error(err)
			}
			sort := map[string]string{"deployments": "updateTime", "jobs": "updateTime"}[k.plural]
			if sort == "" {
				sort = "createTime"
			}
			shows := get(host+kapis+"/namespaces/"+ns+"/"+k.plural+"?limit=10&page=1&name="+name+"&sortBy="+sort, paged()...)
			page := get(exists, append(slices.Clone(base), k.reads...)...)
			for _, c := range []call{shows, page} {
				within(t, soon, "it answers", func(ctx context.Context) error { return c.check(ctx, w.caller) })
			}
		})
	}
	apps, v3 := host+"/apis/apps/v1/namespaces/"+ns, host+kapis+"/namespaces/"+ns
	var uid string
	t.Run("the pods of a workload", func(t *testing.T) {
		uid = decode[written](t, w.must(t, http.StatusOK, http.MethodGet, apps+"/deployments/"+name, nil).body).Metadata.UID
		pods := v3 + "/pods?sortBy=startTime&limit=10&page=1&labelSelector=app=" + name
		eventually(t, "those of the Deployment, by its UID", func(ctx context.Context) error {
			return get(pods+"&ownerReference="+uid, paged("status.phase", "spec.nodeName", "spec.containers", "status.hostIP")...).check(ctx, w.caller)
		})
		for _, path := range []string{"/apis/apps/v1/namespaces/" + ns + "/replicasets", "/apis/apps/v1/namespaces/" + ns + "/controllerrevisions"} {
			eventually(t, "revisions", func(ctx context.Context) error {
				return get(host+path+"?labelSelector=app="+name, items()...).check(ctx, w.caller)
			})
		}
		pod := w.list(t, pods+"&ownerReference="+uid).Items[0].Metadata.Name
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := w.watches(ctx, host+"/api/v1/watch/namespaces/"+ns+"/pods?labelSelector=app="+name, "Pod", pod); err != nil {
			t.Error(err)
		}
		for _, c := range []call{
			get(host+"/api/v1/namespaces/"+ns+"/pods/"+pod, append(slices.Clone(base), "status.phase", "spec.containers[].name")...),
			get(host+"/api/v1/namespaces/"+ns+"/endpoints/"+name, base...),
			get(v3+"/pods?pvcName="+name+"&limit=10", "items", "totalItems"),
			get(apps+"/deployments?labelSelector=app="+name, "items"), get(apps+"/statefulsets?labelSelector=app="+name, "items"),
			get(apps+"/daemonsets?labelSelector=app="+name, "items"),
			get(host+"/apis/batch/v1/namespaces/"+ns+"/jobs?limit=10", "items"),
			get(host+"/api/v1/namespaces/"+ns+"/events?fieldSelector=involvedObject.name%3D"+name+",involvedObject.namespace%3D"+ns+",involvedObject.kind%3DDeployment,involvedObject.uid%3D"+uid, "items"),
		} {
			within(t, soon, "it answers", func(ctx context.Context) error { return c.check(ctx, w.caller) })
		}
		eventually(
			t,
			"what it prints",
			w.is(http.StatusOK, http.MethodGet, host+"/api/v1/namespaces/"+ns+"/pods/"+pod+"/log?container=web&tailLines=100&timestamps=true"),
		)
	})
	t.Run("what the page of a workload does", func(t *testing.T) {
		one := apps + "/deployments/" + name
		for _, patch := range []string{
			`{"spec":{"template":{"metadata":{"annotations":{"kubesphere.io/restartedAt":"2026-11-21T12:00:00.000Z"}}}}}`,
			`{"spec":{"replicas":2}}`,
			`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"example/other"}]}}}}`,
		} {
			w.must(t, http.StatusOK, http.MethodPatch, one, patch, asMerge)
		}
		if r := w.must(t, http.StatusOK, http.MethodGet, one, nil); !strings.Contains(r.body, "restartedAt") || !strings.Contains(r.body, "example/other") {
			t.Errorf("it was not changed: %s", clip(r.body))
		}
		job := host + "/apis/batch/v1/namespaces/" + ns + "/jobs/" + name
		// The controller of Jobs may write its status meanwhile: then the page says so, and the user asks again.
		eventually(t, "the job runs again", func(ctx context.Context) error {
			version := decode[written](t, w.must(t, http.StatusOK, http.MethodGet, job, nil).body).Metadata.ResourceVersion
			r, err := w.do(ctx, http.MethodPost, host+"/kapis/operations.kubesphere.io/v1alpha2/namespaces/"+ns+"/jobs/"+name+
				"?action=rerun&resourceVersion="+version, obj{})
			if err == nil && r.code == http.StatusConflict {
				return fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			if err == nil && r.code != http.StatusOK {
				t.Fatalf("run it again: %d %s", r.code, clip(r.body))
			}
			return err
		})
		w.must(t, http.StatusOK, http.MethodDelete, one, obj{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
		eventually(t, "it is gone", w.is(http.StatusNotFound, http.MethodGet, one))
	})
}

// The watches of the pages of the platform and of a cluster, as their admin has them.
func TestTheConsoleWatchesThePlatform(t *testing.T) {
	a, name := admin(t), unique("watched")
	newUser(t, name)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := a.watches(ctx, "/apis/iam.kubesphere.io/v1beta1/watch/users", "User", name); err != nil {
		t.Error(err)
	}
	paths := []string{
		host + "/api/v1/watch/pods",
		host + "/apis/storage.k8s.io/v1/watch/storageclasses",
		host + "/kapis/networking.k8s.io/v1/watch/networkpolicies",
	}
	for _, k := range things("") {
		paths = append(paths, k.at("/watch"))
	}
	for _, path := range paths {
		if err := a.watches(ctx, path, "", ""); err != nil {
			t.Error(err)
		}
	}
}
