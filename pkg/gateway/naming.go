// Package gateway says what the gateway of a project is made of: by templates of an ingress controller, or by a class of
// gateway.networking.k8s.io. A project chooses among what the templates leave open, and nothing else.
package gateway

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// prefix is what the names of gateways begin with, as those of KubeSphere 3 do.
	prefix = "kubesphere-router-"
	// LegacyNamespace is where installations of KubeSphere 3 have their gateways.
	LegacyNamespace = "kubesphere-controls-system"
	// ClusterProject stands for the cluster where older clients name the project of a gateway.
	ClusterProject = "kubesphere-system"

	// LabelProject has the namespace that a gateway serves.
	LabelProject = "project"
	// LabelManaged marks what ks-controller-manager makes of Gateways.
	LabelManaged = "gateway.kapis.dev/managed"

	// ConditionAccepted says whether something is made of a Gateway.
	ConditionAccepted = "Accepted"
	// ConditionReady says whether what was made of a Gateway works.
	ConditionReady = "Ready"
)

// Name returns the name of the gateway of a project.
func Name(namespace string) string { return prefix + namespace }

// CheckProject returns why a namespace can't have a gateway, or nil: the name of a Service has at most 63 characters.
func CheckProject(namespace string) error {
	if n := validation.DNS1035LabelMaxLength - len(prefix); len(namespace) > n {
		return status.BadRequestf("the name of the namespace has more than %d characters, so its gateway could have no Service of the name %s%s",
			n, prefix, namespace)
	}
	if namespace == ClusterProject || namespace == LegacyNamespace {
		return status.BadRequestf("%s is no project: a gateway of the whole cluster is installed by its administrators, not by a project",
			namespace)
	}
	return nil
}

// Project returns the namespace whose gateway has a name.
func Project(name string) (namespace string, ok bool) {
	namespace, ok = strings.CutPrefix(name, prefix)
	return namespace, ok && namespace != ""
}

// LegacyLabels are the labels by which the Deployment and the Service of a gateway of KubeSphere 3 are found.
func LegacyLabels(namespace string) map[string]string {
	return map[string]string{"app": "kubesphere", "component": "ks-router", "tier": "backend", LabelProject: namespace}
}

// Labels are the labels of what is made of the Gateway of a project: those of KubeSphere 3, and whose it is.
func Labels(namespace string) map[string]string {
	out := LegacyLabels(namespace)
	out[LabelManaged] = "true"
	return out
}
