// Package lru has a cache that is bounded in entries and bytes, and the keys of its entries.
//
// It is used where a value's size is known only later, and changes: Resize says how many bytes a value has. Unused entries
// are evicted by a timer that runs only while there are entries. Where values have a fixed size, package recent is simpler.
package lru
