package controllermanager

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ownGroup reports whether ks-apiserver has routes of a group, in any version.
func ownGroup(gv schema.GroupVersion) bool {
	switch gv.Group {
	case "application.kubesphere.io", "cluster.kubesphere.io", "config.kubesphere.io", "extensions.kubesphere.io", "gateway.kubesphere.io",
		"iam.kubesphere.io", "kubesphere.io", "operations.kubesphere.io", "package.kubesphere.io", "quota.kubesphere.io",
		"resources.kubesphere.io", "tenant.kubesphere.io", "terminal.kubesphere.io", "tower.kubesphere.io", "workloadtemplate.kubesphere.io":
		return true
	}
	return strings.HasSuffix(gv.Group, ".kapis.dev")
}
