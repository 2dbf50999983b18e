package index_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Equal terms have equal labels and equal members, even if an extension serves any texts as labels.
func FuzzTermsAreToldApart(f *testing.F) {
	f.Add("a", "b=c", "a=b", "c")
	f.Add("", "=", "=", "")
	f.Add("1:a", "b", "a", "b")
	f.Fuzz(func(t *testing.T, key, value, otherKey, otherValue string) {
		if (key != otherKey || value != otherValue) && index.HasLabel(key, value) == index.HasLabel(otherKey, otherValue) {
			t.Errorf("%q=%q and %q=%q are one term", key, value, otherKey, otherValue)
		}
	})
}
