package openapi

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const (
	// module is the module whose types are described field by field; those of others are objects.
	module = "kapis.dev/ks-apiserver/"
	// prefix begins the names of our definitions. None of kube-apiserver's begins with it.
	prefix        = "dev.kapis."
	genericObject = prefix + "Object"
)

// named is a sample that the builders know only by a name.
type named string

// OpenAPICanonicalTypeName returns the name to the builders.
func (n named) OpenAPICanonicalTypeName() string { return string(n) }

// types are the types that routes read and write, and the types within those.
type types struct {
	byName map[string]reflect.Type
	forms  map[string][]parameter
}

func newTypes() *types {
	return &types{byName: map[string]reflect.Type{}, forms: map[string][]parameter{}}
}

// sample returns the sample for the type of v, or nil if v is nil.
func (t *types) sample(v any) any {
	if v == nil {
		return nil
	}
	typ := reflect.TypeOf(v)
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	name := nameOf(typ)
	t.add(name, typ)
	return named(name)
}

// form returns the sample for a form with these fields.
func (t *types) form(id string, fields []parameter) any {
	name := prefix + "form." + id
	t.forms[name] = fields
	return named(name)
}

// add adds typ and the types of ours within it.
func (t *types) add(name string, typ reflect.Type) {
	if t.byName[name] != nil {
		return
	}
	t.byName[name] = typ
	t.schema(typ, true, func(string) spec.Ref { return spec.Ref{} })
}

func nameOf(t reflect.Type) string {
	full := t.String()
	if t.PkgPath() != "" {
		full = strings.TrimPrefix(t.PkgPath(), module) + "." + t.Name()
	}
	return prefix + strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			return c
		case c == '/':
			return '.'
		}
		return '_'
	}, full)
}

// definitions describes all types; ref makes a reference to a definition by its name.
func (t *types) definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	defs := map[string]common.OpenAPIDefinition{genericObject: {Schema: objectSchema()}}
	for name, fields := range t.forms {
		s := objectSchema()
		s.Properties = map[string]spec.Schema{}
		for _, f := range fields {
			typ, format := common.OpenAPITypeFormat(f.dataType)
			s.Properties[f.name] = *simple(typ, format).WithDescription(f.doc)
			if f.required {
				s.Required = append(s.Required, f.name)
			}
		}
		defs[name] = common.OpenAPIDefinition{Schema: s}
	}
	for name, typ := range t.byName {
		var needs []string
		s := t.schema(typ, true, func(n string) spec.Ref {
			needs = append(needs, n)
			return ref(n)
		})
		defs[name] = common.OpenAPIDefinition{Schema: s, Dependencies: needs}
	}
	return defs
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	times         = map[reflect.Type]bool{
		reflect.TypeFor[time.Time](): true, reflect.TypeFor[metav1.Time](): true, reflect.TypeFor[metav1.MicroTime](): true,
	}
)

// schema describes typ as encoding/json writes it. Types of this module within it become references; top means that typ is the definition
// itself.
func (t *types) schema(typ reflect.Type, top bool, ref func(string) spec.Ref) spec.Schema {
	switch {
	case times[typ]:
		return *simple("string", "date-time")
	case typ.Kind() == reflect.Pointer:
		return t.schema(typ.Elem(), top, ref)
	case typ == reflect.TypeFor[metav1.Duration]():
		return *simple("string", "")
	case typ.Implements(marshaler) || reflect.PointerTo(typ).Implements(marshaler):
		return spec.Schema{} // only its own code knows
	case typ.Implements(textMarshaler) || reflect.PointerTo(typ).Implements(textMarshaler):
		return *simple("string", "")
	}
	switch typ.Kind() {
	case reflect.Bool:
		return *simple("boolean", "")
	case reflect.String:
		return *simple("string", "")
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64, reflect.Uint32:
		return *simple("integer", "int64")
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint8, reflect.Uint16:
		return *simple("integer", "int32")
	case reflect.Float32, reflect.Float64:
		return *simple("number", "double")
	case reflect.Slice, reflect.Array:
		if typ.Elem().Kind() == reflect.Uint8 {
			return *simple("string", "byte")
		}
		items := t.schema(typ.Elem(), false, ref)
		return *spec.ArrayProperty(&items)
	case reflect.Map:
		values := t.schema(typ.Elem(), false, ref)
		return *spec.MapProperty(&values)
	case reflect.Struct:
		return t.structure(typ, top, ref)
	}
	return spec.Schema{}
}

func (t *types) structure(typ reflect.Type, top bool, ref func(string) spec.Ref) spec.Schema {
	if !strings.HasPrefix(typ.PkgPath(), module) && typ.PkgPath() != "" {
		s := objectSchema()
		s.Description = typ.String()
		return s
	}
	if !top && typ.Name() != "" {
		name := nameOf(typ)
		t.add(name, typ)
		return spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(name)}}
	}
	s := objectSchema()
	s.Properties = map[string]spec.Schema{}
	t.fields(typ, s.Properties, ref)
	return s
}

// fields adds the fields of a struct, including those of embedded structs.
func (t *types) fields(typ reflect.Type, to map[string]spec.Schema, ref func(string) spec.Ref) {
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		if f.Anonymous && name == "" && embedded.Kind() == reflect.Struct {
			t.fields(embedded, to, ref)
			continue
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		to[name] = t.schema(f.Type, false, ref)
	}
}

func objectSchema() spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
}

func simple(typ, format string) *spec.Schema {
	return &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{typ}, Format: format}}
}
