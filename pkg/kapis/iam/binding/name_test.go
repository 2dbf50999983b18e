package binding

import (
	"strings"
	"testing"
)

func TestNamesOfBindingsAreNames(t *testing.T) {
	long := strings.Repeat("x", 250)
	if n := Name(long, "role"); len(n) > 253 || n == Name(long, "rope") {
		t.Errorf("%s", n)
	}
	if DistinctName("a", "b-c") == DistinctName("a-b", "c") {
		t.Error("two have one name")
	}
}
