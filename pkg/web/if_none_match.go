package web

import (
	"net/http"
	"strings"
)

// HasTag reports whether a client has what an entity tag stands for: whether If-None-Match names the tag, weakly compared, or is * (RFC
// 9110, 13.1.2).
func HasTag(h http.Header, tag string) bool {
	for _, list := range h["If-None-Match"] {
		if list == tag || listsTag(list, strings.TrimPrefix(tag, "W/")) {
			return true
		}
	}
	return false
}

func listsTag(list, opaque string) bool {
	for list = strings.TrimLeft(list, " \t,"); list != ""; list = strings.TrimLeft(list, " \t,") {
		if list[0] == '*' {
			return true
		}
		list = strings.TrimPrefix(list, "W/")
		if list == "" || list[0] != '"' {
			return false
		}
		end := strings.IndexByte(list[1:], '"') + 2
		if end < 2 {
			return false
		}
		if list[:end] == opaque {
			return true
		}
		list = list[end:]
	}
	return false
}
