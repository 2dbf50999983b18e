package charttest

import (
	"fmt"
	"strings"
)

// Index returns the index of a chart repository, whole as its end shows: each entry is a name and its versions, such as "shop 1.0.0 1.1.0".
func Index(entries ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nentries:\n")
	for _, e := range entries {
		words := strings.Fields(e)
		fmt.Fprintf(&b, "  %s:\n", words[0])
		for _, v := range words[1:] {
			fmt.Fprintf(&b, "  - {name: %s, version: %q, urls: [%s-%s.tgz], digest: \"%064x\"}\n", words[0], v, words[0], v, len(v))
		}
	}
	return b.String() + "generated: now\n"
}
