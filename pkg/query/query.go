// Package query parses the parameters of a list: filters, sort keys and pages. It is independent of kinds and objects.
package query

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/status"
)

// All is the limit of a list that is not paged.
const All = -1

// Bounds of one query, so that its cost is bounded by the objects and not by its text.
const (
	maxBytes        = 64 << 10
	maxSortKeys     = 8
	maxRequirements = 256
	maxFields       = 16 // each is searched for in the text of every object
	maxWords        = 16
	maxProjections  = 64
	maxFacets       = 8
	maxLive         = 100 // objects that are read from kube-apiserver, one by one
	maxKeys         = 500 // rows of an answer of keys
)

// The parameters that every list takes. Any other is a filter of the kind, or is ignored.
const (
	paramLimit          = "limit"
	paramPage           = "page"
	paramSortBy         = "sortBy"
	paramAscending      = "ascending"
	paramName           = "name"
	paramNameAndAlias   = "nameAndAlias"
	paramNames          = "names"
	paramUID            = "uid"
	paramNamespace      = "namespace"
	paramOwnerReference = "ownerReference"
	paramOwnerKind      = "ownerKind"
	paramAnnotation     = "annotation"
	paramLabel          = "label"
	paramLabelSelector  = "labelSelector"
	paramFieldSelector  = "fieldSelector"
	paramText           = "q"
	paramExpression     = "cel"
	paramFields         = "fields"
	paramFacets         = "facets"
	paramVersion        = "resourceVersion"
	paramManagedFields  = "managedFields"
	paramView           = "view"
	paramCursor         = "cursor"
	paramOffset         = "offset"
	paramEvery          = "every"
	paramObjects        = "objects"
)

// ViewKeys is the value of the parameter view that asks for the sort values, names and versions of objects in place of the objects: what
// is needed to merge the lists of several clusters.
const ViewKeys = "keys"

// filterParams are the parameters above that decide which objects match, in the order of Key.
var filterParams = [...]string{
	paramName, paramNameAndAlias, paramNames, paramUID, paramNamespace, paramOwnerReference, paramOwnerKind,
	paramAnnotation, paramLabel, paramLabelSelector, paramFieldSelector, paramText, paramExpression,
}

// Query is what a list asks for. All filters must hold.
type Query struct {
	// Limit is how many items a page has, All for all of them; with 0 or less, none.
	Limit int
	// Page counts from 1; a page before it has no items.
	Page int
	// Cursor is where the page begins, Offset how many objects are before it; either is used in place of Page where it is not its zero
	// value.
	Cursor *Cursor
	Offset int
	// Keys asks for keys in place of objects: every Every-th one; 0 spreads Limit keys evenly over all.
	Keys  bool
	Every int
	// Last asks for the position of the last object of a page.
	Last bool
	// Objects is how many of the first keys come with their objects.
	Objects int
	// SortBy are the sort keys, the first decides; empty means creation time. Equal objects are
	// ordered by namespace and name, so that every order is total.
	SortBy []SortKey
	// Ascending reverses the order: the default is descending.
	Ascending bool

	// Contains are texts. Each must be a part of the name, or, ignoring case, of the alias.
	Contains []string
	// Names are the requested names, nil for any.
	Names map[string]struct{}
	// UID, Namespace, Owner (the UID or the name of one) and OwnerKind must be equal if they are set.
	UID, Namespace, Owner, OwnerKind Exact
	// Annotations must all hold for the annotations, Labels for the labels.
	Annotations, Labels []Requirement
	// Selectors are alternatives of label selectors, each a list whose requirements must all hold; nil for none.
	Selectors [][]Requirement
	// Fields must all hold for the object.
	Fields []FieldRequirement
	// Words must each occur, ignoring case, in the name, in a key or a value of the labels, or in one of the
	// annotations, of which the alias is one. They are in lower case.
	Words []string
	// Expression is a CEL expression over object that must be true.
	Expression string

	// Project are the only fields that items have, nil for all.
	Project []Path
	// Reduced says that the caller may see nothing but Project of an object, in any form of the answer: rows of Tables, entity tags, sort
	// values. Who sets it allows no filter, order or facet by anything else.
	Reduced bool
	// Facets are the fields whose values are counted over all matches.
	Facets []Path
	// Version is a resource version that the answer must include, empty for any.
	Version string
	// ManagedFields asks for fields that the cache leaves out of objects: they are read from kube-apiserver, and Limit is then at most 100.
	ManagedFields bool

	params url.Values
}

