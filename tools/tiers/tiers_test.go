package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module of files whose content is the imports, one a line.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	writeFile(t, root, "go.mod", "module kapis.dev/ks-apiserver\n\ngo 1.26.0\n")
	for name, imports := range files {
		content := "package x\n"
		for _, i := range strings.Fields(imports) {
			content += "import _ \"" + strings.Replace(i, "~", "kapis.dev/ks-apiserver/pkg", 1) + "\"\n"
		}
		if filepath.Ext(name) != ".go" {
			content = imports
		}
		writeFile(t, root, name, content)
	}
	return root
}

func writeFile(t *testing.T, root, name, content string) {
	t.Helper()
	name = filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTiers(t *testing.T) {
	for _, c := range []struct {
		claim string
		files map[string]string
		want  []string // one for each line that is expected: what is in it
	}{
		{"LowerTierIsFine", map[string]string{"pkg/filter/a.go": "~/request ~/authz net/http k8s.io/klog/v2"}, nil},
		{"OwnTierIsNot", map[string]string{"pkg/filter/a.go": "net/http ~/proxy"},
			[]string{"pkg/filter/a.go:3: kapis.dev/ks-apiserver/pkg/proxy: pkg/filter and pkg/proxy are both of tier 5"}},
		{"HigherTierIsNot", map[string]string{"pkg/store/a.go": "~/resource"}, []string{"pkg/store is of tier 2 and pkg/resource of tier 3"}},
		{"APIsMayImportAPIs", map[string]string{"pkg/api/iam/v1beta1/a.go": "~/api/tenant/v1beta1 k8s.io/api/rbac/v1 k8s.io/apimachinery/pkg/runtime"}, nil},
		{"APIsMayImportNothingElse", map[string]string{"pkg/api/iam/v1beta1/a.go": "~/version k8s.io/klog/v2"}, []string{
			"both of tier 0", "pkg/version: pkg/api/iam/v1beta1 may not import it", "klog/v2: pkg/api/iam/v1beta1 may not import it",
		}},
		{"TestsOfAPIsMay", map[string]string{"pkg/api/iam/v1beta1/a_test.go": "github.com/google/go-cmp/cmp"}, nil},
		{"PackageInFullGoesBeforePattern", map[string]string{"pkg/idp/builtin/a.go": "~/idp/ldap", "pkg/idp/ldap/a.go": "~/idp"}, nil},
		{"ProvidersDoNotKnowEachOther", map[string]string{"pkg/idp/github/a.go": "~/idp/cas", "pkg/idp/ldap/a.go": "~/idp/header"},
			[]string{"both of tier 4", "both of tier 3"}},
		{"PackageWithoutATier", map[string]string{"pkg/new/a.go": ""}, []string{"pkg/new: has no tier"}},
		{"ImportOfAPackageWithoutATier", map[string]string{"pkg/filter/a.go": "kapis.dev/ks-apiserver/tools/tiers"},
			[]string{"pkg/filter imports tools/tiers, which has no tier"}},
		{"DeeperThanThePattern", map[string]string{"pkg/kapis/operations/v1/a.go": ""}, []string{"pkg/kapis/operations/v1: has no tier"}},
		{"SubPackagesOfADomainMayImportEachOther", map[string]string{"pkg/iam/a.go": "~/iam/session", "pkg/iam/session/a.go": "~/iam/user ~/token",
			"pkg/iam/user/a.go": ""}, nil},
		{"SubPackagesOfOtherDomainsMayNot", map[string]string{"pkg/iam/session/a.go": "~/resource/engine", "pkg/resource/engine/a.go": ""},
			[]string{"both of tier 3"}},
		{"SubPackagesOfADomainHaveItsTier", map[string]string{"pkg/store/feed/a.go": "~/iam/user", "pkg/iam/user/a.go": ""},
			[]string{"pkg/store/feed is of tier 2 and pkg/iam/user of tier 3"}},
		{"OnlyAssembliesImportConfig", map[string]string{"pkg/iam/a.go": "~/config", "pkg/apiserver/a.go": "~/config", "cmd/x/main.go": "~/config"},
			[]string{"pkg/iam may not import it: only the two assemblies"}},
		{"ConfigMayTestItself", map[string]string{"pkg/config/a_test.go": "~/config"}, nil},
		{"RoutesStayWhereTheyAre", map[string]string{
			"pkg/controller/user/a.go": "github.com/emicklei/go-restful/v3", "pkg/kapis/iam/a.go": "github.com/emicklei/go-restful/v3",
		}, []string{"pkg/controller/user/a.go:2: github.com/emicklei/go-restful/v3: pkg/controller/user may not import it"}},
		{"ServerLinksNoControllerRuntime", map[string]string{
			"cmd/ks-apiserver/main.go": "~/apiserver", "cmd/ks-controller-manager/main.go": "~/controllermanager",
			"pkg/apiserver/a.go": "~/controller/mirror", "pkg/controllermanager/a.go": "sigs.k8s.io/controller-runtime",
			"pkg/controller/mirror/a.go": "sigs.k8s.io/controller-runtime/pkg/client",
		}, []string{"cmd/ks-apiserver -> pkg/apiserver -> pkg/controller/mirror -> sigs.k8s.io/controller-runtime/pkg/client may not link it"}},
		{"ServerTestsMayUseControllerRuntime", map[string]string{
			"cmd/ks-apiserver/main.go": "~/apiserver", "pkg/apiserver/a.go": "", "pkg/apiserver/a_test.go": "sigs.k8s.io/controller-runtime/pkg/client",
		}, nil},
		{"TestsAreFreeOfTheOrder", map[string]string{"pkg/store/a_test.go": "~/apiserver"}, nil},
		{"TestsAreNotFreeOfTheRest", map[string]string{"pkg/store/a_test.go": "github.com/emicklei/go-restful/v3/log ~/config"}, []string{"go-restful", "config"}},
		{"SimilarNameIsAnotherModule", map[string]string{"pkg/store/a.go": "github.com/emicklei/go-restful-openapi/v2"}, nil},
		{"NamesSaySomething", map[string]string{"pkg/controller/utils/a.go": ""}, []string{`the name "utils" says nothing`}},
		{"OtherBuildsCountToo", map[string]string{"pkg/store/a_windows.go": "~/iam"}, []string{"pkg/store is of tier 2"}},
		{"WhatIsNoPackageIsLeftOut", map[string]string{
			"pkg/store/testdata/a.go": "~/iam", "pkg/.hidden/a.go": "", "pkg/_old/a.go": "", "pkg/other/go.mod": "module x", "pkg/other/a.go": "",
			"tools/x/main.go": "~/iam",
		}, nil},
		{"EveryViolationIsListed", map[string]string{"pkg/store/a.go": "~/iam ~/filter", "pkg/store/b.go": "~/iam", "pkg/odd/a.go": ""}, []string{
			"pkg/odd", "pkg/store/a.go:2", "pkg/store/a.go:3", "pkg/store/b.go:2",
		}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(module(t, c.files), "tiers.yaml", &stdout, &stderr)
			lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
			if len(c.want) == 0 {
				if code != 0 || stderr.Len() > 0 || !strings.Contains(stdout.String(), "keep the import rule") {
					t.Fatalf("ended with %d\n%s%s", code, &stdout, &stderr)
				}
				return
			}
			if code != 1 || len(lines) != len(c.want)+1 {
				t.Fatalf("ended with %d, want 1 and %d lines\n%s", code, len(c.want), &stderr)
			}
			for n, want := range c.want {
				if !strings.Contains(lines[n], want) {
					t.Errorf("line %d is %q, want %q in it", n+1, lines[n], want)
				}
			}
		})
	}
}

