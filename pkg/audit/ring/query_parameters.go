package ring

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/query"
)

// The operations of a query.
const (
	OperationQuery      = "query"
	OperationStatistics = "statistics"
	OperationHistogram  = "histogram"
)

const (
	defaultSize     = 10
	maxSize         = 1000
	defaultInterval = 15 * time.Minute
	maxBuckets      = 1000
	maxWords        = 100
	maxWord         = 1024
	maxFrom         = 1 << 31
	maxTime         = 1 << 38 // seconds
)

// Query selects events, as clients of release 3 write it.
type Query struct {
	// Operation is what is answered of the events.
	Operation string

	conditions []condition
	start, end time.Time // zero for no bound
	interval   time.Duration
	ascending  bool
	from, size int
}

// condition reports whether an event has one of some values.
type condition func(e *audit.Event) bool

// texts are what the parameters *_filter, whose values are whole words, and *_search, whose values are parts of words, look at.
var texts = []struct {
	name           string
	filter, search bool
	of             func(e *audit.Event) []string
}{
	{"workspace", true, true, func(e *audit.Event) []string { return []string{e.Workspace} }},
	{"objectref_namespace", true, true, func(e *audit.Event) []string { return []string{e.Object.Namespace} }},
	{"objectref_name", true, true, func(e *audit.Event) []string { return []string{e.Object.Name} }},
	{"user", true, true, func(e *audit.Event) []string { name, _ := e.Caller(); return []string{name} }},
	{"level", true, false, func(e *audit.Event) []string { return []string{string(e.Level)} }},
	{"verb", true, false, func(e *audit.Event) []string { return []string{e.Verb} }},
	{"objectref_resource", true, false, func(e *audit.Event) []string { return []string{e.Object.Resource} }},
	{"objectref_subresource", true, false, func(e *audit.Event) []string { return []string{e.Object.Subresource} }},
	{"response_status", true, false, func(e *audit.Event) []string { return []string{statusOf(e.Code)} }},
	{"response_code", true, false, func(e *audit.Event) []string { return []string{strconv.Itoa(e.Code)} }},
	{"group", false, true, func(e *audit.Event) []string { return e.Groups }},
	{"source_ip", false, true, func(e *audit.Event) []string { return e.Sources }},
}

func statusOf(code int) string {
	if code >= http.StatusBadRequest {
		return "Failure"
	}
	return "Success"
}

// Parse reads the parameters. Those that it does not know are ignored.
func Parse(values url.Values) (*Query, error) {
	q := &Query{Operation: OperationQuery, interval: defaultInterval, size: defaultSize}
	if v := values.Get("operation"); v != "" {
		q.Operation = v
	}
	if !slices.Contains([]string{OperationQuery, OperationStatistics, OperationHistogram}, q.Operation) {
		return nil, query.Invalid("operation", q.Operation, "query, statistics or histogram")
	}
	for _, t := range texts {
		if t.filter {
			if err := q.add(values, t.name+"_filter", t.of, strings.EqualFold); err != nil {
				return nil, err
			}
		}
		if t.search {
			if err := q.add(values, t.name+"_search", t.of, contains); err != nil {
				return nil, err
			}
		}
	}
	for _, parse := range []func(url.Values) error{q.parseValues, q.parseTimes, q.parsePage} {
		if err := parse(values); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// add adds the condition of a parameter, if the query has it: values are joined by commas, and one of them has to match.
func (q *Query) add(values url.Values, name string, of func(*audit.Event) []string, match func(text, word string) bool) error {
	text := strings.Join(values[name], ",")
	if text == "" {
		return nil
	}
	if strings.Count(text, ",") >= maxWords || len(text) > maxWords*maxWord {
		return query.Invalid(name, "a long list", "at most "+strconv.Itoa(maxWords)+" words joined by commas")
	}
	words := strings.Split(text, ",")
	q.conditions = append(q.conditions, func(e *audit.Event) bool {
		return slices.ContainsFunc(of(e), func(text string) bool {
			return slices.ContainsFunc(words, func(word string) bool { return match(text, strings.TrimSpace(word)) })
		})
	})
	return nil
}

// parseValues refuses values that no event has.
func (q *Query) parseValues(values url.Values) error {
	for _, c := range []struct {
		name, want string
		is         func(v string) bool
	}{
		{"response_code_filter", "codes of HTTP from 100 to 599", func(v string) bool {
			code, err := strconv.Atoi(v)
			return err == nil && code >= 100 && code < 600
		}},
		{"response_status_filter", "Success or Failure", func(v string) bool {
			return strings.EqualFold(v, "Success") || strings.EqualFold(v, "Failure")
		}},
		{"level_filter", "Metadata, Request or RequestResponse", func(v string) bool {
			return slices.ContainsFunc([]string{"Metadata", "Request", "RequestResponse"}, func(l string) bool { return strings.EqualFold(l, v) })
		}},
		{"source_ip_search", "addresses, or parts of one", func(v string) bool {
			_, err := netip.ParseAddr(v)
			return err == nil || strings.Trim(v, "0123456789abcdefABCDEF.:") == ""
		}},
	} {
		for _, text := range values[c.name] {
			for v := range strings.SplitSeq(text, ",") {
				if v = strings.TrimSpace(v); text != "" && !c.is(v) {
					return query.Invalid(c.name, v, c.want)
				}
			}
		}
	}
	return nil
}

func (q *Query) parseTimes(values url.Values) error {
	for name, into := range map[string]*time.Time{"start_time": &q.start, "end_time": &q.end} {
		v := values.Get(name)
		if v == "" {
			continue
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 || n > maxTime {
			return query.Invalid(name, v, "seconds since 1970")
		}
		*into = time.Unix(n, 0)
	}
	if !q.start.IsZero() && !q.end.IsZero() && q.end.Before(q.start) {
		return query.Invalid("end_time", values.Get("end_time"), "not before start_time")
	}
	if v := values.Get("interval"); v != "" {
		d, ok := interval(v)
		if !ok || d < time.Second || d > 366*24*time.Hour {
			return query.Invalid("interval", v, "a duration from 1s to 366d, such as 15m, 1h or 7d")
		}
		q.interval = d
	}
	return nil
}

// interval reads a duration, which may also be in days and weeks.
func interval(v string) (time.Duration, bool) {
	day := 24 * time.Hour
	for unit, length := range map[string]time.Duration{"d": day, "w": 7 * day} {
		if number, ok := strings.CutSuffix(v, unit); ok {
			n, err := strconv.ParseUint(number, 10, 16)
			return time.Duration(n) * length, err == nil
		}
	}
	d, err := time.ParseDuration(v)
	return d, err == nil
}

func (q *Query) parsePage(values url.Values) error {
	switch v := values.Get("sort"); v {
	case "", "desc":
	case "asc":
		q.ascending = true
	default:
		return query.Invalid("sort", v, "asc or desc")
	}
	for name, c := range map[string]struct {
		into *int
		most int
	}{"from": {&q.from, maxFrom}, "size": {&q.size, maxSize}} {
		v := values.Get(name)
		if v == "" {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > c.most {
			return query.Invalid(name, v, "a number from 0 to "+strconv.Itoa(c.most))
		}
		*c.into = n
	}
	return nil
}
