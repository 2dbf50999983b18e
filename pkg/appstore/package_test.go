package appstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/appstore"
	"kapis.dev/ks-apiserver/pkg/boundedyaml"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

func TestAChartSaysWhatItIs(t *testing.T) {
	p, err := appstore.ReadChart(charttest.Pack(t, "shop", map[string]string{
		"Chart.yaml":  "name: Shop\nversion: 1.2.3+x\nhome: https://shop.example\ndescription: sells\nicon: i\nmaintainers: [{name: ann, email: a@example.com}]\n",
		"values.yaml": "a: 1\n",
		"crds/a.yaml": "kind: CustomResourceDefinition\nspec: {group: shop.example, names: {plural: orders, kind: Order}, " +
			"versions: [{name: v1}, {name: v2, storage: true}]}\n---\n# nothing\n---\nkind: Other\n",
		"templates/b.yaml": "kind: CustomResourceDefinition\nspec: {group: no.example, versions: [{name: v1, storage: true}]}\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "Shop" || p.Version != "1.2.3+x" || p.Home != "https://shop.example" || p.Description != "sells" || p.Icon != "i" ||
		len(p.Maintainers) != 1 || p.Maintainers[0].Email != "a@example.com" || len(p.Files) != 4 {
		t.Errorf("%+v", p)
	}
	if len(p.Resources) != 1 || p.Resources[0].Group != "shop.example" || p.Resources[0].Version != "v2" || p.Resources[0].Resource != "orders" ||
		p.Resources[0].Name != "Order" {
		t.Errorf("%+v", p.Resources)
	}
}

func TestX29WhatIsNoChartSaysWhy(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"no Chart.yaml":     {"values.yaml": ""},
		"no YAML":           {"Chart.yaml": "name: [\n"},
		"the name":          {"Chart.yaml": "name: ../x\nversion: 1.0.0\n"},
		"semantic version":  {"Chart.yaml": "name: x\nversion: latest\n"},
		"more than 256 KiB": {"Chart.yaml": strings.Repeat("#", 257<<10)},
	} {
		if _, err := appstore.ReadChart(charttest.Pack(t, "shop", files)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := appstore.ReadChart([]byte("hello")); err == nil {
		t.Error("a text is a chart")
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i, c := range "bcdefg" {
		bomb += fmt.Sprintf("%c: &%[1]c [%s]\n", c, strings.Repeat(fmt.Sprintf("*%c,", "abcdef"[i]), 9))
	}
	for file, files := range map[string]map[string]string{
		"Chart.yaml":  {"Chart.yaml": bomb},
		"crds/a.yaml": {"Chart.yaml": "name: x\nversion: 1.0.0\n", "crds/a.yaml": bomb},
	} {
		if _, err := appstore.ReadChart(charttest.Pack(t, "shop", files)); !errors.Is(err, boundedyaml.ErrExpands) || !strings.HasPrefix(err.Error(), file+": ") {
			t.Errorf("%s with aliases that multiply: %v", file, err)
		}
	}
}

func TestX29YAMLIsOfObjects(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	for text, ok := range map[string]bool{
		object: true, "# a\n---\n" + object + "---\n" + object: true, "": false, "# nothing": false, "kind: X": false, "[]": false, "a: [": false,
		"hello": false, object + "---\n{}\n": false, strings.Repeat(object+"---\n", 1001): false,
		// References that multiply.
		"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
			"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n": false,
	} {
		if err := appstore.CheckYAML([]byte(text)); (err == nil) != ok {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

func FuzzPackages(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"))
	f.Add([]byte("a: &a [*a]\n---\n"))
	f.Add(charttest.Pack(f, "shop", map[string]string{"Chart.yaml": "name: shop\nversion: 1.0.0\n", "crds/a.yaml": "kind: CustomResourceDefinition\n"}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_ = appstore.CheckYAML(raw)
		if p, err := appstore.ReadChart(raw); err == nil && (appstore.CheckName(p.Name) != nil || p.Version == "") {
			t.Errorf("%q %q", p.Name, p.Version)
		}
	})
}
