package iam_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/iam"
)

// A group that an HTTP header would turn into a system group is not a group of the user.
func TestNoGroupOfTheSystemComesWithABlank(t *testing.T) {
	if got := iam.WithoutSystemGroups("ann", []string{" system:masters", "\tkapis:global:admin", "dev", "ops "}); !slices.Equal(got, []string{"dev"}) {
		t.Errorf("%q", got)
	}
}

func TestGroupsOfTheProviderAreBounded(t *testing.T) {
	many := make([]string, 0, 2*iam.MaxSessionGroups)
	for i := range 2 * iam.MaxSessionGroups {
		many = append(many, fmt.Sprint("g", i))
	}
	for name, test := range map[string]struct {
		groups []string
		want   int
	}{
		"too many":    {many, iam.MaxSessionGroups},
		"too long":    {[]string{strings.Repeat("x", iam.MaxSessionGroup+1), "a"}, 1},
		"all at once": {large(), iam.MaxSessionGroupBytes / iam.MaxSessionGroup},
		"no text":     {[]string{"\xff", "a"}, 1},
	} {
		if got := iam.SessionGroups("alice", test.groups); len(got) != test.want {
			t.Errorf("%s: %d groups, want %d", name, len(got), test.want)
		}
	}
}

func large() []string {
	var out []string
	for i := range iam.MaxSessionGroups {
		s := fmt.Sprint(i, "-")
		out = append(out, s+strings.Repeat("x", iam.MaxSessionGroup-len(s)))
	}
	return out
}
