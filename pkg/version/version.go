// Package version tells what build this is.
package version

import (
	"encoding/json"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Compatible is the version whose HTTP surface this server speaks. Clients compare the version that
// a server names with the one that brought a feature, so it leads; our own follows as SemVer 2.0
// build metadata.
const Compatible = "v4.1.3"

// Set by the linker (-X). A build that sets none of them says "dev".
var (
	gitVersion   = "dev"
	gitCommit    = ""
	gitTreeState = ""
	buildDate    = ""
)

// Info is what /version answers. Its fields are those of KubeSphere's clients (and of
// k8s.io/apimachinery/pkg/version.Info, but for the names of major and minor).
type Info struct {
	GitVersion   string `json:"gitVersion"`
	GitMajor     string `json:"gitMajor"`
	GitMinor     string `json:"gitMinor"`
	GitCommit    string `json:"gitCommit"`
	GitTreeState string `json:"gitTreeState"`
	BuildDate    string `json:"buildDate"`
	GoVersion    string `json:"goVersion"`
	Compiler     string `json:"compiler"`
	Platform     string `json:"platform"`
}

// Get tells what build this is.
func Get() Info {
	i := Info{
		GitVersion:   Compatible + "+kapis." + metadata(gitVersion),
		GitCommit:    gitCommit,
		GitTreeState: gitTreeState,
		BuildDate:    buildDate,
		GoVersion:    runtime.Version(),
		Compiler:     runtime.Compiler,
		Platform:     runtime.GOOS + "/" + runtime.GOARCH,
	}
	if parts := strings.SplitN(strings.TrimPrefix(Compatible, "v"), ".", 3); len(parts) == 3 {
		i.GitMajor, i.GitMinor = parts[0], parts[1]
	}
	if i.GitCommit == "" {
		i.GitCommit = revision()
	}
	return i
}

// Write writes what build this is, as the commands print it.
func Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(Get())
}

// revision is the commit that the go command stamped, read once: reading it costs more than a page of ten objects.
var revision = sync.OnceValue(func() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
})

// metadata makes s usable as SemVer build metadata: identifiers of [0-9A-Za-z-], dots between them.
func metadata(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '-', r == '.':
			return r
		}
		return '-'
	}, strings.TrimPrefix(s, "v"))
}