// Exact is a filter by one value; the empty value is a value too.
type Exact struct {
	Set   bool
	Value string
}

// SortKey is one key of an order: a name that the kind knows, or a field of the object.
type SortKey struct {
	Name string
	// Path is set where the key is a field, written with a leading dot: `.spec.replicas`.
	Path Path
}

// Parse parses the parameters of a list. The first value of a parameter counts. The error is a 400 whose details name the parameter and
// say what was expected.
func Parse(values url.Values) (*Query, error) {
	q := &Query{Limit: All, Page: 1, Every: 1, params: values}
	if len(values) == 0 {
		return q, nil
	}
	size := 0
	for key, v := range values {
		for _, s := range v {
			size += len(key) + len(s)
		}
	}
	if size > maxBytes {
		return nil, Invalid("", "", fmt.Sprintf("a query of at most %d bytes", maxBytes))
	}
	q.parseExact()
	for _, step := range [...]func() error{q.parsePage, q.parseBegin, q.parseSort, q.parseSets, q.parseShape} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// Param returns the first value of a parameter, for the filters that only some kinds have.
func (q *Query) Param(name string) (string, bool) {
	v, ok := q.params[name]
	if !ok || len(v) == 0 {
		return "", false
	}
	return v[0], true
}

// Filtered reports whether anything in the query decides which objects match; own names the kind's own filters.
func (q *Query) Filtered(own []string) bool {
	if q.Names != nil || q.UID.Set || q.Namespace.Set || q.Owner.Set || q.OwnerKind.Set || q.Expression != "" ||
		len(q.Contains)+len(q.Annotations)+len(q.Labels)+len(q.Selectors)+len(q.Fields)+len(q.Words) > 0 {
		return true
	}
	for _, name := range own {
		if _, ok := q.Param(name); ok {
			return true
		}
	}
	return false
}

// Unknown returns a parameter that nothing reads, the first by name; empty where there is none. own are the kind's own filters.
func (q *Query) Unknown(own []string) string {
	shape := []string{paramLimit, paramPage, paramSortBy, paramAscending, paramFields, paramFacets, paramVersion, paramManagedFields,
		paramCursor, paramOffset}
	known := slices.Concat(shape, filterParams[:], own)
	for _, name := range slices.Sorted(maps.Keys(q.params)) {
		if !slices.Contains(known, name) {
			return name
		}
	}
	return ""
}

// AppendKey appends a text that is equal for queries which match the same objects in the same order, whatever the page and the direction.
// extra names the kind's own filters.
func (q *Query) AppendKey(dst []byte, extra []string) []byte {
	for _, names := range [...][]string{{paramSortBy}, filterParams[:], extra} {
		for _, name := range names {
			if v, ok := q.Param(name); ok {
				dst = append(dst, name...)
				dst = append(dst, '=')
				dst = strconv.AppendQuote(dst, v)
			}
		}
	}
	return dst
}

// Window returns which of total items are on the page: n items from start on.
func (q *Query) Window(total int) (start, n int) {
	switch {
	case q.Offset > 0:
		return q.WindowFrom(q.Offset, total)
	case q.Limit == All:
		return 0, total
	}
	if q.Limit <= 0 || q.Page < 1 || (q.Page-1) > total/q.Limit {
		return 0, 0
	}
	start = (q.Page - 1) * q.Limit
	return start, max(0, min(q.Limit, total-start))
}

// WindowFrom returns which of total items are on the page that begins with item start.
func (q *Query) WindowFrom(start, total int) (from, n int) {
	switch left := total - start; {
	case left <= 0 || q.Limit <= 0 && q.Limit != All:
		return min(start, total), 0
	case q.Limit == All:
		return start, left
	default:
		return start, min(q.Limit, (left-1)/q.Stride(start, total)+1)
	}
}

// Stride returns the distance between the items of a page that begins with item start.
func (q *Query) Stride(start, total int) int {
	if q.Every == 0 && q.Limit > 0 {
		return max(1, (total-start+q.Limit-1)/q.Limit)
	}
	return max(1, q.Every)
}

// parseBegin parses where a page begins: cursor and offset, and the keys of view=keys.
func (q *Query) parseBegin() (err error) {
	view, _ := q.Param(paramView)
	q.Keys = view == ViewKeys
	if text, _ := q.Param(paramCursor); text != "" {
		if q.Cursor, err = ParseCursor(text); err != nil {
			return Invalid(paramCursor, text, "a cursor of a list")
		}
	}
	if q.Offset, err = q.number(paramOffset, 0); err != nil {
		return err
	}
	if q.Keys {
		if q.Every, err = q.number(paramEvery, 1); err != nil {
			return err
		}
		if q.Objects, err = q.number(paramObjects, 0); err != nil {
			return err
		}
	}
	switch {
	case q.Offset < 0 || q.Offset > 0 && q.Cursor != nil:
		return Invalid(paramOffset, strconv.Itoa(q.Offset), "a number of objects, and no cursor together with it")
	case q.Every < 0:
		return Invalid(paramEvery, strconv.Itoa(q.Every), "a number from 0")
	case q.Objects < 0 || q.Objects > 0 && (q.Objects > q.Limit || q.Every != 1):
		return Invalid(paramObjects, strconv.Itoa(q.Objects), "a number of the keys that are asked for, each of them")
	case q.Keys && (q.Limit < 0 || q.Limit > maxKeys):
		return Invalid(paramLimit, strconv.Itoa(q.Limit), fmt.Sprintf("at most %d with view=keys", maxKeys))
	}
	return nil
}

func (q *Query) parsePage() (err error) {
	if q.Limit, err = q.number(paramLimit, All); err != nil {
		return err
	}
	if q.Page, err = q.number(paramPage, 1); err != nil {
		return err
	}
	q.Ascending, err = q.boolean(paramAscending)
	return err
}

// parseShape parses what an answer contains, and which resource version it must include.
func (q *Query) parseShape() (err error) {
	q.Expression, _ = q.Param(paramExpression)
	if text, _ := q.Param(paramText); text != "" {
		if q.Words = strings.Fields(strings.ToLower(text)); len(q.Words) > maxWords {
			return Invalid(paramText, text, fmt.Sprintf("at most %d words", maxWords))
		}
	}
	if v, _ := q.Param(paramVersion); v != "" && v != "0" {
		if _, err := strconv.ParseUint(v, 10, 64); err != nil {
			return Invalid(paramVersion, v, "the resourceVersion of an object or a list")
		}
		q.Version = v
	}
	if q.ManagedFields, err = q.boolean(paramManagedFields); err != nil {
		return err
	}
	if q.ManagedFields && (q.Limit == All || q.Limit > maxLive) {
		return Invalid(paramLimit, strconv.Itoa(q.Limit),
			fmt.Sprintf("at most %d with managedFields=true, as each object is then read from kube-apiserver", maxLive))
	}
	if q.Project, err = q.paths(paramFields, maxProjections); err != nil {
		return err
	}
	q.Facets, err = q.paths(paramFacets, maxFacets)
	return err
}

// paths parses field paths joined by commas.
func (q *Query) paths(param string, most int) ([]Path, error) {
	v, _ := q.Param(param)
	if v == "" {
		return nil, nil
	}
	var out []Path
	for rest := v; rest != ""; {
		var one string
		if one, rest = cutTerm(rest); one == "" {
			continue
		}
		p, err := ParsePath(one)
		if err != nil {
			return nil, Invalid(param, one, "field paths such as .metadata.name,.status.phase")
		}
		if out = append(out, p); len(out) > most {
			return nil, Invalid(param, v, fmt.Sprintf("at most %d paths", most))
		}
	}
	return out, nil
}

func (q *Query) boolean(param string) (bool, error) {
	v, _ := q.Param(param)
	if v == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, Invalid(param, v, "true or false")
	}
	return b, nil
}

