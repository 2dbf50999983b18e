package chart

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

const maxVersion, maxRange = 63, 256

// CheckVersion returns an error if an extension can't have a version.
func CheckVersion(version string) error {
	if _, err := semver.StrictNewVersion(version); err != nil || len(version) > maxVersion || len(validation.IsDNS1123Subdomain(version)) > 0 {
		return fmt.Errorf("the version %.100q is no semantic version, such as 1.2.3, in lower case, without + and with at most %d letters",
			version, maxVersion)
	}
	return nil
}

// Compare compares two versions. What is no version is lower than all that are.
func Compare(a, b string) int {
	x, errX := semver.NewVersion(a)
	y, errY := semver.NewVersion(b)
	switch {
	case errX != nil && errY != nil:
		return strings.Compare(a, b)
	case errX != nil:
		return -1
	case errY != nil:
		return 1
	}
	if c := x.Compare(y); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// Allows reports whether a version is within a range, such as ">=1.19-0"; all are within "". A range that can't be read allows nothing.
//
// Distributions of Kubernetes name their builds as pre-releases (v1.30.1-eks-1), and mean no less than what they are built of: so only the
// numbers count.
func Allows(within, version string) bool {
	if strings.TrimSpace(within) == "" {
		return true
	}
	if checkRange(within) != nil {
		return false
	}
	c, err := semver.NewConstraint(within)
	if err != nil {
		return false
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	plain := semver.New(v.Major(), v.Minor(), v.Patch(), "", "")
	return c.Check(plain)
}

func checkRange(text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if len(text) > maxRange {
		return fmt.Errorf("the range of versions has more than %d letters", maxRange)
	}
	if _, err := semver.NewConstraint(text); err != nil {
		return fmt.Errorf("%.100q is no range of versions, such as >=1.2.0", text)
	}
	return nil
}
