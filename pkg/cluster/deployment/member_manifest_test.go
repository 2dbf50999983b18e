package deployment_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/cluster/deployment"
)

// F8: all that a member needs is in one file, which kubectl can apply at once; the token is in a Secret, and in no argument or environment.
func TestTheDeploymentOfAMemberIsWhole(t *testing.T) {
	raw, err := deployment.YAML(deployment.Options{Hub: "https://hub.example", CA: "-----BEGIN CERTIFICATE-----\ncanary-ca\n-----END CERTIFICATE-----\n",
		Token: "ksj_canary", APIServerImage: "registry.example/ks-apiserver:v1", ControllerManagerImage: "registry.example/ks-controller-manager:v1"})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	before := map[string]bool{}
	for doc := range strings.SplitSeq(string(raw), "\n---\n") {
		var o struct {
			APIVersion string
			Kind       string
			Metadata   struct {
				Name, Namespace string
				Labels          map[string]string
			}
			StringData map[string]string
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("%v in %.200s", err, doc)
		}
		if o.Kind == "" {
			continue // the comment
		}
		kinds[o.Kind]++
		if o.Metadata.Labels["app.kubernetes.io/part-of"] != "ks-apiserver" {
			t.Errorf("%s %s is not known as this project's", o.Kind, o.Metadata.Name)
		}
		group, _, _ := strings.Cut(o.APIVersion, "/")
		if strings.HasSuffix(group, "kubesphere.io") || strings.HasSuffix(group, "kapis.dev") {
			t.Errorf("%s %s is of a kind that kubectl does not know yet", o.Kind, o.Metadata.Name)
		}
		if o.Kind == "Namespace" {
			before[o.Metadata.Name] = true
		} else if ns := o.Metadata.Namespace; ns != "" && ns != "kube-system" && !before[ns] {
			t.Errorf("%s %s comes before its namespace %s", o.Kind, o.Metadata.Name, ns)
		}
		if strings.Contains(doc, "ksj_canary") {
			if o.Kind != "Secret" || o.StringData["join-token"] != "ksj_canary" {
				t.Errorf("the token is in %s %s: %v", o.Kind, o.Metadata.Name, o.StringData["join-token"])
			}
			c := o.StringData["kubesphere.yaml"]
			if !strings.Contains(c, "https://hub.example") || !strings.Contains(c, "clusterRole: member") || !strings.Contains(c, "caFile") {
				t.Errorf("the configuration is %s", c)
			}
		}
	}
	for kind, least := range map[string]int{"Namespace": 1, "CustomResourceDefinition": 20, "ClusterRole": 3, "Deployment": 2, "Service": 2, "Secret": 1,
		"ValidatingAdmissionPolicy": 3, "ServiceAccount": 2, "PriorityClass": 1} {
		if kinds[kind] < least {
			t.Errorf("%d of the kind %s, want %d at least", kinds[kind], kind, least)
		}
	}
	for _, image := range []string{"ks-apiserver:latest", "ks-controller-manager:latest"} {
		if strings.Contains(string(raw), "image: "+image) {
			t.Errorf("it runs the image %s", image)
		}
	}
}
