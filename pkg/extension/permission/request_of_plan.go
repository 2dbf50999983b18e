package permission

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
)

// RequestOf returns what the installation of a version by a plan may do, if it is approved: by its chart and by its values. A plan that
// follows the recommended version is approved for every chart that asks for the same.
func RequestOf(plan *v1alpha1.InstallPlan, version *v1alpha1.ExtensionVersion, raw []byte) (*Request, *chart.Archive, error) {
	archive, err := chart.Read(raw)
	if err != nil {
		return nil, nil, err
	}
	asked, err := archive.Permissions()
	if err != nil {
		return nil, nil, err
	}
	r := &Request{
		ClusterRules: asked.Cluster, Rules: asked.Namespace, Namespace: NamespaceOf(version), Values: valuesDigest(&plan.Spec),
	}
	if plan.Spec.UpgradeStrategy != v1alpha1.UpgradeAutomatic {
		r.Chart = chart.Digest(raw)
	}
	m, err := archive.Metadata()
	if err != nil {
		return nil, nil, err
	}
	r.HookImages = m.HookImages()
	if r.Upstreams, err = UpstreamsOf(plan); err != nil {
		return nil, nil, err
	}
	return r, archive, nil
}

// valuesDigest returns the SHA-256 of the values of a plan, for all clusters.
func valuesDigest(s *v1alpha1.InstallPlanSpec) string {
	values := struct {
		Config    string
		Overrides map[string]string
	}{Config: s.Config}
	if s.ClusterScheduling != nil {
		values.Overrides = s.ClusterScheduling.Overrides
	}
	text, err := json.Marshal(values)
	if err != nil { // texts have a JSON text
		panic(fmt.Sprintf("encode values: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// PlacementOf returns the SHA-256 of where a plan wants agents, "" for nowhere. It is approved besides what they may do: another cluster is
// one more in which the approver's word counts.
func PlacementOf(s *v1alpha1.InstallPlanSpec) string {
	if s.ClusterScheduling == nil || s.ClusterScheduling.Placement == nil {
		return ""
	}
	text, err := json.Marshal(s.ClusterScheduling.Placement)
	if err != nil { // texts have a JSON text
		panic(fmt.Sprintf("encode a placement: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// NamespaceOf returns the namespace of the release of a version.
func NamespaceOf(v *v1alpha1.ExtensionVersion) string {
	if v.Spec.Namespace != "" {
		return v.Spec.Namespace
	}
	return v1alpha1.ExtensionNamespace(v.Labels[v1alpha1.LabelExtension])
}
