// Package release is what the routes and the controller of ApplicationReleases agree on: which releases are valid, what their values are,
// and which objects they consist of.
package release

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// SystemWorkspace is the workspace whose applications every workspace may install.
	SystemWorkspace = tenantv1beta1.SystemWorkspace
	// MaxName is how long the name of a release may be: a Helm release has no longer one.
	MaxName = 53
	// MaxValues bounds the values of a release, in bytes.
	MaxValues = 1 << 20
)

// Check returns what is wrong with a release by itself: a 400 for a label that is missing or not one of spec, a 422 for what can't be done.
// Whether there is its cluster is not looked at.
func Check(r *v2.ApplicationRelease) error {
	if len(validation.IsDNS1123Label(r.Name)) > 0 || len(r.Name) > MaxName {
		return status.BadRequestf("metadata.name %.253q: want the name of a release: a DNS label of at most %d characters", r.Name, MaxName)
	}
	for _, key := range []string{v2.LabelApp, v2.LabelCluster, v2.LabelWorkspace, v2.LabelNamespace} {
		if r.Labels[key] == "" {
			return status.BadRequestf("metadata.labels: a release has the label %s", key)
		}
	}
	if len(validation.IsDNS1123Label(r.Labels[v2.LabelNamespace])) > 0 {
		return status.BadRequestf("metadata.labels: %s is no name of a namespace", v2.LabelNamespace)
	}
	if r.Spec.AppID != r.Labels[v2.LabelApp] {
		return status.BadRequestf("spec.appID is %.253q, and the label %s %.63q", r.Spec.AppID, v2.LabelApp, r.Labels[v2.LabelApp])
	}
	if r.Spec.AppVersionID == "" {
		return status.BadRequestf("spec.appVersionID: want the name of the ApplicationVersion to install")
	}
	switch r.Spec.AppType {
	case "", v2.TypeHelm, v2.TypeYAML, v2.TypeEdge:
	default:
		return status.BadRequestf("spec.appType is %.63q: want %s, %s or %s", r.Spec.AppType, v2.TypeHelm, v2.TypeYAML, v2.TypeEdge)
	}
	_, err := Values(r.Spec.Values)
	return err
}

// IsElsewhere reports whether a release is installed in another cluster than this one, whose name is host. What a hub has sent is
// installed here.
func IsElsewhere(r *v2.ApplicationRelease, host string) bool {
	return IsElsewhereBy(func(label string) string { return r.Labels[label] }, host)
}

// IsElsewhereBy is IsElsewhere for a release whose labels a function returns.
func IsElsewhereBy(label func(string) string, host string) bool {
	is := label(v2.LabelCluster)
	return is != "" && is != host && label(clusterv1alpha1.LabelFleet) == ""
}

// CheckVersion returns why a version can't be installed as a release: it is another application's or another workspace's, has another type,
// or was not passed.
func CheckVersion(r *v2.ApplicationRelease, v *v2.ApplicationVersion) error {
	workspace := v.Labels[v2.LabelWorkspace]
	switch {
	case v.Name != r.Spec.AppVersionID, v.Labels[v2.LabelApp] != r.Spec.AppID,
		workspace != "" && workspace != SystemWorkspace && workspace != r.Labels[v2.LabelWorkspace]:
		return Invalidf("spec.appVersionID: the application %.253q has no version %.253q for the workspace %.63q", r.Spec.AppID,
			r.Spec.AppVersionID, r.Labels[v2.LabelWorkspace])
	case v.Status.State != v2.StateActive && v.Status.State != v2.StatePassed:
		return status.Errorf(http.StatusConflict, "the version %.253q is %s: one that is active or passed can be installed", v.Name, stateOf(v))
	case r.Spec.AppType != "" && r.Spec.AppType != Type(v):
		return Invalidf("spec.appType is %s, and the version is of the type %s", r.Spec.AppType, Type(v))
	}
	return nil
}

func stateOf(v *v2.ApplicationVersion) string {
	if v.Status.State == "" {
		return v2.StateDraft
	}
	return v.Status.State
}

// Type returns the type of a version.
func Type(v *v2.ApplicationVersion) string {
	if v.Spec.AppType == "" {
		return v2.TypeHelm
	}
	return v.Spec.AppType
}

// Values returns the values of a release as YAML, nil for none. They are an object, or a text, which clients send in base64.
func Values(raw *apiextensionsv1.JSON) ([]byte, error) {
	if raw == nil || len(raw.Raw) == 0 || bytes.Equal(raw.Raw, []byte("null")) {
		return nil, nil
	}
	out := raw.Raw
	if out[0] == '"' {
		var text string
		if err := json.Unmarshal(out, &text); err != nil {
			return nil, status.BadRequestf("spec.values: it is no text in JSON")
		}
		out = []byte(text)
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			out = decoded
		}
	}
	if len(out) > MaxValues {
		return nil, Invalidf("spec.values: they are larger than %d bytes", MaxValues)
	}
	return out, nil
}

// Invalidf returns a 422, as format and args say.
func Invalidf(format string, args ...any) error {
	return status.Errorf(http.StatusUnprocessableEntity, format, args...)
}
