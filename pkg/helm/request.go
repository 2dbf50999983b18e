package helm

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
)

// Bounds of a request.
const (
	MaxArchive = 16 << 20 // bytes of a chart as it is packed
	MaxValues  = 1 << 20  // bytes of Values, and of SecretValues
	maxLabels  = 32
)

// NoRecord is Request.RecordDigest of an operation on a release that has no record.
const NoRecord = "none"

// Operation is what is done to a release.
type Operation string

const (
	// Validate checks values against the schemas of a chart and its subcharts, without a cluster.
	Validate Operation = "validate"
	// Render returns what Apply would apply, and changes nothing.
	Render Operation = "render"
	// Preview returns what Apply would do with each object, as kube-apiserver answers to dry runs, and changes nothing.
	Preview Operation = "preview"
	// Apply installs a release, or upgrades it where it is installed.
	Apply Operation = "apply"
	// Rollback applies a former revision again.
	Rollback Operation = "rollback"
	// Uninstall deletes what the record of a release has. It needs no chart, and succeeds where there is no release.
	Uninstall Operation = "uninstall"
	// Status returns the newest record of a release.
	Status Operation = "status"
)

// Request is one operation.
type Request struct {
	Operation Operation `json:"operation"`
	// Name and Namespace are the release's.
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// ID identifies the operation for Apply: a release whose newest revision was deployed by an operation with this ID is left as it
	// is, so an operation can be repeated after a crash. It is a label value. Empty: every Apply makes a revision.
	ID string `json:"id,omitempty"`
	// Chart is a packed chart, for Validate, Render, Preview and Apply.
	Chart []byte `json:"chart,omitempty"`
	// Values is a YAML mapping; SecretValues another one, merged over it.
	Values       []byte `json:"values,omitempty"`
	SecretValues []byte `json:"secretValues,omitempty"`
	// GivesDigest is Result.GivesDigest of Render. Where it is set, Apply changes nothing if the chart renders other roles, role templates or
	// bindings now, or other backends that get access tokens: its templates may be written to do so.
	GivesDigest string `json:"givesDigest,omitempty"`
	// Labels are set on all objects, hooks and CustomResourceDefinitions too, over those of the chart; selectors and templates of pods
	// don't get them.
	Labels map[string]string `json:"labels,omitempty"`
	// DropStatusOf is an API group: status.state and status.conditions are left out of its objects, so that a chart can't set them.
	DropStatusOf string `json:"dropStatusOf,omitempty"`
	// KeepFailed leaves a failed upgrade as it is. Without it the last deployed revision is applied again.
	KeepFailed bool `json:"keepFailed,omitempty"`
	// Revision is that which Rollback applies; 0 for the last one that was deployed before the newest.
	Revision int `json:"revision,omitempty"`
	// SkipHooks runs no hooks. Uninstall also leaves what the user may not read then, and fails because of it otherwise.
	SkipHooks bool `json:"skipHooks,omitempty"`
	// Orphan lets Uninstall delete the records alone, and leave the objects.
	Orphan bool `json:"orphan,omitempty"`
	// RecordDigest and BaseDigest are those of Release as Status has returned it, or NoRecord and nothing. Where they are set, Apply and
	// Uninstall refuse other records: those of the namespace are Secrets that others may write.
	RecordDigest string `json:"recordDigest,omitempty"`
	BaseDigest   string `json:"baseDigest,omitempty"`
	// Cluster is where the release is, for all but Validate.
	Cluster Connection `json:"cluster"`
}

func (r *Request) check() error {
	refuse := func(format string, args ...any) error {
		return &Error{Reason: ReasonInvalid, Message: fmt.Sprintf("Helm operation: "+format, args...)}
	}
	needsChart := false
	switch r.Operation {
	case Validate, Render, Preview, Apply:
		needsChart = true
	case Rollback, Uninstall, Status:
	default:
		return refuse("%q: want validate, render, preview, apply, rollback, uninstall or status", r.Operation)
	}
	if wrong := validation.IsDNS1123Label(r.Name); len(wrong) > 0 || len(r.Name) > 53 {
		return refuse("the release's name %q is not a DNS-1123 label of at most 53 characters", Clip(r.Name, 80))
	}
	if wrong := validation.IsDNS1123Label(r.Namespace); len(wrong) > 0 {
		return refuse("the namespace %q is not a DNS-1123 label", Clip(r.Namespace, 80))
	}
	if len(validation.IsValidLabelValue(r.ID)) > 0 {
		return refuse("the ID %q is not the value of a label", Clip(r.ID, 80))
	}
	if needsChart != (len(r.Chart) > 0) || len(r.Chart) > MaxArchive {
		return refuse("%s with a chart of %d bytes: validate, render, preview and apply have one, of at most %d", r.Operation, len(r.Chart),
			MaxArchive)
	}
	if len(r.Values) > MaxValues || len(r.SecretValues) > MaxValues {
		return refuse("values are larger than %d bytes", MaxValues)
	}
	if len(r.Labels) > maxLabels {
		return refuse("more than %d labels", maxLabels)
	}
	for k, v := range r.Labels {
		if len(validation.IsQualifiedName(k)) > 0 || len(validation.IsValidLabelValue(v)) > 0 {
			return refuse("the label %q is not valid", Clip(k+"="+v, 160))
		}
		var key any
		if err := boundedyaml.Unmarshal([]byte(k), &key); err != nil || key != k { // as y, which YAML 1.1 takes for a boolean
			return refuse("the label's key %q is no text in YAML", k)
		}
	}
	if r.Operation == Validate {
		return nil
	}
	if r.Cluster.User == "" {
		return refuse("no user is named to apply the release as")
	}
	if r.Cluster.Host == "" {
		return refuse("no cluster is named")
	}
	return nil
}

// Clip returns a text as UTF-8 with at most about most bytes, for messages and conditions.
func Clip(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
