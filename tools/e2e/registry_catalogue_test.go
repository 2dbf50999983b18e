package e2e

import (
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/egress/egresstest"
)

// X16, X17, X37: a container registry that wants a password is the catalogue of the extensions in it.
func TestARegistryIsACatalogueOfExtensions(t *testing.T) {
	a, name, repo := admin(t), unique("shop"), unique("registry")
	in := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	push := httptest.NewServer(in)
	t.Cleanup(push.Close)
	registry := httptest.NewServer(egresstest.BasicAuth("ann", canary, in))
	t.Cleanup(registry.Close)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		charttest.Push(t, push.URL, "charts/"+name, version, charttest.ArtifactOf(name, version, packedChart(t, name, version)))
	}
	charttest.Push(t, push.URL, "charts/image", "9.9.9", charttest.Artifact{Config: charttest.Layer{Type: "image", Raw: []byte("{}")}})
	a.create(t, catalogue+"/repositories", obj{"apiVersion": "kubesphere.io/v1alpha1", "kind": "Repository", "metadata": obj{"name": repo},
		"spec": obj{"url": "oci" + strings.TrimPrefix(registry.URL, "http") + "/charts", "insecure": true,
			"basicAuth": obj{"username": "ann", "password": canary}}})
	extension := catalogue + "/extensions/" + name
	eventually(t, "the highest version is recommended", a.answersWith(http.StatusOK, extension, `"recommendedVersion":"1.1.0"`))
	for path, want := range map[string]string{
		catalogue + "/extensionversions/" + name + "-1.0.0":           `/charts/` + name + `:1.0.0"`,
		catalogue + "/repositories/" + repo:                           "all entries were taken over",
		packages + "/extensionversions/" + name + "-1.1.0" + "/files": base64.StdEncoding.EncodeToString([]byte("<svg/>")),
	} {
		eventually(t, "what is known of it", a.answersWith(http.StatusOK, path, want))
		if body := a.must(t, http.StatusOK, http.MethodGet, path, nil).body; strings.Contains(body, canary) {
			t.Errorf("%s has the password: %s", path, body)
		}
	}
	a.must(t, http.StatusNotFound, http.MethodGet, catalogue+"/extensions/image", nil)
	// The filters of the console's pages of extensions, those that nobody has chosen among them.
	const pages = "/kapis/kubesphere.io/v1alpha1/extensions?limit=-1&status="
	for _, c := range []struct {
		filter string
		total  string
	}{{"&available=true&enabled=false&q=%E5%95%86%E5%BA%97", "1"}, {"&available=false", "0"}, {"&enabled=true", "0"}, {"Installed", "0"}} {
		eventually(t, "the page shows it", a.answersWith(http.StatusOK, pages+c.filter+"&names="+name, `"totalItems":`+c.total))
	}

	// What Helm's own CLI pushes is read like that.
	_, helm := helmProgram(t)
	packed := filepath.Join(t.TempDir(), name+"-1.2.0.tgz")
	if err := os.WriteFile(packed, packedChart(t, name, "1.2.0"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), helm, "push", packed, "oci"+strings.TrimPrefix(push.URL, "http")+"/charts", "--plain-http")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("helm push: %v: %s", err, out)
	}
	a.resync(t, repo)
	eventually(t, "what Helm has pushed is recommended", a.answersWith(http.StatusOK, extension, `"recommendedVersion":"1.2.0"`))
	a.must(t, http.StatusOK, http.MethodDelete, catalogue+"/repositories/"+repo, nil)
	eventually(t, "nothing is left of a repository that is gone", a.is(http.StatusNotFound, http.MethodGet, extension))
}
