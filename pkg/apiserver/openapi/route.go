package openapi

import (
	"regexp"
	"slices"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/kube-openapi/pkg/common"
)

// container gives the builders of kube-openapi all routes of one document.
type container []*route

// RootPath returns the root of all routes.
func (container) RootPath() string { return "/" }

// PathParameters returns none: each route has its own.
func (container) PathParameters() []common.Parameter { return nil }

// Routes returns the routes.
func (c container) Routes() []common.Route {
	out := make([]common.Route, len(c))
	for i, r := range c {
		out[i] = r
	}
	return out
}

// route is a route in a form that the builders fully support: they give up, or panic, on samples without a name of their own, patterns in
// paths, and parameters that are not listed.
type route struct {
	method, path, id, doc string
	document              string // the path of the v3 document that it is in
	consumes, produces    []string
	parameters            []parameter
	reads, writes         any // named, or nil
	responses             []response
}

var _ common.Route = (*route)(nil)

func (r *route) Method() string                 { return r.method }
func (r *route) Path() string                   { return r.path }
func (r *route) OperationName() string          { return r.id }
func (r *route) Description() string            { return r.doc }
func (r *route) Consumes() []string             { return r.consumes }
func (r *route) Produces() []string             { return r.produces }
func (r *route) Metadata() map[string]any       { return nil }
func (r *route) RequestPayloadSample() any      { return r.reads }
func (r *route) ResponsePayloadSample() any     { return r.writes }
func (r *route) Parameters() []common.Parameter { return list[common.Parameter](r.parameters) }
func (r *route) StatusCodeResponses() []common.StatusCodeResponse {
	return list[common.StatusCodeResponse](r.responses)
}

func list[I, T any](in []T) []I {
	out := make([]I, len(in))
	for i := range in {
		out[i] = any(in[i]).(I)
	}
	return out
}

type parameter struct {
	name, doc, dataType string
	kind                common.ParameterKind
	required, multiple  bool
}

func (p parameter) Name() string               { return p.name }
func (p parameter) Description() string        { return p.doc }
func (p parameter) Required() bool             { return p.required }
func (p parameter) Kind() common.ParameterKind { return p.kind }
func (p parameter) DataType() string           { return p.dataType }
func (p parameter) AllowMultiple() bool        { return p.multiple }

type response struct {
	code    int
	message string
	model   any
}

func (r response) Code() int       { return r.code }
func (r response) Message() string { return r.message }
func (r response) Model() any      { return r.model }

// variable is a variable in a path of go-restful, with or without a pattern.
var variable = regexp.MustCompile(`\{([^}:]+)(:[^}]*)?\}`)

// collect returns the routes of services; the first of those that share method and path, because go-restful picks that one.
func collect(services []*restful.WebService, types *types) []*route {
	var out []*route
	type key struct{ method, path string }
	seen, ids := map[key]bool{}, map[string]bool{}
	for _, ws := range services {
		for _, in := range ws.Routes() {
			path := variable.ReplaceAllString(in.Path, "{$1}")
			at := key{in.Method, path}
			if seen[at] || !described[in.Method] {
				continue
			}
			seen[at] = true
			r := &route{
				method: in.Method, path: path, id: operationID(in.Method, path, ids), doc: in.Doc,
				document: documentOf(ws.RootPath()),
				consumes: in.Consumes, produces: in.Produces,
				writes: types.sample(in.WriteSample),
			}
			r.addParameters(slices.Concat(ws.PathParameters(), in.ParameterDocs), in.Path)
			r.addBody(types.sample(in.ReadSample))
			r.addResponses(in.ResponseErrors, types)
			out = append(out, r)
		}
	}
	return out
}

var kinds = map[int]common.ParameterKind{
	restful.PathParameterKind:   common.PathParameterKind,
	restful.QueryParameterKind:  common.QueryParameterKind,
	restful.HeaderParameterKind: common.HeaderParameterKind,
	restful.FormParameterKind:   common.FormParameterKind,
}

func (r *route) addParameters(params []*restful.Parameter, pattern string) {
	type key struct {
		kind common.ParameterKind
		name string
	}
	seen := map[key]bool{}
	vars := map[string]bool{}
	for _, m := range variable.FindAllStringSubmatch(pattern, -1) {
		vars[m[1]] = true
	}
	for _, p := range params {
		data := p.Data()
		kind, ok := kinds[data.Kind]
		if !ok || seen[key{kind, data.Name}] || kind == common.PathParameterKind && !vars[data.Name] {
			continue
		}
		seen[key{kind, data.Name}] = true
		dataType := data.DataType
		if typ, _ := common.OpenAPITypeFormat(dataType); typ == "" {
			dataType = "string"
		}
		r.parameters = append(r.parameters, parameter{
			name: data.Name, doc: data.Description, dataType: dataType, kind: kind,
			required: data.Required || kind == common.PathParameterKind, multiple: data.AllowMultiple,
		})
	}
	for _, m := range variable.FindAllStringSubmatch(pattern, -1) {
		if k := (key{common.PathParameterKind, m[1]}); !seen[k] {
			seen[k] = true
			r.parameters = append(r.parameters, parameter{name: m[1], dataType: "string", kind: k.kind, required: true})
		}
	}
}

func (r *route) addBody(sample any) {
	if sample == nil {
		return
	}
	r.reads = sample
	r.parameters = append(r.parameters, parameter{name: "body", kind: common.BodyParameterKind, required: true})
}

func (r *route) addResponses(in map[int]restful.ResponseError, types *types) {
	for code, e := range in {
		model := types.sample(e.Model)
		if model == nil {
			model = named(genericObject)
		}
		message := e.Message
		if message == "" {
			message = "the answer"
		}
		r.responses = append(r.responses, response{code, message, model})
	}
}

// formAsBody turns the fields of a form into a body, as version 3 has it.
func (r *route) formAsBody(types *types) {
	var form []parameter
	rest := r.parameters[:0:0]
	for _, p := range r.parameters {
		if p.kind == common.FormParameterKind {
			form = append(form, p)
		} else {
			rest = append(rest, p)
		}
	}
	if len(form) == 0 {
		return
	}
	r.parameters = rest
	if r.reads == nil {
		r.addBody(types.form(r.id, form))
	}
}
