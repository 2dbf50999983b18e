package request

import (
	"net/http"
	"strings"
)

// IsUpgrade reports whether a request, or an answer, with these headers asks for another protocol (WebSocket, SPDY). An offer of h2c,
// which some clients add to every request, is not one: it may be ignored, and is (RFC 9113, 3.1 has removed it).
func IsUpgrade(h http.Header) bool {
	up := h["Upgrade"]
	if len(up) == 0 || up[0] == "" || strings.EqualFold(up[0], "h2c") {
		return false
	}
	for _, line := range h["Connection"] {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return true
			}
		}
	}
	return false
}
