package iam_test

import (
	"slices"
	"testing"

	"kapis.dev/ks-apiserver/pkg/iam"
)

// A group that a header would carry as one of the system's is none of a user's.
func TestNoGroupOfTheSystemComesWithABlank(t *testing.T) {
	if got := iam.WithoutSystemGroups("ann", []string{" system:masters", "\tkapis:global:admin", "dev", "ops "}); !slices.Equal(got, []string{"dev"}) {
		t.Errorf("%q", got)
	}
}
