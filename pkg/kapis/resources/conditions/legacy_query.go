package conditions

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/query"
)

// The parameters of the version's lists.
const (
	paramConditions = "conditions"
	paramPaging     = "paging"
	paramLimit      = "limit"
	paramPage       = "page"
	paramStart      = "start"
	paramOrderBy    = "orderBy"
	paramReverse    = "reverse"
)

// Bounds of one list.
const (
	maxConditions = 16
	maxValue      = 253 // bytes, as long as a name
	maxExpression = 4096
)

// Parameter is a parameter of the lists, for the documentation of the API.
type Parameter struct{ Name, Type, Doc string }

// Parameters returns the parameters that every list takes.
func Parameters() []Parameter {
	return []Parameter{
		{paramConditions, "string", "key=value and key~part, joined by commas, which must all hold"},
		{paramPaging, "string", "limit=10,page=1"},
		{paramLimit, "integer", "items on a page; default 10, -1 for all"},
		{paramPage, "integer", "which page, from 1"},
		{paramStart, "integer", "how many items come before the page, a multiple of limit"},
		{paramOrderBy, "string", "createTime, name, and what the kind has: startTime, updateTime, lastScheduleTime; default createTime"},
		{paramReverse, "boolean", "the greatest first; default false"},
	}
}

// translation collects what a list of today gets.
type translation struct {
	out url.Values
	// selector are requirements on labels that must all hold, alternatives those of which one must.
	selector, alternatives []string
	// expressions must all hold.
	expressions          []string
	ownerKind, ownerName string
}

