// Package plan turns the parameters of a list into a plan, and finds what matches it in a snapshot.
//
// A Planner makes the plan of one query: conditions, each a test of one record and, where an index knows the answer, terms; the
// names and texts that narrow the search; and an order. A Kind says what one kind has beyond metadata, and may add to the plan
// from the objects of other kinds, on which the plan then depends (Builder.Outdated).
//
// Plan.Direct answers from an ordered tree alone. Plan.Collect tests the fewest objects that can match: by names, by an
// index of trigrams, by bit sets, or by a range of a tree. In any way, the result is that of testing every object.
package plan
