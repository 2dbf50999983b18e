package setting

import (
	"strconv"
)

// olderFunc reports whether a version of an object is not to replace another.
type olderFunc func(version, than string) bool

// never is the olderFunc for complete lists: after a backup of etcd was restored, the older version is the right one.
func never(string, string) bool { return false }

// older reports whether a version of an object comes before another (Kubernetes API concepts, "Resource versions": they are numbers that
// grow). A write is known here before the watch sends it, after the writes before it.
func older(version, than string) bool {
	a, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return false
	}
	b, err := strconv.ParseUint(than, 10, 64)
	return err == nil && a < b
}
