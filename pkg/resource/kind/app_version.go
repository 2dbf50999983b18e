package kind

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// appVersions are versions of applications of the store, in the order of semantic versions: 1.9.0 is before 1.10.0.
func appVersions() *plan.Kind {
	return &plan.Kind{
		Fields:  []plan.Field{{Name: "versionName", Sort: true}},
		Extract: func(json string, v []string) { v[0] = versionOrder(rawjson.GetText(json, "spec", "versionName")) },
	}
}

// versionOrder returns a text that is compared as the version is. Versions that are none come first.
func versionOrder(version string) string {
	v, err := semver.NewVersion(version)
	if err != nil {
		return " " + version
	}
	var key strings.Builder
	fmt.Fprintf(&key, "%020d%020d%020d", v.Major(), v.Minor(), v.Patch())
	if v.Prerelease() == "" {
		return key.String() + "~" // after all of its prereleases
	}
	for part := range strings.SplitSeq(v.Prerelease(), ".") {
		if strings.Trim(part, "0123456789") == "" && len(part) <= 20 {
			fmt.Fprintf(&key, " 0%020s", part) // numbers are before words, and compared as such
		} else {
			key.WriteString(" 1" + part)
		}
	}
	return key.String()
}
