package table

import (
	"net/http"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
)

// Form is what a client wants its Table to have besides the cells: metav1.IncludeObjectPolicy.
type Form struct {
	// Object is what each row has of its object.
	Object Included
}

// Included is how much of its object a row has.
type Included uint8

// What a row can have of its object.
const (
	Metadata Included = iota // a PartialObjectMetadata
	Nothing
	Whole
)

// ParamInclude is the parameter of a Table (metav1.TableOptions).
const ParamInclude = "includeObject"

// Requested reports whether a request prefers a Table to JSON. It allocates nothing for one that names no Table.
func Requested(h http.Header) bool {
	for _, line := range h["Accept"] {
		if strings.Contains(line, "as=Table") {
			return prefersTable(h["Accept"])
		}
	}
	return false
}

// FormOf returns the form of a Table for a value of ParamInclude; empty is Metadata. The error is a 400.
func FormOf(include string) (*Form, error) {
	switch include {
	case "", "Metadata":
		return &Form{Metadata}, nil
	case "None":
		return &Form{Nothing}, nil
	case "Object":
		return &Form{Whole}, nil
	}
	return nil, query.Invalid(ParamInclude, include, "None, Metadata or Object")
}

// FormFor returns the form of the Table that a request for a list prefers, nil where it prefers JSON. The error is that of FormOf.
func FormFor(h http.Header, q *query.Query) (*Form, error) {
	if !Requested(h) {
		return nil, nil
	}
	include, _ := q.Param(ParamInclude)
	return FormOf(include)
}

// prefersTable reports whether the first of the best media types that are served here is a Table of meta.k8s.io/v1. All others that are
// asked for "as" something are not served, and neither is anything but JSON.
func prefersTable(accept []string) bool {
	best, table := 0.0, false
	for _, line := range accept {
		for one := range strings.SplitSeq(line, ",") {
			media, rest, _ := strings.Cut(one, ";")
			media = strings.TrimSpace(media)
			if media != "application/json" && media != "application/*" && media != "*/*" {
				continue
			}
			weight, as, group, version := 1.0, "", "", ""
			for p := range strings.SplitSeq(rest, ";") {
				key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
				switch key {
				case "as":
					as = value
				case "g":
					group = value
				case "v":
					version = value
				case "q":
					if q, err := strconv.ParseFloat(value, 64); err == nil {
						weight = q
					}
				}
			}
			asTable := media == "application/json" && as == "Table" && group == tableGroup && version == tableVersion
			if (asTable || as == "") && weight > best {
				best, table = weight, asTable
			}
		}
	}
	return table
}

const (
	tableGroup   = "meta.k8s.io"
	tableVersion = "v1"
	apiVersion   = tableGroup + "/" + tableVersion
)
