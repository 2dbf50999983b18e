package revision_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/revision"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func workload(kind, namespace, name, uid string) string {
	return fmt.Sprintf(`{"kind":%q,"apiVersion":"apps/v1","metadata":{"name":%q,"namespace":%q,"uid":%q,"labels":{"kept":"yes"}},`+
		`"spec":{"replicas":3,"template":{"metadata":{"labels":{"now":"only"}},"spec":{"containers":[{"name":"web","image":"web:3"}]}}},"status":{"readyReplicas":3}}`, kind, name, namespace, uid)
}

func owned(kind, namespace, name, uid, annotations, rest string) string {
	return fmt.Sprintf(
		`{"kind":%q,"apiVersion":"apps/v1","metadata":{"name":%q,"namespace":%q,"uid":%q,"annotations":%s,"ownerReferences":[{"kind":"X","name":"web","uid":%q}]}%s}`,
		kind,
		name,
		namespace,
		name+namespace,
		annotations,
		uid,
		rest,
	)
}

func data(revision int, image string) string {
	return fmt.Sprintf(
		`,"revision":%d,"data":{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"then":"too"}},"spec":{"containers":[{"name":"web","image":%q}]}}}}`,
		revision,
		image,
	)
}

func revisions(t *testing.T) *revision.Service {
	const none = `{}`
	return &revision.Service{Store: kapistest.NewStore(t, map[string][]any{
		"/apis/apps/v1/daemonsets":   {workload("DaemonSet", "a", "web", "ds"), workload("DaemonSet", "b", "web", "ds-b")},
		"/apis/apps/v1/statefulsets": {workload("StatefulSet", "a", "web", "ss")},
		"/apis/apps/v1/deployments":  {workload("Deployment", "a", "web", "d")},
		"/apis/apps/v1/controllerrevisions": {
			owned("ControllerRevision", "a", "web-1", "ds", none, data(1, "web:1")), owned("ControllerRevision", "a", "web-2", "ds", none, data(2, "web:2")),
			owned("ControllerRevision", "a", "web-9", "ds", none, `,"revision":9`),
			owned("ControllerRevision", "a", "ss-1", "ss", none, data(1, "db:1")),
			owned("ControllerRevision", "a", "old-4", "former", none, data(4, "web:4")),
			owned("ControllerRevision", "c", "forged-5", "ds", none, data(5, "evil:5")),
		},
		"/apis/apps/v1/replicasets": {
			owned("ReplicaSet", "a", "web-x", "d", `{"deployment.kubernetes.io/revision":"1"}`, `,"spec":{"replicas":0}`),
			owned("ReplicaSet", "a", "web-y", "d", `{"deployment.kubernetes.io/revision":"2"}`, `,"spec":{"replicas":3}`),
			owned("ReplicaSet", "a", "web-z", "d", none, `,"spec":{}`),
			owned("ReplicaSet", "a", "else", "other", `{"deployment.kubernetes.io/revision":"3"}`, `,"spec":{}`),
			owned("ReplicaSet", "c", "forged", "d", `{"deployment.kubernetes.io/revision":"4"}`, `,"spec":{}`),
		},
	})}
}

func TestAWorkloadIsShownAsItWas(t *testing.T) {
	s := revisions(t)
	raw, err := s.DaemonSet(t.Context(), "a", "web", "1")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Kind     string
		Metadata struct{ Name, UID string }
		Spec     struct {
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct{ Containers []struct{ Image string } }
			}
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	template := got.Spec.Template
	if got.Kind != "DaemonSet" || got.Metadata.Name != "web" || got.Metadata.UID != "ds" || len(template.Spec.Containers) != 1 ||
		template.Spec.Containers[0].Image != "web:1" || fmt.Sprint(template.Metadata.Labels) != "map[then:too]" || strings.Contains(string(raw), "$patch") {
		t.Errorf("%s", raw)
	}
	for revision, image := range map[string]string{"2": "web:2", "02": "web:2", "+1": "web:1"} {
		if raw, err := s.DaemonSet(t.Context(), "a", "web", revision); err != nil || !strings.Contains(string(raw), image) {
			t.Errorf("%s: %s, %v", revision, raw, err)
		}
	}
	if raw, err := s.StatefulSet(t.Context(), "a", "web", "1"); err != nil || !strings.Contains(string(raw), "db:1") {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestADeploymentsRevisionIsItsReplicaSet(t *testing.T) {
	s := revisions(t)
	for revision, name := range map[string]string{"1": "web-x", "2": "web-y"} {
		raw, err := s.Deployment(t.Context(), "a", "web", revision)
		if err != nil || !strings.HasPrefix(string(raw), `{"kind":"ReplicaSet"`) || !strings.Contains(string(raw), `"name":"`+name+`"`) {
			t.Errorf("%s: %s, %v", revision, raw, err)
		}
	}
}

func TestWhatIsNotThereIs404AndWhatIsNoNumber400(t *testing.T) {
	s := revisions(t)
	find := map[string]func(namespace, name, revision string) error{
		"daemonset":   func(ns, n, r string) error { _, err := s.DaemonSet(t.Context(), ns, n, r); return err },
		"statefulset": func(ns, n, r string) error { _, err := s.StatefulSet(t.Context(), ns, n, r); return err },
		"deployment":  func(ns, n, r string) error { _, err := s.Deployment(t.Context(), ns, n, r); return err },
	}
	for kind, f := range find {
		for _, c := range []struct{ namespace, name, revision string }{
			{"a", "web", "7"}, {"a", "none", "1"}, {"none", "web", "1"},
			{"a", "web", "4"}, // of a workload that had the name before, or of another namespace
			{"a", "web", "5"}, {"a", "web", "3"}, {"a", "web", "-1"}, {"a", "web", "9"},
			{"b", "web", "1"},
		} {
			if err := f(c.namespace, c.name, c.revision); !apierrors.IsNotFound(err) {
				t.Errorf("%s %v: %v", kind, c, err)
			}
		}
		for _, r := range []string{"x", "", "1.0", "9999999999999999999999", strings.Repeat("a", 500)} {
			err := f("a", "web", r)
			if kind == "deployment" && !apierrors.IsNotFound(err) || kind != "deployment" && !apierrors.IsBadRequest(err) || len(err.Error()) > 200 {
				t.Errorf("%s %.10q: %v", kind, r, err)
			}
		}
	}
}

func TestAKindThatIsNotKnownIs503(t *testing.T) {
	for _, path := range []string{"/apis/apps/v1/deployments", "/apis/apps/v1/replicasets"} {
		s := &revision.Service{Store: kapistest.NewStore(t, map[string][]any{"/apis/apps/v1/deployments": {workload("Deployment", "a", "web", "d")}}, path)}
		if _, err := s.Deployment(t.Context(), "a", "web", "1"); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
