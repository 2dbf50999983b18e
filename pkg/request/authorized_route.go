package request

import (
	"fmt"
	"strings"
)

// Pattern is the path of a route, read as Parse reads the path of a request. So it is known of each parameter what it names.
type Pattern struct {
	// info is what the path asks for, where the text "{name}" of a parameter stands for any segment.
	info Info
	// parameters are in the order of the path.
	parameters []patternParameter
}

// patternParameter says that a segment of the path is a field of the Info.
type patternParameter struct {
	segment int
	of      func(*Info) string
}

// patternFields are the fields of an Info that come from the path of a resource.
var patternFields = [...]func(*Info) string{
	func(i *Info) string { return i.APIPrefix }, func(i *Info) string { return i.APIGroup }, func(i *Info) string { return i.APIVersion },
	func(i *Info) string { return i.Workspace }, func(i *Info) string { return i.Namespace },
	func(i *Info) string { return i.Resource }, func(i *Info) string { return i.Name }, func(i *Info) string { return i.Subresource },
}

// ParsePattern returns the pattern of a route: method is the route's, and a segment of path is a fixed text or "{name}". It refuses a
// route of a resource with a parameter that Parse reads as nothing, since nothing about it would be authorized. What follows a
// sub-resource may be parameters: it is authorized as a part of the sub-resource.
func ParsePattern(method, path string) (*Pattern, error) {
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	refuse := func(format string, args ...any) (*Pattern, error) {
		return nil, fmt.Errorf("route %s %s: %s", method, path, fmt.Sprintf(format, args...))
	}
	if !strings.HasPrefix(path, "/") {
		return refuse("it does not begin with a slash")
	}
	if cluster, _, err := cutCluster(path); cluster != "" || err != nil {
		return refuse("requests reach routes without the name of a cluster")
	}
	p := &Pattern{info: Info{Path: path}}
	if err := p.info.parsePath(method); err != nil {
		return refuse("%v", err)
	}
	names := map[string]bool{}
	for n, segment := range strings.Split(path[1:], "/") {
		if !isParameter(segment) {
			continue
		}
		if names[segment] {
			return refuse("it has the parameter %s twice", segment)
		}
		names[segment] = true
		if !p.info.IsResource {
			continue
		}
		read := p.info.Subresource != ""
		for _, of := range patternFields {
			if of(&p.info) == segment {
				p.parameters = append(p.parameters, patternParameter{n, of})
				read = true
			}
		}
		if !read || strings.Contains(segment, ":") {
			return refuse("nothing that is authorized corresponds to the parameter %s", segment)
		}
	}
	return p, nil
}

func isParameter(segment string) bool { return strings.HasPrefix(segment, "{") }

// Reads reports whether a route that takes its parameters from path reads what i says, which Parse read in the same path. It reports
// false where the two readers differ. The verb is for HasVerb.
func (p *Pattern) Reads(i *Info, path string) bool {
	if i == nil || i.IsResource != p.info.IsResource || i.IsKubernetes != p.info.IsKubernetes {
		return false
	}
	if !i.IsResource {
		return true // its parameters are segments of the path, which is what was authorized
	}
	own := &p.info
	if !covers(own.APIPrefix, i.APIPrefix) || !covers(own.APIGroup, i.APIGroup) || !covers(own.APIVersion, i.APIVersion) ||
		!covers(own.Resource, i.Resource) || !covers(own.Name, i.Name) || !covers(own.Subresource, i.Subresource) {
		return false
	}
	// A namespace, and a workspace, is in its own scope, which a path of one does not name a second time.
	inItself := own.Namespace == "" && i.Resource == "namespaces" && i.Namespace == i.Name
	if !covers(own.Namespace, i.Namespace) && !inItself {
		return false
	}
	inItself = own.Workspace == "" && isWorkspaces(i.Resource) && i.Workspace == i.Name
	if !covers(own.Workspace, i.Workspace) && !inItself {
		return false
	}
	s, read, value := segments(strings.TrimPrefix(path, "/")), 0, ""
	for _, parameter := range p.parameters {
		for ; read <= parameter.segment; read++ {
			value = s.next()
		}
		if value == "" || value != parameter.of(i) {
			return false
		}
	}
	return true
}

// covers reports whether a field of a pattern is the text, or a parameter, whose value is compared by its place in the path.
func covers(field, text string) bool { return field == text || isParameter(field) }

// HasVerb reports whether a verb is the route's. A GET without a name is a list or a watch.
func (p *Pattern) HasVerb(verb string) bool {
	switch {
	case !p.info.IsResource:
		return true
	case p.info.Verb == "get" && p.info.Name == "":
		return verb == "list" || verb == "watch"
	}
	return verb == p.info.Verb
}

// IsWatch reports whether the path itself says that its requests are watches.
func (p *Pattern) IsWatch() bool { return p.info.Verb == "watch" }

// Asks returns what a path of the pattern asks for, where a parameter's value is its text in the pattern, such as "{name}". The verb of a
// GET without a name is list.
func (p *Pattern) Asks() Info {
	i := p.info
	if i.IsResource && i.Verb == "get" && i.Name == "" {
		i.Verb = "list"
	}
	return i
}
