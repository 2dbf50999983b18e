package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const mit = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"),
to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense,
and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN
THE SOFTWARE.
`

const gplNotice = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by the
Free Software Foundation, either version 3 of the License, or (at your option) any later version.
`

func TestALicenceIsAllowedOrAnError(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
		err   string
	}{
		"MIT":                     {map[string]string{"LICENSE": mit}, []string{"MIT"}, ""},
		"under other names":       {map[string]string{"COPYING.txt": mit, "LICENCE.md": mit}, []string{"MIT"}, ""},
		"other terms of the docs": {map[string]string{"LICENSE": mit, "LICENSE.docs": gplNotice}, []string{"MIT"}, ""},
		"none":                    {map[string]string{"README": mit}, nil, "no file with a licence"},
		"terms that nobody knows": {map[string]string{"LICENSE": "Do what you like on weekdays, and nothing on Sundays."}, nil, "read it"},
		"one that is not allowed": {map[string]string{"LICENSE": mit, "LICENSE.extra": gplNotice}, nil, "not among those that are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := licensesIn(dir)
			if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q and %v, want %q and %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestEqualProgramsHaveEqualDocuments(t *testing.T) {
	parts := []part{{"std", "go1.26", "", []string{"BSD-3-Clause"}}, {"example.com/m", "v1.0.0", "h1:x", []string{"MIT"}}}
	var texts [2][]byte
	for i := range texts {
		file := filepath.Join(t.TempDir(), "p.cdx.json")
		if err := write(file, "p", "abc", parts); err != nil {
			t.Fatal(err)
		}
		texts[i], _ = os.ReadFile(file)
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Errorf("two documents differ:\n%s\n%s", texts[0], texts[1])
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(texts[0]), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Version != "abc" || len(*bom.Components) != 2 || (*bom.Components)[1].PackageURL != "pkg:golang/example.com/m@v1.0.0" {
		t.Errorf("the document is of something else: %s", texts[0])
	}
}

func TestAModuleOfNoFolderIsNamed(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26", Deps: []*debug.Module{{Path: "example.com/m", Version: "v1.0.0"}}}
	if _, err := partsOf(info, nil); err == nil || !strings.Contains(err.Error(), "example.com/m v1.0.0 is linked") {
		t.Errorf("got %v, want an error that names the module", err)
	}
}
