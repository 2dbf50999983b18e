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

func TestMessagesNameTheOwner(t *testing.T) {
	for username, want := range map[string]string{
		"ann":                               `user "ann" has`,
		"system:serviceaccount:shop:one":    `the service accounts of namespace "shop" have`,
		"kubesphere:serviceaccount:shop:ci": `the service accounts of namespace "shop" have`,
		"system:serviceaccounts:shop":       `user "system:serviceaccounts:shop" has`,
	} {
		if got := inflight.Has(username); got != want {
			t.Errorf("of %q: got %s, want %s", username, got, want)
		}
		if got, want := inflight.IsServiceAccount(username), inflight.OwnerOf(username) != username; got != want {
			t.Errorf("%q is a service account: %v, want %v", username, got, want)
		}
	}
}
