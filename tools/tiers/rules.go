package main

import (
	"fmt"
	"os"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

// rules is the file tiers.yaml, which explains itself. Packages are named by their folders, from the
// root of the module.
type rules struct {
	Tiers []struct {
		Tier     int      `json:"tier"`
		Packages []string `json:"packages"`
	} `json:"tiers"`
	Domains    []string `json:"domains"`
	Peers      []string `json:"peers"`
	Restricted []struct {
		Import  string   `json:"import"`
		Allowed []string `json:"allowed"`
		Reason  string   `json:"reason"`
	} `json:"restricted"`
	Confined []struct {
		Packages []string `json:"packages"`
		Imports  []string `json:"imports"`
		Reason   string   `json:"reason"`
	} `json:"confined"`
	Unlinked []struct {
		Program string `json:"program"`
		Import  string `json:"import"`
		Reason  string `json:"reason"`
	} `json:"unlinked"`
	ForbiddenNames []string `json:"forbiddenNames"`
	Sizes          sizes    `json:"sizes"`
}

func readRules(file string) (*rules, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	var r rules
	if err := yaml.UnmarshalStrict(data, &r); err != nil {
		return nil, fmt.Errorf("read the rules in %s: %w", file, err)
	}
	return &r, r.validate()
}

func (r *rules) validate() error {
	seen := map[string]int{}
	for _, t := range r.Tiers {
		for _, pattern := range t.Packages {
			if _, err := path.Match(pattern, ""); err != nil {
				return fmt.Errorf("the pattern %q: %w", pattern, err)
			}
			if other, ok := seen[pattern]; ok {
				return fmt.Errorf("%q is in the tiers %d and %d", pattern, other, t.Tier)
			}
			seen[pattern] = t.Tier
		}
	}
	return nil
}

// tier returns the tier of a package. A package that no pattern matches, or patterns of several tiers, has none; a pattern without a "*"
// takes precedence, and a sub-package of a domain that no pattern matches is of the domain's tier.
func (r *rules) tier(pkg string) (int, bool) {
	found := map[int]bool{}
	tier := 0
	for _, t := range r.Tiers {
		for _, pattern := range t.Packages {
			if pattern == pkg {
				return t.Tier, true
			}
			if matches(pkg, pattern) {
				found[t.Tier] = true
				tier = t.Tier
			}
		}
	}
	if domain := r.domain(pkg); len(found) == 0 && domain != "" && domain != pkg {
		return r.tier(domain)
	}
	return tier, len(found) == 1
}

// domain returns the folder of the domain that a package is the root or a sub-package of, or "".
func (r *rules) domain(pkg string) string {
	for _, folder := range r.Domains {
		if pkg == folder || path.Dir(pkg) == folder {
			return folder
		}
	}
	return ""
}

// matches reports whether a pattern of the list matches pkg.
func matches(pkg string, patterns ...string) bool {
	for _, pattern := range patterns {
		if ok, err := path.Match(pattern, pkg); ok && err == nil {
			return true
		}
	}
	return false
}

// isBelow reports whether p is the package, or a package of the module, that prefix names.
func isBelow(p, prefix string) bool {
	return p == prefix || strings.HasPrefix(p, prefix+"/")
}
