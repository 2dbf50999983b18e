package conditions

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
)

// defaultLimit is how many items a page has where a list does not say.
const defaultLimit = 10

// page translates paging, limit, page and start.
func (t *translation) page(values url.Values) error {
	given, err := pageParts(values)
	if err != nil {
		return err
	}
	limit, page := defaultLimit, 1
	if n, ok := given[paramLimit]; ok {
		limit = n
	}
	if n, ok := given[paramPage]; ok {
		page = n
	}
	if limit < query.All {
		return query.Invalid(paramLimit, strconv.Itoa(limit), "a number of items, or -1 for all")
	}
	if page < 1 {
		return query.Invalid(paramPage, strconv.Itoa(page), "a page, from 1")
	}
	if start, ok := given[paramStart]; ok && limit > 0 {
		if _, also := given[paramPage]; also {
			return query.Invalid(paramStart, strconv.Itoa(start), "either start or page")
		}
		if start < 0 || start%limit != 0 {
			return query.Invalid(paramStart, strconv.Itoa(start), "a multiple of the limit, which is "+strconv.Itoa(limit))
		}
		page = start/limit + 1
	}
	t.out.Set("limit", strconv.Itoa(limit))
	t.out.Set("page", strconv.Itoa(page))
	return nil
}

// pageParts returns the numbers that the parameters give, by name, of which paging may be one text.
func pageParts(values url.Values) (map[string]int, error) {
	texts := map[string]string{}
	for _, name := range [...]string{paramLimit, paramPage, paramStart} {
		if v := values.Get(name); v != "" {
			texts[name] = v
		}
	}
	if text := values.Get(paramPaging); text != "" {
		for term := range strings.SplitSeq(text, ",") {
			name, value, ok := strings.Cut(term, "=")
			if !ok || name != paramLimit && name != paramPage {
				return nil, query.Invalid(paramPaging, text, "limit=10,page=1")
			}
			if other, twice := texts[name]; twice && other != value {
				return nil, query.Invalid(paramPaging, text, "one value of "+name)
			}
			texts[name] = value
		}
	}
	out := map[string]int{}
	for name, text := range texts {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, query.Invalid(name, text, "a whole number")
		}
		out[name] = n
	}
	return out, nil
}

// order translates orderBy and reverse: the smallest comes first, unless reverse.
func (t *translation) order(k kind, values url.Values) error {
	sortKeys := map[string]string{"createTime": "creationTimestamp", "name": "name"}
	maps.Copy(sortKeys, k.orders)
	by := values.Get(paramOrderBy)
	if by == "" {
		by = "createTime"
	}
	key, ok := sortKeys[by]
	if !ok {
		return query.Invalid(paramOrderBy, by, "one of "+strings.Join(slices.Sorted(maps.Keys(sortKeys)), ", "))
	}
	reverse := false
	if v := values.Get(paramReverse); v != "" {
		var err error
		if reverse, err = strconv.ParseBool(v); err != nil {
			return query.Invalid(paramReverse, v, "true or false")
		}
	}
	t.out.Set("sortBy", key)
	t.out.Set("ascending", strconv.FormatBool(!reverse))
	return nil
}
