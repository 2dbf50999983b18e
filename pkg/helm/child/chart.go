package child

import (
	"bytes"
	"errors"
	"fmt"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// Bounds of a chart.
const (
	maxUnpacked = 64 << 20
	maxFiles    = 10000
)

// load reads the chart of a request. The SDK changes charts while it works on them, so each use takes one of its own.
func load(packed []byte) (*chartv2.Chart, error) {
	archive.MaxDecompressedChartSize = maxUnpacked
	c, err := func() (*chartv2.Chart, error) {
		files, err := archive.LoadArchiveFiles(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}
		if len(files) > maxFiles {
			return nil, fmt.Errorf("it has more than %d files", maxFiles)
		}
		c, err := loader.LoadFiles(files)
		if err != nil {
			return nil, err
		}
		if err := c.Validate(); err != nil {
			return nil, err
		}
		if c.Metadata.Type == "library" {
			return nil, errors.New("it is a library, which can't be installed")
		}
		wanted := make([]chart.Dependency, len(c.Metadata.Dependencies))
		for i, d := range c.Metadata.Dependencies {
			wanted[i] = d
		}
		return c, action.CheckDependencies(c, wanted)
	}()
	if err != nil {
		return nil, refused(helm.ReasonInvalid, fmt.Errorf("read the chart: %w", err))
	}
	return c, nil
}

func chartOf(c *chartv2.Chart) string { return c.Name() + " " + c.Metadata.Version }
