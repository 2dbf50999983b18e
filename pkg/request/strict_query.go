package request

import (
	"net/url"
	"strings"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/status"
)

// maxParameters is far above what any client of an API sends.
const maxParameters = 1000

// parameter is a query parameter that decides what a request does. Readers differ in which of two values counts, so a second one must not
// differ.
type parameter struct {
	set   bool
	value string // still encoded
}

func (p *parameter) put(name, value string) error {
	if p.set && decoded(p.value) != decoded(value) {
		return status.BadRequestf("the parameter %s is given twice, with different values: give it once", name)
	}
	*p = parameter{set: true, value: value}
	return nil
}

// parameters are what Parse reads of a query.
type parameters struct {
	watch, dryRun, fieldSelector, labelSelector parameter
}

// scanQuery refuses a query that two readers could understand differently, and finds the parameters that decide. It allocates only if a
// name is encoded.
func scanQuery(raw string) (parameters, error) {
	var p parameters
	for n := 0; raw != ""; n++ {
		if n == maxParameters {
			return p, status.BadRequestf("the query has more than %d parameters", maxParameters)
		}
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if err := checkPair(pair); err != nil {
			return p, err
		}
		name, value, _ := strings.Cut(pair, "=")
		name = decoded(name)
		var err error
		switch name {
		case "watch":
			err = p.watch.put(name, value)
		case "dryRun":
			err = p.dryRun.put(name, value)
		case "fieldSelector":
			err = p.fieldSelector.put(name, value)
		case "labelSelector":
			err = p.labelSelector.put(name, value)
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// checkPair refuses what net/url would silently drop, and what older servers split at.
func checkPair(pair string) error {
	for n := 0; n < len(pair); n++ {
		switch pair[n] {
		case ';':
			return status.BadRequestf("the query has a \";\": separate parameters by \"&\", and encode it as %%3B within one")
		case '%':
			if n+2 >= len(pair) || !isHex(pair[n+1]) || !isHex(pair[n+2]) {
				return status.BadRequestf("the query parameter %s has a \"%%\" that is not followed by two hexadecimal digits", excerpt(pair))
			}
		}
	}
	return nil
}

// decoded returns the decoded value of s, which checkPair has checked.
func decoded(s string) string {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s
	}
	v, err := url.QueryUnescape(s)
	if err != nil {
		return s
	}
	return v
}

// wantsWatch reads the parameter watch as kube-apiserver does where it is unambiguous. kube-apiserver takes any value but 0 and false for
// a yes; here a value that a person may have meant as a no is refused.
func (p *parameters) wantsWatch() (bool, error) {
	if !p.watch.set {
		return false, nil
	}
	switch v := decoded(p.watch.value); v {
	case "0", "false", "False", "FALSE":
		return false, nil
	case "", "1", "t", "T", "true", "True", "TRUE":
		return true, nil
	default:
		return false, status.BadRequestf("the parameter watch is %s: expected true or false", excerpt(v))
	}
}

// selectedName returns the name of the one object that the field selector leaves, or "" if it may leave others. The authorizer then
// decides about that object, as kube-apiserver's does.
func (p *parameters) selectedName(rawQuery string) (string, error) {
	if !p.fieldSelector.set || !strings.Contains(decoded(p.fieldSelector.value), "metadata.name") {
		return "", nil
	}
	var o metainternalversion.ListOptions
	values, err := url.ParseQuery(rawQuery)
	if err == nil {
		err = metainternalversionscheme.ParameterCodec.DecodeParameters(values, metav1.SchemeGroupVersion, &o)
	}
	if err != nil {
		return "", status.BadRequestf("the query can't be read as the options of a list: %v", err)
	}
	if o.FieldSelector == nil {
		return "", nil
	}
	name, _ := o.FieldSelector.RequiresExactMatch("metadata.name")
	if !isName(name) {
		return "", nil
	}
	return name, nil
}

// isName reports whether an object could have this name in a path.
func isName(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/%")
}