func (q *Query) number(param string, absent int) (int, error) {
	v, _ := q.Param(param)
	if v == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, Invalid(param, v, "a whole number")
	}
	return n, nil
}

func (q *Query) parseSort() error {
	v, _ := q.Param(paramSortBy)
	if v == "" || strings.HasPrefix(v, `{"`) { // pages that know no key send those of all their lists, as one JSON object
		return nil
	}
	for rest := v; rest != ""; {
		var text string
		text, rest = cutTerm(rest)
		key := SortKey{Name: text}
		if strings.HasPrefix(text, ".") {
			p, err := ParsePath(text)
			if err != nil {
				return Invalid(paramSortBy, text, "a field path such as .spec.replicas")
			}
			key.Path = p
		}
		q.SortBy = append(q.SortBy, key)
	}
	if len(q.SortBy) > maxSortKeys {
		return Invalid(paramSortBy, v, fmt.Sprintf("at most %d keys", maxSortKeys))
	}
	return nil
}

func (q *Query) parseExact() {
	q.UID.Value, q.UID.Set = q.Param(paramUID)
	q.Namespace.Value, q.Namespace.Set = q.Param(paramNamespace)
	q.Owner.Value, q.Owner.Set = q.Param(paramOwnerReference)
	q.OwnerKind.Value, q.OwnerKind.Set = q.Param(paramOwnerKind)
	for _, param := range [...]string{paramName, paramNameAndAlias} {
		if v, _ := q.Param(param); v != "" {
			q.Contains = append(q.Contains, v)
		}
	}
	if v, ok := q.Param(paramNames); ok {
		q.Names = make(map[string]struct{}, strings.Count(v, ",")+1)
		for name := range strings.SplitSeq(v, ",") {
			q.Names[name] = struct{}{}
		}
	}
}

