package web

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Quality returns the weight that the Accept header gives a media type by its name, from 0 to 1; 0 if it does not name it. Ranges such as
// */* name none (RFC 9110, 12.4.2 and 12.5.1).
func Quality(h http.Header, media string) float64 {
	best := 0.0
	for _, line := range h["Accept"] {
		for part := range strings.SplitSeq(line, ",") {
			name, _, parameters := strings.Cut(part, ";")
			if !strings.EqualFold(strings.TrimSpace(name), media) {
				continue
			}
			q := 1.0
			if parameters { // parsing allocates
				_, params, err := mime.ParseMediaType(part)
				if err != nil {
					continue
				}
				if v, ok := params["q"]; ok {
					if q, err = strconv.ParseFloat(v, 64); err != nil {
						continue
					}
				}
			}
			best = max(best, min(q, 1))
		}
	}
	return best
}
