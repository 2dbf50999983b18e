package table

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/jsonpath"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/store"
)

var definitionsKind = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definitionWait is how long an answer waits for the first list of definitions: without them it has the name and the age.
const definitionWait = time.Second

// definedLayout is the layout of a custom resource, of one version of its definition.
type definedLayout struct {
	uid, version string
	layout       *layout
}

// custom returns the layout of a kind that is not built in.
func (p *Printers) custom(ctx context.Context, k *store.Kind) *layout {
	if k.GVR.Group == "" || strings.Contains(k.GVR.Resource, ".") {
		return plain()
	}
	all := p.store.SnapshotWithin(ctx, definitionsKind, definitionWait)
	if all == nil {
		return plain()
	}
	d, ok := all.Get("", k.GVR.GroupResource().String())
	if !ok {
		return plain()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.defined.Get(k.GVR); ok && last.uid == d.UID && last.version == d.ResourceVersion {
		return last.layout
	}
	l := definedBy(value(d.JSON.String()), k.GVR.Version)
	p.defined.Set(k.GVR, &definedLayout{strings.Clone(d.UID), strings.Clone(d.ResourceVersion), l})
	return l
}

// printerColumn is a column of a definition (apiextensions.k8s.io/v1 CustomResourceColumnDefinition).
type printerColumn struct {
	metav1.TableColumnDefinition
	JSONPath string
}

// definedBy returns the layout that a definition has for a version: the name, and its columns.
func definedBy(definition value, version string) *layout {
	var columns []printerColumn
	for _, v := range definition.at("spec", "versions").each() {
		if v.text("name") == version {
			if err := json.Unmarshal([]byte(v.at("additionalPrinterColumns")), &columns); err != nil {
				columns = nil // there are none
			}
		}
	}
	if len(columns) == 0 {
		return plain()
	}
	name := layoutOf("Name", nil)
	l := &layout{columns: name.columns}
	find := make([]func(o *decoded) value, len(columns))
	for i, c := range columns {
		l.columns = append(l.columns, c.TableColumnDefinition)
		find[i] = finder(c.JSONPath)
	}
	l.cells = func(r *row, o value) {
		r.name(o)
		whole := &decoded{text: o}
		for i, c := range columns {
			r.typed(c.Type, find[i](whole))
		}
	}
	return l
}

// decoded is an object that is decoded when a column needs that.
type decoded struct {
	text value
	any  any
}

// finder returns a function that finds the value of a column. Paths of members and elements are read from the text of an object; others,
// such as those with filters, from the decoded object. Where a path has more than one value, the first counts.
func finder(path string) func(o *decoded) value {
	if !strings.ContainsAny(path, "*?@:$()\"") && !strings.Contains(path, "..") {
		if steps, err := query.ParsePath(strings.ReplaceAll(path, `\.`, "\x00")); err == nil {
			for i, s := range steps {
				steps[i] = strings.ReplaceAll(s, "\x00", ".")
			}
			return func(o *decoded) value { return o.text.at(steps...) }
		}
	}
	if strings.Count(path, "..") > 1 { // each visits all of the object for each of what the others found
		return func(*decoded) value { return "" }
	}
	j := jsonpath.New("column").AllowMissingKeys(true)
	if err := j.Parse("{" + path + "}"); err != nil {
		return func(*decoded) value { return "" }
	}
	return func(o *decoded) value {
		if o.any == nil {
			d := json.NewDecoder(strings.NewReader(string(o.text)))
			d.UseNumber()
			if d.Decode(&o.any) != nil {
				return ""
			}
		}
		found, err := j.FindResults(o.any)
		if err != nil || len(found) == 0 || len(found[0]) == 0 {
			return ""
		}
		one, err := json.Marshal(found[0][0].Interface())
		if err != nil {
			return ""
		}
		return value(one)
	}
}

// typed adds a value as a column of a type shows it, and null where it is not of the type.
func (r *row) typed(typ string, v value) {
	switch {
	case !v.has():
		r.raw("")
	case typ == "string":
		r.text(v.text())
	case typ == "date":
		t, err := time.Parse(time.RFC3339, v.text())
		if err != nil {
			r.text("<invalid>")
			return
		}
		r.text(r.since(t))
	case typ == "integer":
		n, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			r.raw("")
			return
		}
		r.raw(value(fmt.Sprintf("%.0f", n)))
	case typ == "number" && (v[0] == '-' || v[0] >= '0' && v[0] <= '9'), typ == "boolean" && (v == "true" || v == "false"):
		r.raw(v)
	default:
		r.raw("")
	}
}
