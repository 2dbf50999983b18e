package retry_test

import (
	"testing"
	"time"

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

func TestAnOperationThatFailedIsNotRepeatedBeforeItsTime(t *testing.T) {
	var f retry.Failures
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	f.Pause("a", now.Add(time.Hour)) // nothing has failed
	if wait := f.Wait("a", "1", now); wait != 0 {
		t.Errorf("without a failure it waits for %v", wait)
	}
	f.Add("a", "1")
	f.Pause("a", now.Add(time.Minute))
	for _, c := range []struct {
		object, operation string
		at                time.Duration
		want              time.Duration
	}{
		{"a", "1", 0, time.Minute}, {"a", "1", 59 * time.Second, time.Second}, {"a", "1", time.Minute, 0}, {"a", "1", time.Hour, 0},
		{"a", "2", 0, 0}, {"b", "1", 0, 0},
	} {
		if got := f.Wait(c.object, c.operation, now.Add(c.at)); got != c.want {
			t.Errorf("%s on %s after %v waits for %v, want %v", c.operation, c.object, c.at, got, c.want)
		}
	}
	f.Forget("a")
	if wait := f.Wait("a", "1", now); wait != 0 {
		t.Errorf("what is forgotten waits for %v", wait)
	}
}

func TestAnOperationIsRepeatedAfterEachTimeOnce(t *testing.T) {
	var f retry.Failures
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	after := []time.Duration{time.Second, time.Minute}
	for round := range 2 { // what is given up is forgotten, and counted from 0
		for _, want := range append(after, 0) {
			if got := f.Again("a", "1", after, now); got != want || f.Wait("a", "1", now) != want {
				t.Errorf("round %d: again after %v, which waits for %v, want %v", round, got, f.Wait("a", "1", now), want)
			}
		}
	}
	f.Again("a", "1", after, now)
	if got := f.Again("a", "2", after, now); got != after[0] {
		t.Errorf("another operation is repeated after %v, want %v", got, after[0])
	}
	if got := f.Again("a", "2", nil, now); got != 0 || f.Wait("a", "2", now) != 0 {
		t.Errorf("one that can't succeed is repeated after %v", got)
	}
}
