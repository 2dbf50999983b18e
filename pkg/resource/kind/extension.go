package kind

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// The fields of extensions.
const (
	extensionTitle = iota
	extensionState
	extensionEnabled
	extensionAvailable
	extensionUpdated
)

// The parameters of the pages of extensions.
const (
	paramStatus    = "status"
	paramEnabled   = "enabled"
	paramAvailable = "available"
)

// notInstalled is what the pages call the state of an extension without an installation: none, or uninstalled.
const (
	notInstalled = "notInstalled"
	uninstalled  = "Uninstalled"
)

// extensions are searched by what people call them in any language, and filtered as their pages do. There are few of them, so that no
// field is indexed.
func extensions() *plan.Kind {
	return &plan.Kind{
		Fields: []plan.Field{
			extensionTitle:     {Name: "displayName"},
			extensionState:     {Name: "state"},
			extensionEnabled:   {Name: "enabled"},
			extensionAvailable: {Name: "available"},
			extensionUpdated:   {Name: "versionUpdateTimestamp", Sort: true, Time: true},
		},
		CreatedSorts: []string{"installTimestamp", "updateTimestamp"}, // no extension says when it was installed, or upgraded
		WordsField:   1 + extensionTitle,
		Extract:      extractExtension,
		Params:       []string{paramStatus, paramEnabled, paramAvailable},
		Plan:         planExtensions,
	}
}

func extractExtension(json string, v []string) {
	status := rawjson.Get(json, "status")
	state := rawjson.GetText(status, "state")
	v[extensionTitle] = joinValues(rawjson.Get(json, "spec", "displayName"))
	v[extensionState] = state
	v[extensionEnabled] = strconv.FormatBool(rawjson.Get(status, "enabled") == "true")
	// What is installed stays in sight, also when no version suits the cluster any more.
	v[extensionAvailable] = strconv.FormatBool(state != "" || rawjson.GetText(status, "recommendedVersion") != "")
	// Times in one form, as the API writes them, are ordered as texts are.
	packed := ""
	for e := rawjson.Array(rawjson.Get(status, "versions")); e.Next(); {
		packed = max(packed, rawjson.GetText(e.Value, "creationTimestamp"))
	}
	v[extensionUpdated] = cmp.Or(packed, rawjson.GetText(json, "metadata", "creationTimestamp"))
}

// joinValues returns the texts that are the values of an object, one a line.
func joinValues(object string) string {
	var out []string
	for m := rawjson.Object(object); m.Next(); {
		if text := rawjson.Text(m.Value); text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, "\n")
}

// planExtensions adds the filters. The pages send those that nobody has chosen with an empty value.
func planExtensions(b *plan.Builder) error {
	if want, _ := b.Query.Param(paramStatus); want != "" {
		states := strings.Split(want, "|")
		if slices.ContainsFunc(states, func(s string) bool { return strings.EqualFold(s, notInstalled) }) {
			states = append(states, "", uninstalled)
		}
		b.Check(func(r *index.Record) bool {
			return slices.ContainsFunc(states, func(s string) bool { return strings.EqualFold(s, r.Fields[extensionState]) })
		})
	}
	if err := boolean(b, paramEnabled, extensionEnabled); err != nil {
		return err
	}
	return boolean(b, paramAvailable, extensionAvailable)
}

// boolean adds the filter by a field that is true or false.
func boolean(b *plan.Builder, param string, field int) error {
	switch want, _ := b.Query.Param(param); want {
	case "":
	case "true", "false":
		b.Check(func(r *index.Record) bool { return r.Fields[field] == want })
	default:
		return query.Invalid(param, want, "true or false")
	}
	return nil
}
