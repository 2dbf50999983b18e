package kind

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// A text of several lines is not several texts.
func TestAGroupOfSeveralLinesIsNotSeveralGroups(t *testing.T) {
	if got := joinLines(`["a","b\nc","","d"]`); got != "a\nd" || plan.IsLine(got, "b") || plan.IsLine(got, "b\nc") {
		t.Errorf("%q", got)
	}
}
