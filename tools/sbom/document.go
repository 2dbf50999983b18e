package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// write writes the CycloneDX document of a program of a version. It has neither a time nor a serial number, so that equal programs have
// equal documents.
func write(file, program, version string, parts []part) error {
	root := cdx.Component{BOMRef: program, Type: cdx.ComponentTypeApplication, Name: program, Version: version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}}
	components, refs := make([]cdx.Component, len(parts)), make([]string, len(parts))
	for i, p := range parts {
		refs[i] = "pkg:golang/" + p.path + "@" + p.version
		c := cdx.Component{BOMRef: refs[i], PackageURL: refs[i], Type: cdx.ComponentTypeLibrary, Name: p.path, Version: p.version}
		licenses := make(cdx.Licenses, len(p.licenses))
		for j, id := range p.licenses {
			licenses[j] = cdx.LicenseChoice{License: &cdx.License{ID: id}}
		}
		c.Licenses = &licenses
		if p.sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go.sum", Value: p.sum}}
		}
		components[i] = c
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &root}
	bom.Components, bom.Dependencies = &components, &[]cdx.Dependency{{Ref: program, Dependencies: &refs}}

	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom); err != nil {
		return fmt.Errorf("encode the document of %s: %w", program, err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the document of %s: %w", program, err)
	}
	return nil
}

// setting returns a build setting of a program, "" where it is not recorded.
func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
