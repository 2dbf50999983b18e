package apiserver

import (
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
)

// maxSegments bounds the paths that the short way takes.
const maxSegments = 16

// router is restful.CurlyRouter with a short way for what is asked most: a GET whose answer may be
// JSON. The short way allocates nothing, which halves what a list of ten allocates in all. It chooses
// as CurlyRouter does, and leaves to it whatever it does not recognize, refusals above all.
type router struct {
	restful.CurlyRouter
	services []service
}

type service struct {
	*restful.WebService
	root []string
	gets []get
}

type get struct {
	route    *restful.Route
	segments []string
	fixed    int
}

func newRouter(services []*restful.WebService) *router {
	r := &router{}
	for _, ws := range services {
		s := service{WebService: ws, root: segments(ws.RootPath())}
		routes := ws.Routes()
		for i := range routes {
			if routes[i].Method != http.MethodGet {
				continue
			}
			g := get{route: &routes[i], segments: segments(routes[i].Path)}
			for _, segment := range g.segments {
				if !isParameter(segment) {
					g.fixed++
				}
			}
			s.gets = append(s.gets, g)
		}
		r.services = append(r.services, s)
	}
	return r
}

// SelectRoute implements restful.RouteSelector.
func (r *router) SelectRoute(all []*restful.WebService, req *http.Request) (*restful.WebService, *restful.Route, error) {
	if req.Method == http.MethodGet && takesJSON(req.Header["Accept"]) {
		if ws, route := r.find(req.URL.Path); route != nil {
			return ws, route, nil
		}
	}
	return r.CurlyRouter.SelectRoute(all, req)
}

func (r *router) find(path string) (*restful.WebService, *restful.Route) {
	var buf [maxSegments]string
	asked := buf[:0]
	for segment := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if len(asked) == maxSegments || segment == "" {
			return nil, nil
		}
		asked = append(asked, segment)
	}
	var best *service
	highest := 0
	for i := range r.services {
		if s := &r.services[i]; len(s.root) <= len(asked) && matches(s.root, asked) {
			if n := score(s.root); n > highest {
				best, highest = s, n
			}
		}
	}
	if best == nil {
		return nil, nil
	}
	var found *get
	for i := range best.gets {
		g := &best.gets[i]
		if len(g.segments) != len(asked) || !matches(g.segments, asked) {
			continue
		}
		if found != nil && found.fixed == g.fixed {
			return nil, nil // which of the two is for CurlyRouter to say
		}
		if found == nil || g.fixed > found.fixed {
			found = g
		}
	}
	if found == nil {
		return nil, nil
	}
	return best.WebService, found.route
}

// score is how CurlyRouter compares roots: fixed segments count, the first ones most.
func score(root []string) int {
	n := 0
	for i, segment := range root {
		if isParameter(segment) {
			n++
		} else {
			n += 10 * (len(root) - i)
		}
	}
	return n
}

func matches(pattern, asked []string) bool {
	for i, segment := range pattern {
		if !isParameter(segment) && segment != asked[i] {
			return false
		}
	}
	return true
}

func isParameter(segment string) bool { return strings.HasPrefix(segment, "{") }

func segments(path string) []string { return strings.Split(strings.Trim(path, "/"), "/") }

// takesJSON tells whether an Accept header plainly does.
func takesJSON(accept []string) bool {
	return len(accept) == 0 || len(accept) == 1 && (accept[0] == "*/*" || accept[0] == "application/json")
}
