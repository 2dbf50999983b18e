package iam_test

import (
	"slices"
	"testing"

	"kapis.dev/ks-apiserver/pkg/iam"
)

// A group that an HTTP header would turn into a system group is not a group of the user.
func TestNoGroupOfTheSystemComesWithABlank(t *testing.T) {
	if got := iam.WithoutSystemGroups("ann", []string{" system:masters", "\tkapis:global:admin", "dev", "ops "}); !slices.Equal(got, []string{"dev"}) {
		t.Errorf("%q", got)
	}
}
