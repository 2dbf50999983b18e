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

// AnnotationRecord is where a role says which of its rules and template names came from templates.
const AnnotationRecord = iamv1beta1.AnnotationAggregated

// record is what the last aggregation put into a role.
type record struct {
	// Templates are the names that the selector found.
	Templates []string `json:"templates,omitempty"`
	// Rules are the fingerprints of the templates' rules.
	Rules []string `json:"rules,omitempty"`
}

// readRecord returns nil where there is none. One that can't be read is an empty one: every rule is
// then taken for the role's own, and none is lost.
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

// writeRecord puts r into the annotation; nil takes the annotation away.
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

// fingerprint tells rules apart: SHA-256 over their values, absent and empty lists alike.
func fingerprint(r *rbacv1.PolicyRule) string {
	sum := sha256.Sum256([]byte(iamv1beta1.RuleKey(r)))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// earlierFingerprint is how records of earlier versions tell rules apart: 64 bits, of which somebody who tries long enough finds two rules
// that share them. It is of use for reading such a record once; the next one has fingerprints.
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
