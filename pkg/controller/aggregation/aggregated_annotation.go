package aggregation

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// AnnotationRecord is the annotation of a role that says which of its rules and template names came from templates.
const AnnotationRecord = iamv1beta1.AnnotationAggregated

// record is what the last aggregation wrote into a role.
type record struct {
	// Templates are the names that the selector found.
	Templates []string `json:"templates,omitempty"`
	// Rules are the fingerprints of the templates' rules.
	Rules []string `json:"rules,omitempty"`
}

// readRecord returns the record, or nil if there is none. An unreadable one counts as empty: every rule is then the
// role's own, and none is lost.
func readRecord(meta metav1.Object) *record {
	text, ok := meta.GetAnnotations()[AnnotationRecord]
	if !ok {
		return nil
	}
	r := &record{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return &record{}
	}
	return r
}

func (r *record) equal(other *record) bool {
	return other != nil && slices.Equal(r.Templates, other.Templates) && slices.Equal(r.Rules, other.Rules)
}

// writeRecord writes r into the annotation; nil removes the annotation.
func writeRecord(meta metav1.Object, r *record) error {
	annotations := maps.Clone(meta.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	if r == nil {
		delete(annotations, AnnotationRecord)
	} else {
		text, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("write the record of aggregated rules: %w", err)
		}
		annotations[AnnotationRecord] = string(text)
	}
	meta.SetAnnotations(annotations)
	return nil
}

// fingerprint returns a SHA-256 over a rule's values, in which absent and empty lists are equal.
func fingerprint(r *rbacv1.PolicyRule) string {
	sum := sha256.Sum256([]byte(iamv1beta1.RuleKey(r)))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// earlierFingerprint returns the fingerprint of earlier versions, with 64 bits, for which collisions can be found with effort. It is used
// only to read such a record once; the next record has new fingerprints.
func earlierFingerprint(r *rbacv1.PolicyRule) string {
	h := sha256.New()
	for _, field := range [][]string{r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs} {
		fmt.Fprintf(h, "%q\n", append([]string{}, field...))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func fingerprints(rules []rbacv1.PolicyRule) []string {
	out := make([]string, len(rules))
	for i := range rules {
		out[i] = fingerprint(&rules[i])
	}
	return out
}
