package idptest

import (
	"encoding/json"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// Directory returns a directory with these entries as if the configuration file had them. An entry needs a name; by default its type is
// "Test", and its mapping manual. The directory watches no Secrets: it is complete.
func Directory(t testing.TB, entries ...*idp.Entry) *idp.Directory {
	t.Helper()
	by, types := map[string]*idp.Entry{}, map[string]idp.Type{}
	var file [][]byte
	for _, e := range entries {
		kind := e.Type
		if kind == "" {
			kind = "Test"
		}
		by[e.Name] = e
		types[kind] = idp.Type{Name: kind, Open: func(_ []byte, o idp.OpenOptions) (idp.Provider, error) {
			return by[o.Name].Provider, by[o.Name].Fault
		}}
		raw, err := json.Marshal(map[string]any{
			"name": e.Name, "type": kind, "displayName": e.DisplayName, "mappingMethod": e.Mapping, "hidden": e.Hidden, "disabled": e.Disabled,
		})
		if err != nil {
			t.Fatal(err)
		}
		file = append(file, raw)
	}
	options := idp.DirectoryOptions{File: file}
	for _, kind := range types {
		options.Types = append(options.Types, kind)
	}
	return idp.NewDirectory(options)
}
