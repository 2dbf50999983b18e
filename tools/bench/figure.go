package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// header explains the lines, and is printed before them.
const header = "# name value unit yardstick value ratio: the ratio is value / yardstick, each the median of the rounds; \"-\" is no yardstick"

// figure is one measured value, next to its yardstick where it has one.
type figure struct {
	name      string
	value     float64
	unit      string
	yardstick string  // "" for none
	base      float64 // the yardstick's value, in the same unit
	goal      string  // the goal, such as "ratio <= 1.30"; "" for none
}

// String returns the line: six columns, and the goal as a comment after them.
func (f figure) String() string {
	line := fmt.Sprintf("%s %s %s ", f.name, number(f.value), f.unit)
	if f.yardstick == "" {
		line += "- - -"
	} else {
		line += fmt.Sprintf("%s %s %s", f.yardstick, number(f.base), number(f.value/f.base))
	}
	if f.goal != "" {
		line += " # goal: " + f.goal
	}
	return line
}

// number writes three significant digits, never an exponent.
func number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	digits := 2
	if v != 0 {
		digits = min(max(2-int(math.Floor(math.Log10(math.Abs(v)))), 0), 9)
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// report writes and stores figures as they are measured, and what could not be measured.
type report struct {
	to      io.Writer
	suffix  string // of the names of further figures
	figures []figure
	missed  int
}

func (r *report) add(figures ...figure) {
	for _, f := range figures {
		f.name += r.suffix
		r.figures = append(r.figures, f)
		fmt.Fprintln(r.to, f)
	}
}

// find returns a figure that was measured.
func (r *report) find(name string) (figure, bool) {
	i := slices.IndexFunc(r.figures, func(f figure) bool { return f.name == name })
	if i < 0 {
		return figure{}, false
	}
	return r.figures[i], true
}

// bySize compares the first page of each size with that of the smallest, both relative to the bare handler's time, which removes the
// variations of the machine.
func (r *report) bySize(sizes []int) {
	const name = "page-10-cpu"
	first, ok := r.find(name)
	for _, n := range sizes[1:] {
		if f, found := r.find(fmt.Sprintf("%s@%d", name, n)); found && ok {
			r.add(figure{
				name: fmt.Sprintf("page-10-of-%d", n), value: f.value / f.base, unit: "bare", yardstick: fmt.Sprintf("of-%d", sizes[0]),
				base: first.value / first.base, goal: "ratio <= 1.15",
			})
		}
	}
}

// skip reports what is not measured because it does not apply here, which is no failure.
func (r *report) skip(name, why string) {
	fmt.Fprintf(r.to, "# %s is not measured: %s\n", name, why)
}

// miss reports what could not be measured although it should have been.
func (r *report) miss(name string, err error) {
	r.missed++
	// Answers of servers are part of errors, and may have lines that would be mistaken for figures.
	fmt.Fprintf(r.to, "# %s could not be measured: %s\n", name, strings.Join(strings.Fields(err.Error()), " "))
}

// median is the middle one; of an even number, the mean of the two in the middle. It is NaN of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// quantile is the smallest of the sorted values that at least the share q of them does not exceed; the zero value of none.
func quantile[T cmp.Ordered](sorted []T, q float64) T {
	var none T
	if len(sorted) == 0 {
		return none
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
