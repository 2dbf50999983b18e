package child

import (
	"bytes"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// X40: a line has nothing of what is hidden when it is written, also where it is cut.
func TestX40LinesHaveNothingOfWhatIsHidden(t *testing.T) {
	out := &bytes.Buffer{}
	l := &lines{out: out}
	l.message("before")
	l.hide(func(h *helm.Hidden) { h.AddSecret("canary-of-a-secret", 4) })
	for before := range 40 {
		l.message("%s", strings.Repeat("x", 4<<10-before)+"canary-of-a-secret")
	}
	_ = l.write(helm.Line{Done: true, Error: &helm.Error{Message: "it is canary-of-a-secret"}})
	if got := out.String(); strings.Contains(got, "can") || !strings.Contains(got, "before") || !strings.Contains(got, "it is (value)") {
		t.Errorf("it says %s", helm.Clip(got, 500))
	}
}
