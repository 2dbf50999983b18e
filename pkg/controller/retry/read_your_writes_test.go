package retry_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// X20: what the cache has of before the last write is waited for, and no longer than a write may take to be there.
func TestX20AnObjectIsNotReadAsItWasBeforeItsLastWrite(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	object := func(name, version string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Name: name, ResourceVersion: version}
	}
	var w retry.Writes
	w.Note(object("shop", "100"), now)
	for _, c := range []struct {
		name, version string
		after         time.Duration
		want          time.Duration
	}{
		{"shop", "99", 0, retry.Stale}, {"shop", "9", 0, retry.Stale}, {"shop", "99", 59 * time.Second, retry.Stale},
		{"shop", "100", 0, 0}, {"shop", "101", 0, 0}, {"shop", "1000", 0, 0},
		{"shop", "99", time.Minute, 0}, // a database that was restored counts from an older version
		{"shop", "", 0, 0}, {"shop", "0", 0, 0}, {"shop", "opaque", 0, 0},
		{"mail", "1", 0, 0},
	} {
		if got := w.Wait(object(c.name, c.version), now.Add(c.after)); got != c.want {
			t.Errorf("%s in the version %q after %v: %v, want %v", c.name, c.version, c.after, got, c.want)
		}
	}
	w.Note(object("opaque", "a"), now)
	if got := w.Wait(object("opaque", "1"), now); got != 0 {
		t.Errorf("by a version that can't be compared: %v", got)
	}
	w.Forget("shop")
	if got := w.Wait(object("shop", "1"), now); got != 0 {
		t.Errorf("once it is gone: %v", got)
	}
}
