package installplan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// wanted is what a plan asks for.
type wanted struct {
	plan      *v1alpha1.InstallPlan
	version   *v1alpha1.ExtensionVersion
	namespace string // of the release
	settings  *Settings
	// secretValues are merged over those of the plan.
	secretValues []byte

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
