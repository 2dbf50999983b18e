package rego

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// functions are those that a policy may call. They compute a value from others: none reaches a network, a file, the environment or the
// process, and none is as large as cryptography, schemas and query languages are. A policy that calls another one is not compiled.
var functions = []string{
	// comparing, assigning, membership
	"eq", "equal", "neq", "gt", "gte", "lt", "lte", "assign", "internal.member_2", "internal.member_3",
	// numbers
	"plus", "minus", "mul", "div", "rem", "round", "ceil", "floor", "abs", "numbers.range", "numbers.range_step", "to_number", "format_int",
	"bits.or", "bits.and", "bits.negate", "bits.xor", "bits.lsh", "bits.rsh",
	// lists, sets, objects
	"and", "or", "intersection", "union", "set_diff", "count", "sum", "product", "max", "min", "sort", "all", "any",
	"array.concat", "array.slice", "array.reverse", "array.flatten",
	"object.get", "object.keys", "object.subset", "object.union", "object.union_n", "object.remove", "object.filter", "walk",
	// texts
	"concat", "contains", "startswith", "endswith", "indexof", "indexof_n", "substring", "lower", "upper", "split", "replace", "sprintf",
	"trim", "trim_left", "trim_right", "trim_prefix", "trim_suffix", "trim_space",
	"strings.any_prefix_match", "strings.any_suffix_match", "strings.count", "strings.replace_n", "strings.reverse", "strings.split_n",
	"regex.match", "regex.is_valid", "regex.split", "regex.find_n", "regex.find_all_string_submatch_n", "regex.replace", "re_match",
	"glob.match", "glob.quote_meta",
	// forms of values
	"json.marshal", "json.unmarshal", "json.is_valid", "base64.encode", "base64.decode", "base64.is_valid",
	"base64url.encode", "base64url.decode", "urlquery.encode", "urlquery.decode", "hex.encode", "hex.decode",
	"is_number", "is_string", "is_boolean", "is_array", "is_set", "is_object", "is_null", "type_name",
	"cast_array", "cast_set", "cast_string", "cast_boolean", "cast_null", "cast_object",
	// times, addresses, versions
	"time.now_ns", "time.parse_ns", "time.parse_rfc3339_ns", "time.parse_duration_ns", "time.format", "time.date", "time.clock",
	"time.weekday", "time.add_date", "time.diff",
	"net.cidr_contains", "net.cidr_intersects", "net.cidr_overlap", "net.cidr_is_valid", "semver.is_valid", "semver.compare",
	// for debugging: both do nothing here
	"print", "trace",
}

// capabilities returns the language's capabilities with these functions only, and without a network.
func capabilities() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion(ast.CapabilitiesRegoVersion(ast.RegoV0))
	c.Builtins = slices.DeleteFunc(c.Builtins, func(b *ast.Builtin) bool { return !slices.Contains(functions, b.Name) })
	c.AllowNet = []string{}
	return c
}
