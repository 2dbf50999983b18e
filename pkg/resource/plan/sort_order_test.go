package plan

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
)

// someValue is JSON of one of the classes that values are ordered by, or of none.
func someValue(r *rand.Rand) string {
	some := []string{
		``,
		`null`,
		`""`,
		`true`,
		`false`,
		`0`,
		`-0`,
		`1`,
		`"1"`,
		`1.0`,
		`1e3`,
		`"1k"`,
		`"1000m"`,
		`"1Ki"`,
		`"-5Gi"`,
		`"0.5"`,
		`"+7"`,
		`"1e-99999999"`,
		`1e999`,
		`"9Ei"`,
		`"2026-01-01T00:00:00Z"`,
		`"2026-01-01T09:00:00+09:00"`,
		`"2026-01-01T00:00:00.5Z"`,
		`"2026-13-01T00:00:00Z"`,
		`"10.0.0.1"`,
		`"9z"`,
		`"a"`,
		`"é"`,
		`"-"`,
		`"+Inf"`,
		`"nan"`,
		`{"a":1}`,
		`[1]`,
	}
	if r.IntN(3) == 0 {
		return strconv.Itoa(r.IntN(40) - 20)
	}
	return some[r.IntN(len(some))]
}

// The property: the values of fields of any content are in one total preorder.
func TestSortValuesAreTotallyOrdered(t *testing.T) {
	for seed := range uint64(30_000) {
		r := rand.New(rand.NewPCG(seed, 4))
		a, b, c := someValue(r), someValue(r), someValue(r)
		x, y, z := ValueOf(a), ValueOf(b), ValueOf(c)
		if ValueOf(a).Compare(x) != 0 || x.Compare(y) != -y.Compare(x) {
			t.Fatalf("%s and %s", a, b)
		}
		if x.Compare(y) <= 0 && y.Compare(z) <= 0 && x.Compare(z) > 0 {
			t.Fatalf("%s <= %s <= %s, and not %s <= %s", a, b, c, a, c)
		}
		if x.Compare(y) == 0 && x.Compare(z) != y.Compare(z) {
			t.Fatalf("%s and %s are equal, and differ from %s", a, b, c)
		}
	}
}

// Quantities have their values in Kubernetes, within the precision of a float64.
func TestQuantitiesAreThoseOfKubernetes(t *testing.T) {
	for _, number := range []string{"0", "1", "-3", "+2", "1.5", "100", "0.001"} {
		for _, suffix := range []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2"} {
			want := apiresource.MustParse(number + suffix)
			got, ok := quantity(number + suffix)
			if number == "100" && suffix == "Ei" {
				continue // more than Kubernetes can hold
			}
			if f := want.AsApproximateFloat64(); !ok || math.Abs(got-f) > 1e-9+math.Abs(f)*1e-9 {
				t.Errorf("%s%s: %v %v, want %v", number, suffix, got, ok, f)
			}
		}
	}
	for _, text := range []string{"", "k", "1i", "1kk", "1KiB", "1 k", "1Kim", "x", "1.2.3", "--1", "1mi", "1iK", "1EiK"} {
		if n, ok := quantity(text); ok {
			t.Errorf("%q is %v", text, n)
		}
	}
}

func TestOnlyTheBeginningOfAScalarIsCompared(t *testing.T) {
	for _, raw := range []string{`{"a":"x"}`, `["x"]`, `{}`, `[]`, `null`} {
		if v := ValueOf(raw); v != (SortValue{}) {
			t.Errorf("%s has an order: %+v", raw, v)
		}
	}
	begins := strings.Repeat("x", maxText)
	for _, long := range []SortValue{ValueOf(`"` + begins + `a"`), valueOfText("9" + begins), textValue(begins + "b")} {
		if len(long.text) != maxText {
			t.Errorf("%d bytes of a text are compared", len(long.text))
		}
	}
}

func FuzzValueOf(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 40 {
		f.Add(someValue(r), someValue(r))
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := ValueOf(a), ValueOf(b)
		if math.IsNaN(x.number) || x.Compare(y) != -y.Compare(x) {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

func TestUIDsHaveTheirForm(t *testing.T) {
	for s, want := range map[string]bool{
		"0a1b2c3d-0000-4000-8000-00000000000a": true, "0A1b2c3d-0000-4000-8000-00000000000a": false, "": false, "0a1b2c3d-0000-4000-8000-00000000000": false,
		"0a1b2c3d-0000-4000-8000000000000000a": false, "web-1": false, "0a1b2c3dx0000-4000-8000-00000000000a": false,
	} {
		if isUID(s) != want {
			t.Errorf("%q", s)
		}
	}
}
