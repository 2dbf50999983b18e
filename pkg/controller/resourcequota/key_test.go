package resourcequota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Objects with equal keys use the same: names of resources may be any texts.
func FuzzUsesAreToldApart(f *testing.F) {
	f.Add("a=1,b", "", "a", "b")
	f.Add("a", "b=1", "a=1,b", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		of := func(names ...string) *use {
			u := &use{amounts: corev1.ResourceList{}}
			for _, name := range names {
				if name != "" {
					u.amounts[corev1.ResourceName(name)] = resource.MustParse("1")
				}
			}
			return u
		}
		one, other := of(a, b), of(c, d)
		same := len(one.amounts) == len(other.amounts)
		for name := range one.amounts {
			_, ok := other.amounts[name]
			same = same && ok
		}
		if same != (one.key() == other.key()) {
			t.Errorf("%v and %v: the same %t, keys %q and %q", one.amounts, other.amounts, same, one.key(), other.key())
		}
	})
}
