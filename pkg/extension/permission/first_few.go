package permission

import (
	"fmt"
	"strings"
)

// Listed names the first of some things.
func Listed[T any](of []T) string {
	const most = 8
	var out []string
	for i, one := range of {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more", len(of)-most))
			break
		}
		out = append(out, fmt.Sprint(one))
	}
	return strings.Join(out, "; ")
}
