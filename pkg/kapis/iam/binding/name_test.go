package binding_test

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
)

func TestNamesOfBindingsAreNames(t *testing.T) {
	long := strings.Repeat("x", 250)
	if n := binding.Name(long, "role"); len(n) > 253 || n == binding.Name(long, "rope") {
		t.Errorf("%s", n)
	}
	if binding.DistinctName("a", "b-c") == binding.DistinctName("a-b", "c") {
		t.Error("two have one name")
	}
}
