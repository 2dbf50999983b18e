package main

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFigureIsOneLineOfSixColumns(t *testing.T) {
	tests := map[string]struct {
		figure figure
		want   string
	}{
		"BesideAYardstick": {
			figure{name: "page-10-cpu", value: 27.25, unit: "us", yardstick: "bare-handler", base: 21.8, goal: "ratio <= 1.30"},
			"page-10-cpu 27.2 us bare-handler 21.8 1.25 # goal: ratio <= 1.30",
		},
		"WithoutAYardstick": {figure{name: "rss", value: 81, unit: "MiB"}, "rss 81.0 MiB - - -"},
		"AYardstickOfZero":  {figure{name: "x", value: 1, unit: "us", yardstick: "y"}, "x 1.00 us y 0.00 -"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := tc.figure.String()
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			columns, _, _ := strings.Cut(got, "#")
			if n := len(strings.Fields(columns)); n != 6 {
				t.Errorf("%d columns in %q", n, got)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	tests := map[string]struct {
		v    float64
		want string
	}{
		"LargeOnesAreWhole":     {123456.7, "123457"},
		"ThreeDigitsCount":      {12.345, "12.3"},
		"SmallOnesKeepThree":    {0.0012345, "0.00123"},
		"NegativeOnes":          {-3.14159, "-3.14"},
		"Zero":                  {0, "0.00"},
		"TinyOnesAreCut":        {1e-12, "0.000000000"},
		"NotANumberIsADash":     {math.NaN(), "-"},
		"InfinityIsADash":       {math.Inf(1), "-"},
		"APowerOfTenIsNotShort": {1000, "1000"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := number(tc.v); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	tests := map[string]struct {
		values []float64
		want   float64
	}{
		"TheMiddleOne":          {[]float64{9, 1, 5}, 5},
		"TheMeanOfTheTwo":       {[]float64{4, 1, 3, 100}, 3.5},
		"OneAlone":              {[]float64{7}, 7},
		"AnOutlierCountsLittle": {[]float64{1, 1, 1000, 1, 1}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before := append([]float64(nil), tc.values...)
			if got := median(tc.values); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			for i := range before {
				if before[i] != tc.values[i] {
					t.Fatalf("the argument was changed: %v", tc.values)
				}
			}
		})
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("of none: %v, want NaN", got)
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	tests := map[string]struct {
		sorted []int
		q      float64
		want   int
	}{
		"Half":           {hundred, 0.5, 50},
		"NinetyNine":     {hundred, 0.99, 99},
		"TheLargest":     {hundred, 1, 100},
		"TheSmallest":    {hundred, 0, 1},
		"OfOne":          {[]int{7}, 0.99, 7},
		"OfNoneIsZero":   {nil, 0.5, 0},
		"OfTwoTheHigher": {[]int{1, 2}, 0.99, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := quantile(tc.sorted, tc.q); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestReportCountsWhatIsMissed(t *testing.T) {
	var b bytes.Buffer
	r := report{to: &b}
	r.add(figure{name: "a", unit: "us"})
	r.skip("b", "it does not apply")
	if r.missed != 0 {
		t.Errorf("%d missed after a skip, want none", r.missed)
	}
	r.miss("c", errors.New("it broke\nrss 1 MiB - - -\n"))
	if r.missed != 1 {
		t.Errorf("%d missed, want 1", r.missed)
	}
	want := "a 0.00 us - - -\n# b is not measured: it does not apply\n# c could not be measured: it broke rss 1 MiB - - -\n"
	if b.String() != want {
		t.Errorf("wrote %q, want %q", b.String(), want)
	}
}

func TestGoalsAreMetOrNot(t *testing.T) {
	tests := map[string]struct {
		f       figure
		met, ok bool
	}{
		"NoGoal":        {f: figure{value: 1}},
		"AValue":        {f: figure{value: 3, goal: "<= 20 ms"}, met: true, ok: true},
		"TooMuch":       {f: figure{value: 21, goal: "<= 20 ms"}, ok: true},
		"ARatio":        {f: figure{value: 9, base: 10, goal: "ratio >= 0.90"}, met: true, ok: true},
		"ALowRatio":     {f: figure{value: 8, base: 10, goal: "ratio >= 0.90"}, ok: true},
		"ARatioTooHigh": {f: figure{value: 14, base: 10, goal: "ratio <= 1.30"}, ok: true},
		"NotSaid":       {f: figure{value: 1, goal: "fast"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if met, ok := tc.f.met(); met != tc.met || ok != tc.ok {
				t.Errorf("met %v, said %v, want %v, %v", met, ok, tc.met, tc.ok)
			}
		})
	}
}

func TestSizesAreComparedInPartsOfTheBareHandler(t *testing.T) {
	r := report{to: io.Discard}
	r.add(figure{name: "page-10-cpu", value: 30, base: 20})
	r.suffix = "@1000"
	r.add(figure{name: "page-10-cpu", value: 33, base: 20})
	r.suffix = ""
	r.bySize([]int{200, 1000})
	f, ok := r.find("page-10-of-1000")
	if !ok || math.Abs(f.value/f.base-1.1) > 1e-9 {
		t.Errorf("got %v, want a ratio of 1.1", f)
	}
}

func TestTableHasAllFigures(t *testing.T) {
	r := report{to: io.Discard}
	r.add(figure{name: "page", value: 30, unit: "us", yardstick: "bare", base: 20, goal: "ratio <= 1.30"}, figure{name: "rss", value: 42, unit: "MiB"})
	name := filepath.Join(t.TempDir(), "t.md")
	if err := r.table(name, "# machine: 2 cores", 5); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"machine: 2 cores", "| page | 30.0 | us | bare | 20.0 | 1.50 | ratio <= 1.30 | **no** |",
		"| rss | 42.0 | MiB |  |  |  |  |  |"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	if err := r.table("", "", 1); err != nil {
		t.Error(err)
	}
}

func TestMemory(t *testing.T) {
	got := memory(50<<20, 150<<20, 10_000, 5_600)
	if got[0].value != 150 {
		t.Errorf("%v, want 150 MiB", got[0])
	}
	if math.Abs(got[1].value-10) > 1e-9 || math.Abs(got[1].base-5.34) > 0.01 {
		t.Errorf("%v, want a growth of 10 MiB beside 5.34 for a thousand", got[1])
	}
}

func TestModelName(t *testing.T) {
	tests := map[string]struct{ cpuinfo, want string }{
		"TheFirst": {"processor\t: 0\nmodel name\t: AMD EPYC: 9\nmodel name\t: other\n", "AMD EPYC: 9"},
		"Unknown":  {"processor\t: 0\n", "amd64"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := modelName(tc.cpuinfo)
			if name == "Unknown" {
				if got == "" {
					t.Error("nothing is said")
				}
				return
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if m := machine(); !strings.HasPrefix(m, "# machine: ") || strings.Contains(m, "\n") {
		t.Errorf("machine line %q", m)
	}
}
