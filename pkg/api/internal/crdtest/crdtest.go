// Package crdtest tells in tests what kube-apiserver would say of an object: it runs the generated CRDs through the
// same checks (structural schema, OpenAPI validation, list maps and sets, CEL rules).
package crdtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

type crdVersion = apiextensionsv1.CustomResourceDefinitionVersion

// CRD is one generated CustomResourceDefinition.
type CRD struct {
	// Object is the definition as it is written.
	Object apiextensionsv1.CustomResourceDefinition
	// checks are what each version, named as apiVersion does, asks of an object.
	checks map[string]checks
}

type checks struct {
	structural *structuralschema.Structural
	openAPI    schemavalidation.SchemaValidator
	rules      *cel.Validator
}

// ConfigDir is the folder config of the repository, in which tests run.
func ConfigDir(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "config")
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no folder above that of the test has a go.mod")
		}
		dir = filepath.Dir(dir)
	}
}

// Load reads the CRD of a resource such as users.iam.kubesphere.io.
func Load(t testing.TB, plural, group string) *CRD {
	t.Helper()
	file := filepath.Join(ConfigDir(t), "crd", "bases", group+"_"+plural+".yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := &CRD{checks: map[string]checks{}}
	if err := yaml.UnmarshalStrict(raw, &c.Object); err != nil {
		t.Fatalf("decoding %s: %v", file, err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&c.Object)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&c.Object.Spec)
	var crd apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&c.Object, &crd, nil); err != nil {
		t.Fatalf("converting %s: %v", file, err)
	}
	for _, v := range crd.Spec.Versions {
		schema, err := apiextensions.GetSchemaForVersion(&crd, v.Name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := structuralschema.NewStructural(schema.OpenAPIV3Schema)
		if err != nil {
			t.Fatalf("%s: the schema of %s is not structural: %v", file, v.Name, err)
		}
		openAPI, _, err := schemavalidation.NewSchemaValidator(schema.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		c.checks[group+"/"+v.Name] = checks{s, openAPI, cel.NewValidator(s, true, celconfig.PerCallLimit)}
	}
	return c
}

// Create says what is wrong with a new object, and Update with a change of one.
func (c *CRD) Create(t testing.TB, obj map[string]any) error { return c.check(t, obj, nil) }

// Update says what is wrong with a change of old to obj.
func (c *CRD) Update(t testing.TB, obj, old map[string]any) error { return c.check(t, obj, old) }

// Pruned tells which fields of obj would be dropped, and drops them.
func (c *CRD) Pruned(t testing.TB, obj map[string]any) []string {
	t.Helper()
	return pruning.PruneWithOptions(obj, c.of(t, obj).structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
}

func (c *CRD) check(t testing.TB, obj, old map[string]any) error {
	t.Helper()
	k := c.of(t, obj)
	var errs field.ErrorList
	var before any // an untyped nil on create
	if old == nil {
		errs = schemavalidation.ValidateCustomResource(nil, obj, k.openAPI)
	} else {
		before = old
		errs = schemavalidation.ValidateCustomResourceUpdate(nil, obj, old, k.openAPI)
	}
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, obj)...)
	ruleErrs, _ := k.rules.Validate(t.Context(), nil, k.structural, obj, before, celconfig.RuntimeCELCostBudget)
	return append(errs, ruleErrs...).ToAggregate()
}

func (c *CRD) of(t testing.TB, obj map[string]any) checks {
	t.Helper()
	version, _ := obj["apiVersion"].(string)
	k, ok := c.checks[version]
	if !ok {
		t.Fatalf("%s has no version %q", c.Object.Name, version)
	}
	return k
}

// Object reads YAML as an object.
func Object(t testing.TB, text string) map[string]any {
	t.Helper()
	obj := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &obj); err != nil {
		t.Fatalf("decoding %q: %v", text, err)
	}
	return normal(obj).(map[string]any)
}

// normal turns whole numbers into int64, as kube-apiserver's decoder does.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = normal(v[k])
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

// Expect holds that err is nil where want is empty, and says want otherwise.
func Expect(t testing.TB, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Errorf("accepted, want a refusal that says %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("refused with %q, want it to say %q", err, want)
	}
}
