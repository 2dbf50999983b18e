package scope

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
)

// The parameters of older lists, which pages of the store still send.
const (
	paramConditions = "conditions"
	paramPaging     = "paging"
	paramOrderBy    = "orderBy"
	paramReverse    = "reverse"
	paramOrder      = "order"
)

const maxConditions = 16

// sortKeys are the orders of older lists, and today's sort keys.
var sortKeys = map[string]string{"sequence": "creationTimestamp", "createTime": "creationTimestamp", "status_time": "creationTimestamp"}

// parameters translates the parameters of a list into those of today, and returns the states that its conditions name, nil for any. known
// are the states of the kind; without any, a condition on the state has no meaning and is ignored, as pages send it to every list.
func parameters(values url.Values, known []string) (out url.Values, states []string, err error) {
	out = url.Values{}
	for name, v := range values {
		out[name] = v
	}
	for _, name := range []string{paramConditions, paramPaging, paramOrderBy, paramReverse, paramOrder} {
		if v := values[name]; len(slices.Compact(slices.Clone(v))) > 1 {
			return nil, nil, query.Invalid(name, strings.Join(v, " "), "one value: join conditions by commas")
		}
		out.Del(name)
	}
	if err := page(values.Get(paramPaging), out); err != nil {
		return nil, nil, err
	}
	if err := order(values, out); err != nil {
		return nil, nil, err
	}
	states, err = conditions(values.Get(paramConditions), known, out)
	return out, states, err
}

// page translates paging.
func page(text string, out url.Values) error {
	if text == "" {
		return nil
	}
	for term := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(term, "=")
		if !ok || name != "limit" && name != "page" || out.Get(name) != "" && out.Get(name) != value {
			return query.Invalid(paramPaging, text, "limit=10,page=1")
		}
		out.Set(name, value)
	}
	return nil
}

// order translates orderBy and reverse, and keys of sortBy that only older lists have.
func order(values, out url.Values) error {
	if by := values.Get(paramOrderBy); by != "" && out.Get("sortBy") == "" {
		out.Set("sortBy", by)
		reverse := false
		if v := values.Get(paramReverse); v != "" {
			var err error
			if reverse, err = strconv.ParseBool(v); err != nil {
				return query.Invalid(paramReverse, v, "true or false")
			}
		}
		if out.Get("ascending") == "" {
			out.Set("ascending", strconv.FormatBool(!reverse))
		}
	}
	if now, ok := sortKeys[out.Get("sortBy")]; ok {
		out.Set("sortBy", now)
	}
	return nil
}

// conditions translates conditions: status=a|b, name=a|b, name~part and keyword=words. Other keys are ignored, as other filters that a list
// does not know are: pages send some along with a label that says the same.
func conditions(text string, known []string, out url.Values) (states []string, err error) {
	if text == "" {
		return nil, nil
	}
	terms := strings.Split(text, ",")
	if len(terms) > maxConditions {
		return nil, query.Invalid(paramConditions, text, "at most "+strconv.Itoa(maxConditions)+" conditions")
	}
	for _, term := range terms {
		n := strings.IndexAny(term, "=~")
		if n < 1 {
			return nil, query.Invalid(paramConditions, term, "key=value or key~part, joined by commas")
		}
		key, op, value := term[:n], term[n], term[n+1:]
		switch {
		case value == "" && op == '=', key == "noLimit" && op == '=': // neither restricts a list
		case key == "status" && op == '=':
			if states, err = statesOf(value, known, states); err != nil {
				return nil, err
			}
		case key == "name" && op == '~':
			out.Set("name", value)
		case key == "name":
			out.Set("names", strings.ReplaceAll(value, "|", ","))
		case key == "keyword" && op == '=':
			out.Set("q", value)
		case key == "status", key == "keyword", key == "noLimit":
			return nil, query.Invalid(paramConditions, term, key+"= and a value: a part is name~ alone")
		}
	}
	return states, nil
}

// statesOf returns the states that a condition names. Other states than those of the kind match nothing, as some pages send those of
// applications for versions.
func statesOf(value string, known, before []string) ([]string, error) {
	switch {
	case known == nil:
		return before, nil
	case before != nil:
		return nil, query.Invalid(paramConditions, "status="+value, "one condition on the status, with | between the states")
	}
	out := []string{}
	for state := range strings.SplitSeq(value, "|") {
		if slices.Contains(known, state) {
			out = append(out, state)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
