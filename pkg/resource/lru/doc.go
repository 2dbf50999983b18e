// Package lru has a cache that is bounded in entries and bytes, and the keys of its entries.
//
// It is used where a value's size is known only later, and changes: Resize says how many bytes a value has. What nobody used for
// a while is evicted by a timer that runs only while there are entries. Where values keep their size, package recent does.
package lru
