package child

import (
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
	"kapis.dev/ks-apiserver/pkg/helm"
)

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
