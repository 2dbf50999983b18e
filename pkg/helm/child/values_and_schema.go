package child

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// maxFaults is how many faults of values are named.
const maxFaults = 20

// validate checks values against the schemas of a chart and of its enabled subcharts. The SDK's own check, which loads what a $ref
// names, is off.
func validate(c *chartv2.Chart, values map[string]any) error {
	invalid := func(err error) error { return refused(helm.ReasonInvalid, fmt.Errorf("validate the values: %w", err)) }
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return invalid(err)
	}
	all, err := util.CoalesceValues(c, values)
	if err != nil {
		return invalid(err)
	}
	faults, err := faultsOf(c, all, nil)
	if err != nil {
		return invalid(err)
	}
	if len(faults) > 0 {
		more := ""
		if n := len(faults) - maxFaults; n > 0 {
			faults, more = faults[:maxFaults], fmt.Sprintf("; and %d more", n)
		}
		return invalid(errors.New(strings.Join(faults, "; ") + more))
	}
	return nil
}

// faultsOf returns what is wrong with the values of a chart, which are at a path of the whole.
func faultsOf(c *chartv2.Chart, values map[string]any, path []string) (faults []string, err error) {
	if len(c.Schema) > 0 {
		if faults, err = check(c.Schema, values, path); err != nil {
			return nil, fmt.Errorf("the schema of the chart %s: %w", c.Name(), err)
		}
	}
	for _, sub := range c.Dependencies() {
		at := append(slices.Clone(path), sub.Name())
		of, ok := values[sub.Name()]
		if !ok || of == nil {
			continue
		}
		v, ok := of.(map[string]any)
		if !ok {
			faults = append(faults, location(at)+": want an object")
			continue
		}
		more, err := faultsOf(sub, v, at)
		if err != nil {
			return nil, err
		}
		faults = append(faults, more...)
	}
	return faults, nil
}

// noLoader loads nothing: a schema is complete, or refused.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("a reference to %s: schemas may refer to themselves only", url)
}

func check(schema []byte, values map[string]any, path []string) ([]string, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, errors.New("it is not JSON")
	}
	const self = "kapis:///values.schema.json"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(self, doc); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(self)
	if err != nil {
		return nil, err
	}
	// Values have been decoded by several parsers: numbers are made the ones that the library expects.
	raw, err := yaml.Marshal(values)
	if err != nil {
		return nil, err
	}
	if raw, err = boundedyaml.ToJSON(raw); err != nil {
		return nil, err
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	var wrong *jsonschema.ValidationError
	if err := compiled.Validate(instance); errors.As(err, &wrong) {
		return faults(wrong, path), nil
	} else if err != nil {
		return nil, err
	}
	return nil, nil
}

// faults returns one line for each fault, which names the place and the rule. The library's own texts quote the values.
func faults(e *jsonschema.ValidationError, path []string) (lines []string) {
	if len(e.Causes) == 0 {
		return []string{location(append(slices.Clone(path), e.InstanceLocation...)) + ": " + rule(e.ErrorKind)}
	}
	for _, cause := range e.Causes {
		lines = append(lines, faults(cause, path)...)
	}
	return lines
}

func rule(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "want " + strings.Join(k.Want, " or ") + ", not " + k.Got
	case *kind.Required:
		return "want " + strings.Join(k.Missing, ", ")
	case *kind.AdditionalProperties:
		return "unknown: " + strings.Join(k.Properties, ", ")
	case *kind.Enum:
		return fmt.Sprintf("want one of %v", k.Want)
	}
	if keyword := k.KeywordPath(); len(keyword) > 0 {
		return "does not match " + strings.Join(keyword, "/")
	}
	return "does not match"
}

func location(path []string) string {
	if len(path) == 0 {
		return "the values"
	}
	return strings.Join(path, ".")
}

// values returns the values of a request: those that are secret are merged over the others.
func values(r *helm.Request) (map[string]any, error) {
	read := func(what string, raw []byte) (map[string]any, error) {
		v := map[string]any{}
		if err := boundedyaml.Unmarshal(raw, &v); err != nil {
			// The parser's error quotes what it read.
			return nil, &helm.Error{Reason: helm.ReasonInvalid, Message: "read the " + what + ": they are not a YAML mapping"}
		}
		if v == nil {
			v = map[string]any{}
		}
		return v, nil
	}
	v, err := read("values", r.Values)
	if err != nil {
		return nil, err
	}
	secret, err := read("secret values", r.SecretValues)
	if err != nil {
		return nil, err
	}
	return loader.MergeMaps(v, secret), nil
}
