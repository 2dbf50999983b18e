package inflight_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/inflight"
)

func TestServiceAccountsOfANamespaceAreOneOwner(t *testing.T) {
	for username, want := range map[string]string{
		"ann":                               "ann",
		"system:serviceaccount:shop:one":    "system:serviceaccount:shop",
		"system:serviceaccount:shop:two":    "system:serviceaccount:shop",
		"system:serviceaccount:shop-2:one":  "system:serviceaccount:shop-2",
		"kubesphere:serviceaccount:shop:ci": "kubesphere:serviceaccount:shop",
		"system:serviceaccounts:shop":       "system:serviceaccounts:shop",
		"system:node:one":                   "system:node:one",
		"":                                  "",
	} {
		if got := inflight.OwnerOf(username); got != want {
			t.Errorf("the owner of %q: got %q, want %q", username, got, want)
		}
	}
}
