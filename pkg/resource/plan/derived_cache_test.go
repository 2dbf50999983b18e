package plan

import "testing"

func TestDerivationsAreBounded(t *testing.T) {
	d, made := &memo{}, 0
	for i := range 3 * maxMemo {
		if got := Memoize(d, i, nil, func() int { made++; return i }); got != i {
			t.Fatal(got)
		}
		Memoize(d, i, nil, func() int { made++; return -1 })
	}
	if made != 3*maxMemo || d.byKey.Len() > maxMemo {
		t.Errorf("%d made, %d kept", made, d.byKey.Len())
	}
}
