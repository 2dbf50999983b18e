package idp

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a provider may say of somebody's groups, at most.
const (
	// MaxGroups is how many groups of a person count. Those behind it, by name, are left out: that takes rights away, and gives none.
	MaxGroups = 500
	// maxGroup bounds the name of a group, in bytes.
	maxGroup = 253
)

// Groups makes groups of this cluster of those of a provider: with the prefix in front, sorted, each once, at most MaxGroups.
// A name that means something here (system: is Kubernetes' own, kapis: ours), or that could not be shown, is left out.
func Groups(names []string, prefix string) []string {
	out := make([]string, 0, min(len(names), MaxGroups))
	for _, name := range names {
		if name == "" {
			continue
		}
		if name = prefix + name; GroupAllowed(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) > MaxGroups {
		out = out[:MaxGroups]
	}
	if len(out) == 0 {
		return nil
	}
	return slices.Clip(out)
}

// GroupAllowed tells whether a provider may say that somebody is in a group.
func GroupAllowed(name string) bool {
	return name != "" && len(name) <= maxGroup && utf8.ValidString(name) && strings.TrimSpace(name) == name &&
		!strings.HasPrefix(name, "system:") && !strings.HasPrefix(name, "kapis:") && !strings.ContainsFunc(name, unprintable)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
