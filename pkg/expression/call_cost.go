package expression

import (
	"regexp/syntax"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/library"
)

// costs estimates calls for which the libraries estimate too little: a pattern is matched against a text by walking its states for every
// character, and a time zone is read from a file.
type costs struct {
	library.CostEstimator
	states int // of the largest pattern
}

const (
	statesInUnit = 16
	zoneCost     = 1000
)

// CallCost returns the cost of a call that was made.
func (c *costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	var cost uint64
	switch function {
	case "matches", "find", "findAll":
		if len(args) < 1 {
			return nil
		}
		text, _ := args[0].(types.String)
		cost = 1 + uint64(1+len(text))*uint64(c.states)/statesInUnit //nolint:gosec // both are small and not negative
	case "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes", "getSeconds",
		"getMilliseconds":
		if len(args) < 2 {
			return nil
		}
		cost = zoneCost
	default:
		return c.CostEstimator.CallCost(function, overload, args, result)
	}
	return &cost
}

// states returns about how many instructions a pattern is compiled to; repeats are written out there.
func states(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += states(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Max, re.Min+1, 1)
	}
	return min(n, maxPattern+1)
}
