package index

import "testing"

// Equal terms have equal labels and equal members, even if an extension serves any texts as labels.
func FuzzTermsAreToldApart(f *testing.F) {
	f.Add("a", "b=c", "a=b", "c")
	f.Add("", "=", "=", "")
	f.Add("1:a", "b", "a", "b")
	f.Fuzz(func(t *testing.T, key, value, otherKey, otherValue string) {
		if (key != otherKey || value != otherValue) && HasLabel(key, value) == HasLabel(otherKey, otherValue) {
			t.Errorf("%q=%q and %q=%q are one term", key, value, otherKey, otherValue)
		}
	})
}
