package index

import "testing"

// Equal terms are of equal labels, and of equal members, whatever texts an extension serves as labels.
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
