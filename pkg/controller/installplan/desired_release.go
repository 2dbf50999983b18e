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
	to        extensionrelease.Destination
	// secret are values that are merged over those of the plan.
	secret extensionrelease.SecretValues
	// again is when a recommended version is looked at again that can't be taken now; 0 where a change of some object will say it.
	again time.Duration

	// What follows is known once the chart is read, which is only done where there is something to do. raw is the packed chart, archive what
	// is in it, and request what it may do.
	raw     []byte
	archive *chart.Archive
	request *permission.Request
	values  []byte
}

// id identifies what is asked for. A chart that is replaced under its version changes nothing by itself: it counts by its approval. What is
// approved besides, as values for other clusters, changes nothing of this release.
func (w *wanted) id() string {
	a := w.plan.Annotations
	if a[v1alpha1.AnnotationApprovedChart] == "" {
		return w.formerID()
	}
	return hashed(w.version.Spec.Version, w.namespace, w.settings, w.plan.Spec.Config, w.to, w.secret.Stamp,
		a[v1alpha1.AnnotationApprovedChart], a[v1alpha1.AnnotationRetry])
}

// formerID is the id of what was approved before charts were approved apart: what runs by it is not installed once more.
func (w *wanted) formerID() string {
	return hashed(w.version.Spec.Version, w.namespace, w.settings, w.plan.Spec.Config, w.secret.YAML,
		w.plan.Annotations[v1alpha1.AnnotationApproved], w.plan.Annotations[v1alpha1.AnnotationRetry])
}

// attempt identifies an operation that fails: any other approval may let it succeed, as that of a host that a backend is at.
func (w *wanted) attempt() string {
	return hashed(w.id(), w.plan.Annotations[v1alpha1.AnnotationApproved])
}

// isDone reports whether the last operation that ended, well or not, was asked for the same.
func (w *wanted) isDone() bool {
	last := w.plan.Annotations[v1alpha1.AnnotationOperation]
	return last != "" && (last == w.id() || last == w.attempt() || last == w.formerID())
}

func hashed(of ...any) string {
	text, err := json.Marshal(of)
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

// release returns the name of the release of an extension in this cluster.
func (r *Reconciler) release(extension string) string {
	if r.Member {
		return v1alpha1.AgentRelease(extension)
	}
	return extension
}
