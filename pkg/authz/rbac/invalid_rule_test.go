package rbac

import (
	"strings"
	"testing"
)

func TestARuleWithAWrongWordGivesNothing(t *testing.T) { // S63
	const master = `{"verbs":["get],APIGroups:[],Resources:[pods],ResourceNames:[junk","*"],"apiGroups":["*"],"resources":["*"],"nonResourceURLs":["],NonResourceURLs:["]}`
	r, err := readRules([]byte(`[` + master + `,{"verbs":["list"],"apiGroups":[""],"resources":["pods"]}]`))
	if err != nil {
		t.Fatal(err)
	}
	if r.wrong == nil || !strings.Contains(r.wrong.Error(), "rule 0 gives nothing: verbs has") {
		t.Errorf("it says %v", r.wrong)
	}
	if r.everything() || r.anyOf || r.anyKind || len(r.grants) != 1 || len(r.paths) != 0 {
		t.Errorf("%+v", r)
	}
	if r, err := readRules([]byte(`[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]`)); err != nil || r.wrong != nil || !r.everything() {
		t.Errorf("%+v, %v", r, err)
	}
}
