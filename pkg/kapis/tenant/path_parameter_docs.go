package tenant

import (
	"strings"

	restful "github.com/emicklei/go-restful/v3"
)

// describe documents the parameters in the path of a route.
func describe(ws *restful.WebService, b *restful.RouteBuilder, path string) *restful.RouteBuilder {
	for segment := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			b.Param(ws.PathParameter(name, "name of the "+name))
		}
	}
	return b
}
