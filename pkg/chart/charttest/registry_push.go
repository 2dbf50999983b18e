package charttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// The types of content that a chart of Helm has in a registry.
const (
	ConfigType      = "application/vnd.cncf.helm.config.v1+json"
	LayerType       = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	LegacyLayerType = "application/tar+gzip"
	manifestType    = "application/vnd.oci.image.manifest.v1+json"
)

// Layer is a blob of an artifact.
type Layer struct {
	Type string
	Raw  []byte
}

// Artifact is what a registry has under a tag.
type Artifact struct {
	Config      Layer
	Layers      []Layer
	Annotations map[string]string
}

// ArtifactOf returns a chart as Helm pushes it.
func ArtifactOf(name, version string, raw []byte) Artifact {
	config := `{"apiVersion":"v2","name":"` + name + `","version":"` + version + `"}`
	return Artifact{Config: Layer{ConfigType, []byte(config)}, Layers: []Layer{{LayerType, raw}}}
}

// Push puts an artifact into the registry at a URL, under a tag, and returns the digest of its manifest.
func Push(t testing.TB, registry, repository, tag string, a Artifact) string {
	t.Helper()
	put := func(method, path, mediaType string, raw []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, registry+"/v2/"+repository+path, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", mediaType)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusCreated {
			t.Fatalf("%s %s: %s", method, path, resp.Status)
		}
	}
	describe := func(l Layer) map[string]any {
		put(http.MethodPost, "/blobs/uploads/?digest="+digest(l.Raw), "application/octet-stream", l.Raw)
		return map[string]any{"mediaType": l.Type, "digest": digest(l.Raw), "size": len(l.Raw)}
	}
	layers := make([]any, 0, len(a.Layers))
	for _, l := range a.Layers {
		layers = append(layers, describe(l))
	}
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": describe(a.Config), "layers": layers,
		"annotations": a.Annotations})
	if err != nil {
		t.Fatal(err)
	}
	put(http.MethodPut, "/manifests/"+strings.ReplaceAll(tag, "+", "_"), manifestType, manifest)
	return digest(manifest)
}

func digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
