package kind

import (
	"slices"
	"testing"

	"github.com/Masterminds/semver/v3"
)

func TestVersionsOfApplicationsAreInTheOrderOfSemanticVersions(t *testing.T) {
	want := []string{"latest", "0.9.0", "1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2",
		"1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.9.0", "1.10.0", "v2.0.0", "10.0.0"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b string) int {
		switch x, y := versionOrder(a), versionOrder(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func FuzzVersionOrder(f *testing.F) {
	f.Add("1.0.0-alpha.1", "1.0.0-alpha.beta")
	f.Add("1.0.0", "1.0.0-0")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errX := semver.StrictNewVersion(a)
		y, errY := semver.StrictNewVersion(b)
		if errX != nil || errY != nil || len(a)+len(b) > 40 {
			return
		}
		if order := x.Compare(y); order < 0 != (versionOrder(a) < versionOrder(b)) || order == 0 != (versionOrder(a) == versionOrder(b)) {
			t.Errorf("%q %q: %d, %q %q", a, b, order, versionOrder(a), versionOrder(b))
		}
	})
}
