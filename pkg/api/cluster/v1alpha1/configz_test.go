package v1alpha1_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
)

// What is known replaces what was there, once, in whatever order it is written; nothing replaces nothing.
func TestConfigzIsWrittenWhereItDiffers(t *testing.T) {
	parts := map[string]bool{"auditing": true, "terminal": false}
	for was, changed := range map[string]bool{"": true, "null": true, "[1]": true, `{"auditing":false,"terminal":false}`: true, `{"auditing":"yes"}`: true,
		`{"auditing":true}`: true, `{ "terminal" : false, "auditing" : true }`: false} {
		s := &clusterv1alpha1.ClusterStatus{Configz: runtime.RawExtension{Raw: []byte(was)}}
		want := `{"auditing":true,"terminal":false}`
		if !changed {
			want = was
		}
		if got := s.SetConfigz(parts); got != changed || string(s.Configz.Raw) != want {
			t.Errorf("%s: %v, %s", was, got, s.Configz.Raw)
		}
		if before := string(s.Configz.Raw); s.SetConfigz(nil) || string(s.Configz.Raw) != before {
			t.Errorf("nothing replaces %s by %s", before, s.Configz.Raw)
		}
	}
}
