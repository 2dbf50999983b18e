package release

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
)

// Sent is the package of a release as a hub sends it to a member, with what the member has to know of its version.
type Sent struct {
	// Type is that of the version: helm, yaml or edge.
	Type string `json:"type"`
	// Digest is the SHA-256 of the package. File is the name of the ConfigMaps that have it, but for the number of each, of which there are
	// Parts.
	Digest string `json:"digest"`
	File   string `json:"file"`
	Parts  int    `json:"parts"`
}

// Annotation returns what the annotation AnnotationFleetPackage says.
func (s *Sent) Annotation() (string, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode what is known of a package: %w", err)
	}
	return string(raw), nil
}

// Nobody is the author of what a hub sends that nobody has saved since an earlier installation installed it. No User has this name.
const Nobody = "-"

// IsSent reports whether a hub has sent a release to this cluster.
func IsSent(r *v2.ApplicationRelease) bool { return r.Labels[clusterv1alpha1.LabelFleet] != "" }

// SentOf returns the package that a hub has sent with a release.
func SentOf(r *v2.ApplicationRelease) (*Sent, error) {
	out := &Sent{}
	err := json.Unmarshal([]byte(r.Annotations[v2.AnnotationFleetPackage]), out)
	if err != nil || out.Digest == "" || out.Parts < 1 || !IsSentFile(out.File) {
		return nil, Invalidf("the annotation %s does not say which package the release has: save it again on the hub", v2.AnnotationFleetPackage)
	}
	return out, nil
}

// Version returns the version of a release as its hub has sent it. That it may be installed was checked there.
func (s *Sent) Version(r *v2.ApplicationRelease) *v2.ApplicationVersion {
	return &v2.ApplicationVersion{
		ObjectMeta: metav1.ObjectMeta{Name: r.Spec.AppVersionID,
			Labels: map[string]string{v2.LabelApp: r.Spec.AppID, v2.LabelWorkspace: r.Labels[v2.LabelWorkspace]}},
		Spec:   v2.ApplicationVersionSpec{AppType: s.Type, Digest: s.Digest},
		Status: v2.ApplicationVersionStatus{State: v2.StateActive},
	}
}

// NoPrograms says why there are no releases in a member without programs of this project.
func NoPrograms(cluster string) string {
	return fmt.Sprintf("no program of this project runs in the cluster %.63q: it has no releases of the store", cluster)
}

// SentKey is the key of the ConfigMaps that have a package which a hub has brought. They are in InventoryNamespace.
const SentKey = "package"

// SentFile returns the name of the ConfigMaps of the package of a hub's release, but for the number of each.
func SentFile(hub, name string) string {
	sum := sha256.Sum256([]byte(hub + "/" + name)) // neither has a slash
	return sentPrefix + hex.EncodeToString(sum[:20])
}

const sentPrefix = "fleet-package-"

// IsSentFile reports whether a text is a name that SentFile returns.
var IsSentFile = regexp.MustCompile("^" + sentPrefix + "[0-9a-f]{40}$").MatchString
