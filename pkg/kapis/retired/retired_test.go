package retired_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/kapis/retired"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
)

// served are the groups and resources that kube-apiserver has.
type served map[string]bool

func (s served) Serves(group string) bool { return s[group] }
func (s served) GroupOf(resource string) (schema.GroupResource, bool) {
	return schema.GroupResource{}, s[resource]
}

// O24: what can't be mapped is a 404 that says so, unless something serves it.
func TestWhatIsRetiredSaysSo(t *testing.T) {
	table := retired.New(func() retired.Kinds { return served{"network.kubesphere.io": true, "dashboards": true} }, true)
	refuse := func(line string) error {
		method, path, _ := strings.Cut(line, " ")
		return table.Refuse(requesttest.Info(t, method, path))
	}
	for line, want := range map[string]string{
		"GET /kapis/monitoring.kubesphere.io/v1alpha3/namespaces/a/pods/b/containers/c": "Prometheus",
		"GET /kapis/metering.kubesphere.io/v1alpha1/cluster":                            "metering",
		"POST /kapis/openpitrix.io/v1/apps":                                             "application.kubesphere.io/v2",
		"GET /kapis/resources.kubesphere.io/v1alpha3/helmreleases":                      "application.kubesphere.io/v2",
		"GET /kapis/tenant.kubesphere.io/v1alpha2/logs":                                 "logs",
		"GET /kapis/tenant.kubesphere.io/v1alpha2/events":                               "events",
		"GET /kapis/tenant.kubesphere.io/v1alpha2/metering/hierarchy":                   "metering",
		"GET /kapis/iam.kubesphere.io/v1alpha2/devops/d/members":                        "DevOps",
		"DELETE /kapis/iam.kubesphere.io/v1alpha2/devops/d/roles/r":                     "DevOps",
		"GET /kapis/resources.kubesphere.io/v1alpha3/namespaces/a/federateddeployments": "federated",
		"GET /kapis/resources.kubesphere.io/v1alpha3/devopsprojects":                    "DevOps",
	} {
		if err := refuse(line); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "is not served") {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	for _, line := range []string{
		"GET /kapis/network.kubesphere.io/v1alpha2/ippools", "GET /kapis/resources.kubesphere.io/v1alpha3/dashboards", // kinds that are there
		"GET /apis/monitoring.kubesphere.io/v1/x", "GET /kapis/tenant.kubesphere.io/v1alpha2/workspaces/logs",
		"GET /kapis/tenant.kubesphere.io/v1alpha2/auditing/events",
		"GET /kapis/cluster.kubesphere.io/v1alpha1/clusters/validation", "PUT /kapis/cluster.kubesphere.io/v1alpha1/clusters/a",
		"POST /kapis/cluster.kubesphere.io/v1alpha1/clusters", "GET /kapis/resources.kubesphere.io/v1alpha3/pods",
		"GET /kapis/iam.kubesphere.io/v1alpha2/users/devops",
		"GET /oauth/authorize", "GET /kapis/monitoring", "GET /kapis/none.kubesphere.io/v1/x",
	} {
		if err := refuse(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if table.Refuse(nil) != nil {
		t.Error("no request")
	}
	table = retired.New(func() retired.Kinds { return served{} }, false)
	if err := refuse("GET /kapis/tenant.kubesphere.io/v1alpha2/auditing/events"); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "auditing.recent") {
		t.Errorf("the newest audit events, where there are none: %v", err)
	}
}
