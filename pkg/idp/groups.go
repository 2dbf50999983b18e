package idp

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of the groups that a provider may report for a user.
const (
	// MaxGroups is how many groups of a user count. Those after it, sorted by name, are left out: that takes rights away, and gives none.
	MaxGroups = 500
	// maxGroup bounds the name of a group, in bytes.
	maxGroup = 253
)

// Groups makes groups of this cluster from the groups of a provider: with the prefix, sorted, without duplicates, at most
// MaxGroups. Names that are reserved here (system: for Kubernetes, kapis: for this server) or not printable are left out.
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

// GroupAllowed reports whether a provider may report a group of that name.
func GroupAllowed(name string) bool {
	return name != "" && len(name) <= maxGroup && utf8.ValidString(name) && strings.TrimSpace(name) == name &&
		!strings.HasPrefix(name, "system:") && !strings.HasPrefix(name, "kapis:") && !strings.ContainsFunc(name, unprintable)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
