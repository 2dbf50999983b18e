package record

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	ri "helm.sh/helm/v4/pkg/release"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// maxRecord bounds the record of a revision: a Secret has at most 1 MiB.
const maxRecord = 900 << 10

// Bounded refuses records that are too large before they are written, and so before any object is. What only people read is left
// out of them first.
type Bounded struct{ driver.Driver }

// Create implements driver.Creator.
func (d Bounded) Create(key string, r ri.Releaser) error {
	rel, ok := r.(*release.Release)
	if !ok {
		return fmt.Errorf("a record of the unknown type %T", r)
	}
	if err := Fit(rel); err != nil {
		return err
	}
	return d.Driver.Create(key, rel)
}

// Fit leaves README, CHANGELOG and static/ out of a record that is too large, and returns an error where it still is.
func Fit(rel *release.Release) error {
	size, err := recordSize(rel)
	if err != nil || size <= maxRecord {
		return err
	}
	if rel.Chart != nil {
		slim := *rel.Chart
		slim.Files = slices.DeleteFunc(slices.Clone(slim.Files), func(f *common.File) bool {
			return strings.HasPrefix(f.Name, "README") || strings.HasPrefix(f.Name, "CHANGELOG") || strings.HasPrefix(f.Name, "static/")
		})
		rel.Chart = &slim
		if size, err = recordSize(rel); err != nil || size <= maxRecord {
			return err
		}
	}
	return &helm.Error{Reason: helm.ReasonTooLarge, Message: fmt.Sprintf(
		"the record of the release has %d bytes, and a Secret has room for %d: make the chart or what it renders smaller", size, maxRecord)}
}

// recordSize returns how many bytes a record has as Helm stores it: JSON, compressed, in base64.
func recordSize(rel *release.Release) (int, error) {
	var size bytes.Buffer
	z, err := gzip.NewWriterLevel(&size, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(json.NewEncoder(z).Encode(rel), z.Close()); err != nil {
		return 0, err
	}
	return base64.StdEncoding.EncodedLen(size.Len()), nil
}