func TestFaults(t *testing.T) {
	good := module(t, nil)
	for _, c := range []struct {
		claim, root, rules, says string
	}{
		{"NoRules", good, "", "read the rules"},
		{"UnknownField", good, "tires: []", "tires"},
		{"PackageInTwoTiers", good, "tiers: [{tier: 1, packages: [pkg/a]}, {tier: 2, packages: [pkg/a]}]", `"pkg/a" is in the tiers 1 and 2`},
		{"BadPattern", good, "tiers: [{tier: 1, packages: ['pkg/[']}]", "syntax error"},
		{"NoModule", t.TempDir(), "tiers: []", "find the module"},
		{"ModuleWithoutAName", module(t, map[string]string{"go.mod": "go 1.26\n"}), "tiers: []", "names none"},
		{"BrokenFile", module(t, map[string]string{"pkg/a/a.go": "\"\""}), "tiers: []", "a.go"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rules.yaml")
			if c.rules != "" {
				if err := os.WriteFile(file, []byte(c.rules), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var stdout, stderr bytes.Buffer
			if code := run(c.root, file, &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), c.says) {
				t.Errorf("ended with %d and %q", code, &stderr)
			}
		})
	}
}

// A package that patterns of two tiers have is placed by neither.
func TestPatternsOfTwoTiersPlaceNothing(t *testing.T) {
	r := &rules{}
	for n, pattern := range []string{"pkg/a/*", "pkg/*/b"} {
		r.Tiers = append(r.Tiers, struct {
			Tier     int      `json:"tier"`
			Packages []string `json:"packages"`
		}{n, []string{pattern}})
	}
	if _, ok := r.tier("pkg/a/b"); ok {
		t.Error("pkg/a/b has a tier")
	}
	if tier, ok := r.tier("pkg/a/c"); !ok || tier != 0 {
		t.Errorf("pkg/a/c is of tier %d (%v)", tier, ok)
	}
}
