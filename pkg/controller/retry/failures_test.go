package retry_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

func TestFailuresOfAnOperationAreCountedInARow(t *testing.T) {
	var f retry.Failures
	f.Forget("unknown")
	for _, c := range []struct {
		object, operation string
		before            int
	}{
		{object: "a", operation: "1", before: 0},
		{object: "a", operation: "1", before: 1},
		{object: "b", operation: "1", before: 0}, // another object
		{object: "a", operation: "1", before: 2},
		{object: "a", operation: "2", before: 0}, // another operation
		{object: "a", operation: "1", before: 0}, // and the former one again
		{object: "b", operation: "1", before: 1},
	} {
		if got := f.Add(c.object, c.operation); got != c.before {
			t.Errorf("operation %s on %s had failed %d times before, want %d", c.operation, c.object, got, c.before)
		}
	}
	f.Forget("b")
	if got := f.Add("b", "1"); got != 0 {
		t.Errorf("an object that was forgotten has failed %d times, want 0", got)
	}
	if got := f.Add("a", "1"); got != 1 {
		t.Errorf("another object was forgotten, too: it has failed %d times, want 1", got)
	}
}