// Parse returns the query of a list of a kind, by its plural name; namespace is empty for all namespaces. Other parameters are ignored. The
// error is a 404 for a kind that the version does not list there, or a 400 that names the parameter and says what was expected.
func Parse(plural, namespace string, values url.Values) (*query.Query, error) {
	k, err := find(plural, namespace)
	if err != nil {
		return nil, err
	}
	for _, p := range Parameters() {
		if v := values[p.Name]; len(slices.Compact(slices.Clone(v))) > 1 {
			return nil, query.Invalid(p.Name, strings.Join(v, " "), "one value: join conditions by commas")
		}
	}
	t := &translation{out: url.Values{}}
	for _, step := range [...]func() error{
		func() error { return t.page(values) },
		func() error { return t.order(k, values) },
		func() error { return t.conditions(k, values.Get(paramConditions)) },
		t.filters,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return query.Parse(t.out)
}

// conditions translates all conditions.
func (t *translation) conditions(k kind, text string) error {
	if text == "" {
		return nil
	}
	terms := strings.Split(text, ",")
	if len(terms) > maxConditions {
		return query.Invalid(paramConditions, text, fmt.Sprintf("at most %d conditions", maxConditions))
	}
	seen := map[string]bool{}
	for _, term := range terms {
		n := strings.IndexAny(term, "=~")
		if n < 1 {
			return query.Invalid(paramConditions, term, "key=value or key~part, joined by commas")
		}
		key, op, value := term[:n], term[n], term[n+1:]
		switch {
		case seen[term[:n+1]]:
			return query.Invalid(paramConditions, term, "one condition "+key+string(op))
		case !isPlain(value) || len(value) > maxValue:
			return query.Invalid(paramConditions, term, fmt.Sprintf("a value of at most %d bytes of printable text", maxValue))
		}
		seen[term[:n+1]] = true
		var err error
		if op == '=' {
			err = t.equal(k, key, value)
		} else {
			err = t.contains(key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isPlain reports whether s is text that a person can read.
func isPlain(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// equal translates key=value.
func (t *translation) equal(k kind, key, value string) error {
	special := k.special[key]
	known := special != nil || slices.Contains(k.same, key) || key == "name" || key == "keyword" || key == "owner"
	if known && value == "" {
		return query.Invalid(paramConditions, key+"=", "a value after "+key+"=")
	}
	switch {
	case special != nil:
		return special(t, value)
	case slices.Contains(k.same, key):
		t.out.Set(key, value)
	case key == "name":
		t.out.Set("names", strings.ReplaceAll(value, "|", ","))
	case key == "keyword":
		t.out.Set("q", value)
	case key == "owner":
		t.out.Set("ownerReference", value)
	default:
		if err := checkLabelKey(key); err != nil {
			return err
		}
		if why := validation.IsValidLabelValue(value); len(why) > 0 {
			return query.Invalid(paramConditions, key+"="+value, "the value of a label: "+why[0])
		}
		t.selector = append(t.selector, key+"="+value)
	}
	return nil
}

// appLabels are the labels that the condition app~part searches.
var appLabels = [...]string{"app", "app.kubernetes.io/name", "chart", "release"}

// contains translates key~part. Everything contains the empty text.
func (t *translation) contains(key, part string) error {
	const labels, annotations = "object.metadata.labels", "object.metadata.annotations"
	quoted := strconv.QuoteToASCII(part)
	pairs := func(of string) string {
		return fmt.Sprintf("%s.exists(k, k.contains(%s) || %s[k].contains(%s))", of, quoted, of, quoted)
	}
	value := func(label string) string {
		label = strconv.QuoteToASCII(label)
		return fmt.Sprintf("(%s in %s && %s[%s].contains(%s))", label, labels, labels, label, quoted)
	}
	var expression string
	switch key {
	case "name":
		t.out.Set("name", part)
		return nil
	case "label":
		expression = pairs(labels)
	case "annotation":
		expression = pairs(annotations)
	case "app":
		any := make([]string, len(appLabels))
		for i, label := range appLabels {
			any[i] = value(label)
		}
		expression = "(" + strings.Join(any, " || ") + ")"
	default:
		if err := checkLabelKey(key); err != nil {
			return err
		}
		expression = value(key)
	}
	if part != "" {
		t.expressions = append(t.expressions, expression)
	}
	return nil
}

func checkLabelKey(key string) error {
	if why := validation.IsQualifiedName(key); len(why) > 0 {
		return query.Invalid(paramConditions, key, "a condition of the kind, or the key of a label: "+why[0])
	}
	return nil
}

// includeCronJob translates the condition of jobs that leaves out those of CronJobs.
func (t *translation) includeCronJob(value string) error {
	switch value {
	case "true":
	case "false":
		t.expressions = append(t.expressions,
			"(!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o, o.kind == 'CronJob'))")
	default:
		return query.Invalid(paramConditions, "includeCronJob="+value, "true or false")
	}
	return nil
}

// userFacing translates the condition that leaves the roles that a person has made.
func (t *translation) userFacing(value string) error {
	switch value {
	case "true":
		t.out.Set("annotation", "kubesphere.io/creator")
	case "false":
	default:
		return query.Invalid(paramConditions, "userfacing="+value, "true or false")
	}
	return nil
}

// nodeRole translates the role of a node. Newer clusters call a master control-plane, and mark no workers.
func (t *translation) nodeRole(role string) error {
	const prefix = "node-role.kubernetes.io/"
	switch role {
	case "master":
		t.alternatives = []string{prefix + "master", prefix + "control-plane"}
	case "worker":
		t.alternatives = []string{prefix + "worker", "!" + prefix + "master,!" + prefix + "control-plane"}
	default:
		if why := validation.IsQualifiedName(prefix + role); len(why) > 0 {
			return query.Invalid(paramConditions, "role="+role, "the role of a node, such as master or worker: "+why[0])
		}
		t.selector = append(t.selector, prefix+role)
	}
	return nil
}

// filters sets the parameters that several conditions share.
func (t *translation) filters() error {
	if err := t.owner(); err != nil {
		return err
	}
	if len(t.alternatives) == 0 {
		t.alternatives = []string{""}
	}
	for i, one := range t.alternatives {
		all := t.selector
		if one != "" {
			all = append(slices.Clone(t.selector), one)
		}
		t.alternatives[i] = strings.Join(all, ",")
	}
	if selector := strings.Join(t.alternatives, "|"); selector != "" {
		t.out.Set("labelSelector", selector)
	}
	if expression := strings.Join(t.expressions, " && "); len(expression) > maxExpression {
		return query.Invalid(paramConditions, "", "fewer or shorter conditions with ~")
	} else if expression != "" {
		t.out.Set("cel", expression)
	}
	return nil
}

// owner translates ownerKind and ownerName. The pods of a Deployment are owned by its ReplicaSets, which are named after it and the hash
// that the pods have as a label: no other object needs to be read.
func (t *translation) owner() error {
	if t.ownerKind == "" && t.ownerName == "" {
		return nil
	}
	if t.ownerKind == "" || t.ownerName == "" {
		return query.Invalid(paramConditions, "", "ownerKind= and ownerName= together")
	}
	kind, name := t.ownerKind, strconv.QuoteToASCII(t.ownerName)
	if kind == "Deployment" {
		kind = "ReplicaSet"
		name = strconv.QuoteToASCII(t.ownerName+"-") + " + object.metadata.labels['pod-template-hash']"
	}
	t.out.Set("ownerKind", kind)
	t.expressions = append(t.expressions,
		fmt.Sprintf("object.metadata.ownerReferences.exists(o, o.kind == %s && o.name == %s)", strconv.QuoteToASCII(kind), name))
	return nil
}
