package installplan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// wanted is what a plan asks for.
type wanted struct {
	plan      *v1alpha1.InstallPlan
	version   *v1alpha1.ExtensionVersion
	namespace string // of the release
	settings  *extensionrelease.Settings
	// secretValues are merged over those of the plan.
	secretValues []byte
	// again is when a recommended version is looked at again that can't be taken now; 0 where a change of some object will say it.
	again time.Duration

	// What follows is known once the chart is read, which is only done where there is something to do. raw is the packed chart, archive what
	// is in it, and request what it may do.
	raw     []byte
	archive *chart.Archive
	request *permission.Request
	values  []byte
}

// id identifies what is asked for. A chart that is replaced under its version changes nothing by itself: it counts by its approval.
func (w *wanted) id() string {
	text, err := json.Marshal([]any{
		w.version.Spec.Version, w.namespace, w.settings, w.plan.Spec.Config, w.secretValues,
		w.plan.Annotations[v1alpha1.AnnotationApproved], w.plan.Annotations[v1alpha1.AnnotationRetry],
	})
	if err != nil { // texts have a JSON text
		panic(fmt.Sprintf("encode an operation: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// destinationOf returns where the release of a plan is.
func destinationOf(r *Reconciler, plan *v1alpha1.InstallPlan) extensionrelease.Destination {
	if !r.Member {
		return extensionrelease.Destination{}
	}
	out := extensionrelease.Destination{Agent: true, Cluster: plan.Annotations[v1alpha1.AnnotationAgentCluster], Role: "member"}
	if r.onHub {
		out.Role = "host"
		if of := plan.Spec.ClusterScheduling; of != nil { // in a member, the hub has merged them
			out.Override = of.Overrides[out.Cluster]
		}
	}
	return out
}
