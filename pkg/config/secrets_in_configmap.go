package config

import (
	"fmt"
	"reflect"
	"slices"
)

// configMapFolder is the sub-folder of the configuration with the file of the ConfigMap kubesphere-config; the Secret's is above it.
const configMapFolder = "configmap"

// secretKeys returns the keys of a file that hold secrets of ours, sorted. Sections that are not read are not searched.
func secretKeys(raw []byte) ([]string, error) {
	doc, err := document(raw)
	if err != nil {
		return nil, err
	}
	keys := secretsOf(doc, fields(reflect.TypeFor[Config]()), "")
	slices.Sort(keys)
	return keys, nil
}

func secretsOf(doc map[string]any, schema map[string]field, prefix string) (keys []string) {
	for lower, f := range schema {
		v, key := existing(doc, lower), prefix+f.name
		list, _ := v.([]any)
		switch section, isSection := v.(map[string]any); {
		case f.typ == reflect.TypeFor[Secret]():
			if v != nil && v != "" {
				keys = append(keys, key)
			}
		case f.typ == reflect.TypeFor[[]IdentityProvider]():
			if len(list) > 0 {
				keys = append(keys, key)
			}
		case f.sub != nil && isSection:
			keys = append(keys, secretsOf(section, f.sub, key+".")...)
		case f.typ.Kind() == reflect.Slice && f.typ.Elem().Kind() == reflect.Struct:
			of := fields(f.typ.Elem())
			for i, e := range list {
				if m, ok := e.(map[string]any); ok {
					keys = append(keys, secretsOf(m, of, fmt.Sprintf("%s[%d].", key, i))...)
				}
			}
		}
	}
	return keys
}
