package version

import (
	"regexp"
	"testing"
)

// The console takes the server for an old one unless gitVersion is of the 4.1 line, and parses it
// as SemVer.
func TestVersionIsOfTheCompatibleLineWithOursBehindThePlus(t *testing.T) {
	semver := regexp.MustCompile(`^v4\.1\.\d+\+kapis\.[0-9A-Za-z.-]+$`)
	for _, git := range []string{"dev", "v0.1.0", "v0.1.0-3-gabc+dirty", "feature/x"} {
		t.Run(git, func(t *testing.T) {
			old := gitVersion
			defer func() { gitVersion = old }()
			gitVersion = git
			got := Get()
			if !semver.MatchString(got.GitVersion) {
				t.Errorf("GitVersion = %q, want a match of %v", got.GitVersion, semver)
			}
			if got.GitMajor != "4" || got.GitMinor != "1" {
				t.Errorf("major.minor = %s.%s, want 4.1", got.GitMajor, got.GitMinor)
			}
			if got.GoVersion == "" || got.Platform == "" {
				t.Errorf("the toolchain is not named: %+v", got)
			}
		})
	}
}
