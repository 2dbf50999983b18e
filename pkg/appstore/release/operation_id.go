package release

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
)

// operationPrefix begins the ids of operations, which what earlier installations noted does not.
const operationPrefix = "k1-"

// OperationID identifies what a release asks for: its spec, its author, and where it is. status.specHash has the one that was done last.
func OperationID(r *v2.ApplicationRelease) string {
	var values string
	if r.Spec.Values != nil {
		values = string(r.Spec.Values.Raw)
	}
	of := []any{
		r.UID, r.Spec.AppID, r.Spec.AppVersionID, r.Spec.AppType, values, r.Annotations[v2.AnnotationUser],
		r.Annotations[v2.AnnotationRetry], r.Labels[v2.LabelApp], r.Labels[v2.LabelCluster], r.Labels[v2.LabelWorkspace],
		r.Labels[v2.LabelNamespace],
	}
	if sent := r.Annotations[v2.AnnotationFleetHash]; sent != "" { // in a member: whatever the hub has sent again
		of = append(of, sent)
	}
	text, err := json.Marshal(of)
	if err != nil { // texts have a JSON text
		panic(fmt.Sprintf("encode an operation: %v", err))
	}
	sum := sha256.Sum256(text)
	return operationPrefix + hex.EncodeToString(sum[:16])
}

// IsDone reports whether what a release asks for has been done, or has failed for good.
func IsDone(r *v2.ApplicationRelease) bool { return r.Status.SpecHash == OperationID(r) }

// IsAdopted reports whether an earlier installation has installed a release.
func IsAdopted(s *v2.ApplicationReleaseStatus) bool {
	return s.SpecHash != "" && !strings.HasPrefix(s.SpecHash, operationPrefix)
}

// IsUntouched reports whether an earlier installation has installed a release, and nobody has saved it here since.
func IsUntouched(r *v2.ApplicationRelease) bool {
	return IsAdopted(&r.Status) && r.Annotations[v2.AnnotationSaved] == ""
}