func (q *Query) parseSets() (err error) {
	if v, _ := q.Param(paramLabelSelector); v != "" {
		if q.Selectors, err = parseAlternatives(v); err != nil {
			return Invalid(paramLabelSelector, v, "a label selector: "+err.Error())
		}
	}
	if v, _ := q.Param(paramLabel); v != "" {
		if q.Labels, err = parsePairs(v, false); err != nil {
			return Invalid(paramLabel, v, "key, !key, key=value or key!=value")
		}
	}
	if v, _ := q.Param(paramAnnotation); v != "" {
		if q.Annotations, err = parsePairs(v, true); err != nil {
			return Invalid(paramAnnotation, v, "key, !key, key=value or key!=value")
		}
	}
	if v, _ := q.Param(paramFieldSelector); v != "" {
		if q.Fields, err = parseFields(v); err != nil {
			return Invalid(paramFieldSelector, v, "path=value, path!=value or path=~value, joined by commas: "+err.Error())
		}
	}
	return nil
}

// Invalid returns the 400 for a parameter whose value can't be used: its details name the parameter,
// and its message says what was expected.
func Invalid(param, value, want string) error {
	msg := fmt.Sprintf("query parameter %q: %q: want %s", param, status.Excerpt(value, 100), want)
	if param == "" {
		msg = "query parameters: want " + want
	}
	err := status.Errorf(http.StatusBadRequest, "%s", msg)
	err.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{
		{Type: metav1.CauseTypeFieldValueInvalid, Field: param, Message: "want " + want},
	}}
	return err
}
