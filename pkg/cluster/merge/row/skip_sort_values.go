package row

import "strings"

// The classes of sort values in a key, as pkg/resource/plan writes them.
const (
	classMissing = iota
	classNumber
	classTime
	classText
	classes
)

// SkipValues returns how many bytes the first n sort values of a key have, -1 where it has none so many.
func SkipValues(key string, n int) int {
	at := 0
	for range n {
		if at >= len(key) || key[at] >= classes {
			return -1
		}
		switch key[at] {
		case classMissing:
			at++
		case classNumber, classTime:
			at += 9
		case classText:
			for at++; ; {
				zero := strings.IndexByte(key[min(at, len(key)):], 0)
				if zero < 0 {
					return -1
				}
				at += zero + 2
				if at <= len(key) && key[at-1] == 1 {
					break
				}
			}
		}
		if at > len(key) {
			return -1
		}
	}
	return at
}
