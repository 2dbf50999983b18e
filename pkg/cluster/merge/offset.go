package merge

import "slices"

// samples is how many keys at equal distances a cluster gives in one round.
const samples = 64

// bounds are between which ranks of a cluster a page begins.
type bounds struct{ low, high int }

// narrow returns closer bounds for the clusters' shares of the first offset rows, of samples of what is between the bounds: of[i] has every
// every[i]th row of cluster i from its lower bound on. The lower bounds add up to offset at most, the upper ones to offset at least.
//
// A sample is among the first offset rows exactly where fewer rows than that come before it, and each cluster's share of these may be taken
// as within its bounds. Of another cluster it is known between which of its samples that share is.
func narrow(o *order, of [][]key, every []int, at []bounds, offset int) []bounds {
	type sample struct {
		*key
		rank int
	}
	var all []sample
	next := make([]int, len(of)) // the first sample of each that is not passed
	least, most := 0, 0          // how many rows come before the sample
	low, high := make([]int, len(of)), make([]int, len(of))
	for i, rows := range of {
		for n := range rows {
			all = append(all, sample{&rows[n], at[i].low + n*every[i]})
		}
		low[i], high[i] = at[i].low, at[i].high
		if len(rows) > 0 {
			high[i] = at[i].low
		}
		least, most = least+low[i], most+high[i]
	}
	slices.SortFunc(all, func(a, b sample) int { return o.compare(a.key, b.key) })
	out := slices.Clone(at)
	for _, s := range all {
		i := s.source
		switch {
		case most-high[i]+s.rank < offset:
			out[i].low = max(out[i].low, s.rank+1)
		case least-low[i]+s.rank >= offset:
			out[i].high = min(out[i].high, s.rank)
		}
		next[i]++
		least, low[i] = least-low[i]+s.rank+1, s.rank+1
		after := at[i].high
		if next[i] < len(of[i]) {
			after = at[i].low + next[i]*every[i]
		}
		most, high[i] = most-high[i]+after, after
	}
	return out
}
