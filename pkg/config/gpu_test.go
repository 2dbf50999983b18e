package config_test

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestKindsOfGraphicsProcessors(t *testing.T) {
	if got := config.Default().GPU.Offered(); len(got) != 1 || got[0] != (config.GPUKind{ResourceName: "nvidia.com/gpu", ResourceType: "GPU", Default: true}) {
		t.Errorf("the default is %+v", got)
	}
	c, err := config.Parse([]byte("gpu: {kinds: [{resourceName: amd.com/gpu, resourceType: GPU}, {resourceName: x, resourceType: TPU, default: true}]}"), nil)
	if err != nil || len(c.GPU.Kinds) != 2 || c.GPU.Kinds[0] != (config.GPUKind{ResourceName: "amd.com/gpu", ResourceType: "GPU"}) || c.Validate() != nil {
		t.Errorf("%+v %v", c, err)
	}
	if c, err := config.Parse([]byte("gpu: {kinds: []}"), nil); err != nil || len(c.GPU.Offered()) != 0 {
		t.Errorf("none: %+v %v", c, err)
	}
	for text, want := range map[string]string{
		"{resourceName: 'a b', resourceType: GPU}": "gpu.kinds[0].resourceName",
		"{resourceName: a}":                        "gpu.kinds[0].resourceType",
		"{resourceName: a, resourceType: x}, {resourceName: a, resourceType: TPU}":                               "gpu.kinds[1].resourceName",
		"{resourceName: a, resourceType: x, default: true}, {resourceName: b, resourceType: TPU, default: true}": "gpu.kinds: 2",
	} {
		c, err := config.Parse([]byte("gpu: {kinds: ["+text+"]}"), nil)
		if err == nil {
			err = c.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
